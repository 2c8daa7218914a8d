//! What a workflow is: a name, and a function from stored input to stored output.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::Bounds;
use crate::engine::context::Ctx;
use crate::engine::error::Result;
use crate::engine::message::Message;
use crate::engine::scope::Scope;
use crate::engine::strategy::Policy;
use crate::engine::untyped::{Accepted, Untyped};
use crate::engine::witness::Witness;
use crate::location::Location;
use crate::storage::payload::{Codecs, Payload, PayloadError};

/// A workflow: an ordinary async function that survives the process.
///
/// Most workflows are written with [`#[workflow]`](macro@crate::workflow), which implements this trait; implementing
/// it by hand gives the same.
pub trait Workflow: Send + Sync + 'static {
    /// The type name under which instances are stored. Changing it orphans them.
    const NAME: &'static str;
    /// The version of the code that new instances, and new runs, begin with. A process that knows only an older version
    /// of the code leaves them alone.
    const VERSION: u32 = 1;
    /// What an instance is started with.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// What follows when it fails, and how long it may take.
    fn policy() -> Policy
    where
        Self: Sized,
    {
        Policy::default()
    }

    /// The messages that it accepts, for senders that know only their names: what is not listed here can't be sent by
    /// name. See [`Accepted`].
    fn accepted() -> Vec<Accepted>
    where
        Self: Sized,
    {
        Vec::new()
    }

    /// The function. Everything that it does to the outside world happens in steps.
    fn run(ctx: Ctx<Self>, input: Self::Input) -> impl Future<Output = Result<Self::Output>> + Send
    where
        Self: Sized;
}

/// Whatever stands for a workflow: a value of a type that is one (`Payment`), or the function that
/// [`#[workflow]`](macro@crate::workflow) leaves under the name of what was written (`payment`).
///
/// `As` tells the two apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow",
    label = "not a workflow",
    note = "put `#[workflow]` on the `async fn`, or implement `Workflow` for a type and pass a value of it"
)]
pub trait IntoWorkflow<As> {
    /// The workflow.
    type Workflow: Workflow;
}

impl<W: Workflow> IntoWorkflow<W> for W {
    type Workflow = W;
}

impl<W: Workflow, F: FnOnce() -> W> IntoWorkflow<fn() -> W> for F {
    type Workflow = W;
}

/// Says that a workflow accepts a message. Sending or awaiting another one does not compile.
#[diagnostic::on_unimplemented(
    message = "workflow `{Self}` does not accept the message `{M}`",
    label = "`{M}` is not among the messages that `{Self}` accepts",
    note = "add it where the workflow is defined: `#[workflow(accepts({M}))]`, or `impl Accepts<{M}> for {Self} {{}}`"
)]
pub trait Accepts<M: Message>: Workflow {}

/// The running function of one instance.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Payload>> + Send>>;

/// A workflow with its types taken off.
pub(crate) trait Erased: Send + Sync {
    /// Calls the function.
    fn call(&self, scope: Scope, input: Payload) -> Running;

    /// A value as its input, as it will be stored.
    fn input(&self, value: &Untyped, codecs: &Codecs) -> Result<Result<Payload, PayloadError>, String>;
}

/// A registered workflow.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    pub(crate) policy: Policy,
    /// The messages that can be sent by name.
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) erased: Arc<dyn Erased>,
    /// Who sees what its instances do, in a test.
    pub(crate) witness: Option<Arc<dyn Witness>>,
}

impl Definition {
    pub(crate) fn of<W: Workflow>() -> Self {
        Self {
            name: W::NAME,
            version: W::VERSION,
            policy: W::policy(),
            accepted: W::accepted(),
            erased: Arc::new(Typed::<W>(PhantomData)),
            witness: None,
        }
    }

    /// How much its instances may hold, if this is what holds for all.
    pub(crate) fn bounds(&self, of_all: Bounds) -> Bounds {
        let mut bounds = of_all;
        if let Some(change) = self.policy.bounds {
            change(&mut bounds);
        }
        bounds
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

struct Typed<W>(PhantomData<fn() -> W>);

/// Calls the function where it stays: its copies on the way there leave the stack before it is polled.
fn begin<W: Workflow>(ctx: Ctx<W>, input: W::Input) -> Pin<Box<impl Future<Output = Result<W::Output>> + Send>> {
    Box::pin(W::run(ctx, input))
}

impl<W: Workflow> Erased for Typed<W> {
    fn call(&self, scope: Scope, input: Payload) -> Running {
        Box::pin(async move {
            let facts = scope.shared_facts();
            let input = facts.codecs.unpack(&input).inspect_err(|error| {
                // What somebody started it with may be anything. That its key is not known here is not their mistake.
                if !matches!(error, PayloadError::Decode(_)) {
                    let asked = format!("workflow whose input it can read, which says: {error}");
                    scope.journal().lock().diverge(&Location::root(), &asked);
                }
            })?;
            let output = begin::<W>(Ctx::new(scope), input).await?;
            Ok(facts.pack(&output)?)
        })
    }

    fn input(&self, value: &Untyped, codecs: &Codecs) -> Result<Result<Payload, PayloadError>, String> {
        value.pack_as::<W::Input>(codecs)
    }
}

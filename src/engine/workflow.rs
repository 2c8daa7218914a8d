//! What a workflow is: a name, and a function from stored input to stored output.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::context::Ctx;
use crate::engine::error::Result;
use crate::engine::message::Message;
use crate::engine::scope::Scope;
use crate::storage::payload::Payload;

/// A workflow: an ordinary async function that survives the process.
///
/// Most workflows are written with [`#[workflow]`](macro@crate::workflow), which implements this trait; implementing
/// it by hand gives the same.
pub trait Workflow: Send + Sync + 'static {
    /// The type name under which instances are stored. Changing it orphans them.
    const NAME: &'static str;
    /// The version of the code that new instances begin with.
    const VERSION: u32 = 1;
    /// What an instance is started with.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The function. Everything that it does to the outside world happens in steps.
    fn run(ctx: Ctx<Self>, input: Self::Input) -> impl Future<Output = Result<Self::Output>> + Send
    where
        Self: Sized;
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
}

/// A registered workflow.
#[derive(Clone)]
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) erased: Arc<dyn Erased>,
}

impl Definition {
    pub(crate) fn of<W: Workflow>() -> Self {
        Self {
            name: W::NAME,
            erased: Arc::new(Typed::<W>(PhantomData)),
        }
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

impl<W: Workflow> Erased for Typed<W> {
    fn call(&self, scope: Scope, input: Payload) -> Running {
        Box::pin(async move {
            let codecs = scope.codecs().clone();
            let input = codecs.unpack(&input)?;
            let output = W::run(Ctx::new(scope), input).await?;
            Ok(codecs.pack(&output)?)
        })
    }
}

//! What a workflow is to the runtime: a name, and a function from stored input to stored output.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::context::Ctx;
use crate::engine::error::WorkflowError;
use crate::storage::payload::{Codecs, Payload};

/// A workflow: an ordinary async function that survives the process.
pub trait Workflow: Send + Sync + 'static {
    /// The type name under which instances are stored. Changing it orphans them.
    const NAME: &'static str;
    /// What an instance is started with.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The function. Everything that it does to the outside world happens in steps.
    fn run(ctx: Ctx, input: Self::Input) -> impl Future<Output = Result<Self::Output, WorkflowError>> + Send;
}

/// The running function of one instance.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Payload, WorkflowError>> + Send>>;

/// A workflow with its types taken off.
pub(crate) trait Erased: Send + Sync {
    /// Calls the function.
    fn call(&self, ctx: Ctx, input: Payload) -> Running;
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
            erased: Arc::new(Typed::<W>(std::marker::PhantomData)),
        }
    }
}

impl std::fmt::Debug for Definition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Definition")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

struct Typed<W>(std::marker::PhantomData<fn() -> W>);

impl<W: Workflow> Erased for Typed<W> {
    fn call(&self, ctx: Ctx, input: Payload) -> Running {
        Box::pin(async move {
            let codecs: Codecs = ctx.codecs();
            let input = codecs.unpack(&input)?;
            let output = W::run(ctx, input).await?;
            Ok(codecs.pack(&output)?)
        })
    }
}

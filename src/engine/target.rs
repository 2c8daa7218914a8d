//! What a built-in workflow starts for somebody else: an instance of a workflow that is known by its name.

use std::future::poll_fn;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::context::Ctx;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{ChildRequest, Manner, Request};
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, ClosePolicy, Failure, Flow, Reach};

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) workflow: String,
    pub(crate) version: u32,
    pub(crate) input: Payload,
    pub(crate) tags: Vec<(String, String)>,
    /// How long an instance may take.
    pub(crate) deadline: Option<Duration>,
    /// How it is let in.
    #[serde(default)]
    pub(crate) flow: Flow,
}

impl Target {
    /// Starts it under this id and lets it go. If it `tells_its_end`, the instance that starts it hears of that.
    pub(crate) async fn start<W>(&self, ctx: &Ctx<W>, instance: String, tells_its_end: bool) -> Result<(), Failure> {
        let mut operation = Operation::new(ctx.scope().clone(), Place::Next("start"));
        let request = || ChildRequest {
            state: ChildState {
                instance: instance.clone(),
                workflow: self.workflow.clone(),
                awaited: false,
                close: ClosePolicy::Abandon,
                closed: false,
                decided: None,
                reach: Reach::Waiting,
            },
            named: true,
            version: self.version,
            input: self.input.clone(),
            undo: None,
            manner: Manner {
                tells_its_end,
                tags: self.tags.clone(),
                deadline: self.deadline,
                flow: Box::new(self.flow.clone()),
            },
        };
        let begun = poll_fn(|cx| operation.poll_with(cx, || Ok(Request::Child(request()))));
        begun.await.map(drop)
    }
}

//! What observers hear of: each failure, once.

use std::sync::Arc;

use crate::clock::Millis;
use crate::ids::InstanceId;
use crate::storage::record::Failure;

/// Something failed. Observers hear of it once, when it is durable, and not again in replay. (A process that dies at
/// that very moment takes the news with it: the failure itself is stored.)
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incident {
    /// Whose failure it is.
    pub instance: InstanceId,
    /// The type name of its workflow.
    pub workflow: String,
    /// Which run of the instance, from one.
    pub run: u32,
    /// What happened, where, how often, and why.
    pub failure: Failure,
    /// What follows from it.
    pub consequence: Consequence,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consequence {
    /// The step is tried again then, in milliseconds since the epoch.
    Retry {
        /// When.
        at_ms: Millis,
    },
    /// The step has failed for good.
    StepFailed,
    /// The workflow has failed.
    WorkflowFailed,
}

/// Who hears of incidents. Called in the task of the instance, so it must not block.
pub type Observer = Arc<dyn Fn(&Incident) + Send + Sync>;

//! What observers hear of the lives of instances: when they start and how they end, once each.

use std::sync::Arc;

use crate::clock::Millis;
use crate::ids::InstanceId;
use crate::storage::record::Status;

/// Something happened in the life of an instance. Observers hear of it once, when it is durable, and not again in
/// replay. (A process that dies at that very moment takes the news with it: what happened is stored.)
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lifecycle {
    /// Whose life it is.
    pub instance: InstanceId,
    /// The type name of its workflow.
    pub workflow: String,
    /// When it happened.
    pub at_ms: Millis,
    /// What happened.
    pub moment: Moment,
}

/// What happens in the life of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Moment {
    /// It was started, or began another run after it had ended.
    Started,
    /// It ended like this.
    Ended(Status),
    /// It does not go on until somebody or something else changes: it is stuck, parked or in quarantine.
    PutAside(Status),
}

/// Who hears of the lives of instances. Called in the task that made it durable, so it must not block.
pub type LifecycleObserver = Arc<dyn Fn(&Lifecycle) + Send + Sync>;

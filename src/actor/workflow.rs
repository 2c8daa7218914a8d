//! The actor of one resident instance.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::actor::pump;
use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::ids::InstanceId;
use crate::spawn;

/// There is news. What it is stands in the store.
#[derive(Debug)]
pub(crate) struct Nudge;

/// Owns the pump of its instance.
pub(crate) struct WorkflowActor;

/// The pump, which ends with the actor. It begins before it: whoever waits for what the instance does would wait for
/// the actor's beginning as well.
pub(crate) struct Pumping {
    signal: Arc<Signal>,
    task: JoinHandle<()>,
}

impl Pumping {
    pub(crate) fn begin(shared: Arc<Shared>, instance: InstanceId, signal: Arc<Signal>) -> Self {
        let task = spawn::task(pump::run(shared, instance, Arc::clone(&signal)));
        Self { signal, task }
    }
}

impl Drop for Pumping {
    fn drop(&mut self) {
        // Whatever the pump was waiting for: a commit that was handed over is done without it.
        self.task.abort();
    }
}

impl Actor for WorkflowActor {
    type Msg = Nudge;
    type State = Pumping;
    type Arguments = Pumping;

    async fn pre_start(&self, _: ActorRef<Nudge>, pumping: Pumping) -> Result<Pumping, ActorProcessingErr> {
        Ok(pumping)
    }

    async fn handle(&self, _: ActorRef<Nudge>, _: Nudge, pumping: &mut Pumping) -> Result<(), ActorProcessingErr> {
        pumping.signal.notify();
        Ok(())
    }
}

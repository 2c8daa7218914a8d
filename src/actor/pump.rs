//! The task that runs one resident instance.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;

use crate::actor::changes::Changes;
use crate::actor::directory::Directory;
use crate::actor::load;
use crate::actor::signal::Signal;
use crate::clock::Clock;
use crate::engine::{Definition, Divergence, Execution, StepTask, Turn};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::scheduler::Alarms;
use crate::spawn;
use crate::storage::record::StepOutcome;
use crate::storage::{Activation, Condition, Error, Namespace, Store};

/// What all pumps share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) definitions: HashMap<&'static str, Definition>,
    pub(crate) directory: Directory,
    pub(crate) alarms: OnceLock<Alarms>,
    pub(crate) changes: Changes,
}

/// Why a pump stopped before its instance ended.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Storage(#[from] Error),
    #[error(transparent)]
    Divergence(#[from] Divergence),
    #[error("this process does not know workflow `{0}`")]
    UnknownWorkflow(String),
}

/// Runs an instance until it ends, or until it can't go on.
pub(crate) async fn run(shared: Arc<Shared>, instance: InstanceId, signal: Arc<Signal>) {
    let activation = shared.store.activate(&instance);
    let pump = Pump::new(&shared, &instance, &signal, &activation);
    if let Err(stopped) = pump.run().await {
        tracing::error!(%instance, reason = %stopped, "an instance stopped");
    }
    shared.store.deactivate(&activation);
    while !shared.directory.retire(&instance, &signal) {
        // There was news after the end: it was for an instance that has nothing more to do.
        signal.lower();
    }
}

struct Pump<'a> {
    shared: &'a Arc<Shared>,
    namespace: Namespace,
    signal: &'a Signal,
    activation: &'a Activation,
    steps: mpsc::UnboundedSender<(Location, StepOutcome)>,
    outcomes: mpsc::UnboundedReceiver<(Location, StepOutcome)>,
}

impl<'a> Pump<'a> {
    fn new(shared: &'a Arc<Shared>, instance: &'a InstanceId, signal: &'a Signal, activation: &'a Activation) -> Self {
        // As many messages as there are running steps, and no more.
        let (steps, outcomes) = mpsc::unbounded_channel();
        Self {
            shared,
            namespace: shared.store.namespace(instance),
            signal,
            activation,
            steps,
            outcomes,
        }
    }

    async fn run(mut self) -> Result<(), Stopped> {
        let Some(mut execution) = self.load()? else {
            return Ok(());
        };
        loop {
            if self.turn(&mut execution).await? {
                return Ok(());
            }
            self.wait(&mut execution).await?;
        }
    }

    fn load(&self) -> Result<Option<Execution>, Stopped> {
        let snapshot = self.shared.store.snapshot(self.namespace.shard())?;
        let Some(loaded) = load::load(&self.namespace, &*snapshot)? else {
            return Ok(None);
        };
        if loaded.state.status.is_terminal() {
            return Ok(None);
        }
        let Some(definition) = self.shared.definitions.get(loaded.origin.workflow.as_str()) else {
            return Err(Stopped::UnknownWorkflow(loaded.origin.workflow));
        };
        let codecs = self.shared.store.codecs().clone();
        Ok(Some(Execution::new(self.namespace.clone(), loaded, definition, codecs)))
    }

    /// Takes turns until the instance rests with everything durable. Tells whether it ended.
    async fn turn(&mut self, execution: &mut Execution) -> Result<bool, Stopped> {
        loop {
            let Turn {
                commit,
                steps,
                wait,
                end,
            } = execution.turn(self.shared.clock.now_ms())?;
            for (location, task) in steps {
                self.start_step(location, task);
            }
            let Some(mut commit) = commit else {
                return Ok(false);
            };
            commit.require(Condition::Current(self.activation.clone()));
            self.shared.store.commit(commit).await?;
            self.shared.changes.tell(self.namespace.instance());
            if end.is_some() {
                return Ok(true);
            }
            if let (Some(at), Some(alarms)) = (wait.alarm_at_ms, self.shared.alarms.get()) {
                alarms.armed(at, self.namespace.instance());
            }
            if !execution.committed() {
                return Ok(false);
            }
        }
    }

    /// Waits until a step ends or somebody has news.
    async fn wait(&mut self, execution: &mut Execution) -> Result<(), Stopped> {
        tokio::select! {
            outcome = self.outcomes.recv() => {
                let mut next = outcome;
                while let Some((location, outcome)) = next {
                    execution.step_ended(location, outcome);
                    next = self.outcomes.try_recv().ok();
                }
            }
            () = self.signal.wait() => {
                self.signal.lower();
                let snapshot = self.shared.store.snapshot(self.namespace.shard())?;
                execution.refresh_inbox(load::inbox(&self.namespace, &*snapshot)?);
            }
        }
        Ok(())
    }

    fn start_step(&self, location: Location, task: StepTask) {
        let steps = self.steps.clone();
        spawn::task(async move {
            let outcome = task().await;
            // A pump that is gone has no use for it: the step runs again when the instance is next activated.
            let _ = steps.send((location, outcome));
        });
    }
}

//! The task that runs one resident instance.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::actor::changes::Changes;
use crate::actor::directory::Directory;
use crate::actor::load;
use crate::actor::signal::Signal;
use crate::clock::Clock;
use crate::engine::{AttemptEnd, Begin, Definition, Divergence, Execution, Turn};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::scheduler::Alarms;
use crate::spawn;
use crate::storage::{Activation, Condition, Error, Namespace, Refusal, Store};

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

/// How an attempt ended, and which.
type Ended = (Location, u32, AttemptEnd);

struct Pump<'a> {
    shared: &'a Arc<Shared>,
    namespace: Namespace,
    signal: &'a Signal,
    activation: &'a Activation,
    /// The revision of the instance as it was read, until the first commit.
    revision_read: Option<u64>,
    attempts: HashMap<Location, AbortHandle>,
    ended: mpsc::UnboundedSender<Ended>,
    endings: mpsc::UnboundedReceiver<Ended>,
}

impl<'a> Pump<'a> {
    fn new(shared: &'a Arc<Shared>, instance: &'a InstanceId, signal: &'a Signal, activation: &'a Activation) -> Self {
        // As many messages as there are running attempts, and no more.
        let (ended, endings) = mpsc::unbounded_channel();
        let namespace = shared.store.namespace(instance);
        Self {
            shared,
            namespace,
            signal,
            activation,
            revision_read: None,
            attempts: HashMap::new(),
            ended,
            endings,
        }
    }

    async fn run(mut self) -> Result<(), Stopped> {
        loop {
            match self.stay().await {
                // A commit of the activation before this one arrived after the instance was read. Read it again.
                Err(Stopped::Storage(Error::Refused(Refusal::Revision { .. }))) => self.cancel_all(),
                ended => return ended,
            }
        }
    }

    /// Runs the instance from what is stored.
    async fn stay(&mut self) -> Result<(), Stopped> {
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

    fn load(&mut self) -> Result<Option<Execution>, Stopped> {
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
        self.revision_read = Some(loaded.state.revision);
        let codecs = self.shared.store.codecs().clone();
        Ok(Some(Execution::new(self.namespace.clone(), loaded, definition, codecs)))
    }

    /// Takes turns until the instance rests with everything durable. Tells whether it ended.
    async fn turn(&mut self, execution: &mut Execution) -> Result<bool, Stopped> {
        loop {
            let Turn {
                commit,
                begin,
                cancel,
                alarm_at_ms,
                ended,
            } = execution.turn(self.shared.clock.now_ms())?;
            for location in cancel {
                self.cancel(&location);
            }
            for attempt in begin {
                self.begin(attempt);
            }
            let Some(mut commit) = commit else {
                return Ok(false);
            };
            commit.require(Condition::Current(self.activation.clone()));
            // A commit that an earlier activation had handed over may have been on its way while the instance was
            // read. It comes before the first commit of this one, which therefore notices.
            if let Some(revision) = self.revision_read.take() {
                commit.require(Condition::Revision(self.namespace.instance().clone(), revision));
            }
            self.shared.store.commit(commit).await?;
            self.shared.changes.tell(self.namespace.instance());
            if ended {
                self.report_unawaited(execution);
                return Ok(true);
            }
            if let (Some(at), Some(alarms)) = (alarm_at_ms, self.shared.alarms.get()) {
                alarms.armed(at, self.namespace.instance());
            }
            if !execution.committed() {
                return Ok(false);
            }
        }
    }

    /// Waits until an attempt ends or somebody has news.
    async fn wait(&mut self, execution: &mut Execution) -> Result<(), Stopped> {
        tokio::select! {
            ended = self.endings.recv() => {
                let mut next = ended;
                while let Some((location, number, end)) = next {
                    self.attempts.remove(&location);
                    execution.attempt_ended(&location, number, end, self.shared.clock.now_ms());
                    next = self.endings.try_recv().ok();
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

    /// Runs an attempt in a task of its own: a slow, blocking or panicking one harms nobody else.
    fn begin(&mut self, attempt: Begin) {
        let Begin {
            location,
            number,
            attempting,
            timeout,
            ..
        } = attempt;
        let (ended, at) = (self.ended.clone(), location.clone());
        let task = spawn::task(async move {
            let guarded = AssertUnwindSafe(attempting).catch_unwind();
            let end = match timeout {
                Some(timeout) => match tokio::time::timeout(timeout, guarded).await {
                    Ok(returned) => AttemptEnd::of(returned),
                    Err(_) => AttemptEnd::TimedOut,
                },
                None => AttemptEnd::of(guarded.await),
            };
            // A pump that is gone has no use for it: the attempt is made again when the instance is next activated.
            let _ = ended.send((location, number, end));
        });
        self.attempts.insert(at, task.abort_handle());
    }

    fn cancel(&mut self, location: &Location) {
        if let Some(task) = self.attempts.remove(location) {
            task.abort();
        }
    }

    fn cancel_all(&mut self) {
        for (_, task) in self.attempts.drain() {
            task.abort();
        }
    }

    fn report_unawaited(&self, execution: &mut Execution) {
        for step in execution.take_unawaited() {
            tracing::warn!(instance = %self.namespace.instance(), step, "a step was made and never awaited");
        }
    }
}

impl Drop for Pump<'_> {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

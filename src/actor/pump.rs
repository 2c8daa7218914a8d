//! The task that runs one resident instance.
//!
//! It reads what is stored (`loading`), comes to its gate if there is one (`gate`), takes turns until the instance rests (`turn`), waits for news, and says why it
//! stopped (`stopped`).

mod copy;
mod gate;
mod loading;
mod stopped;
mod turn;

use std::sync::Arc;
use std::task::Waker;

use crate::actor::attempts::{Attempts, Lane, Told};
use crate::actor::flying::Flying;
use crate::actor::load;
use crate::actor::probation::{Trial, is_suspect};
use crate::actor::shared::Shared;
use crate::actor::signal::{Leave, Signal};
use crate::actor::supervisor::{Blame, Supervisor};
use crate::clock::Millis;
use crate::engine::Execution;
use crate::ids::InstanceId;
use crate::storage::key::Arrival;
use crate::storage::record::{Flow, Priority};
use crate::storage::{Activation, Error, Namespace, Refusal};
use crate::telemetry;

use loading::Loading;
use stopped::{Stopped, settle};

/// How often an instance is read that does not get on in between. What makes it necessary to read it again is over when
/// it is read; more than this is a defect, and the supervisor's business.
const READS_MAX: u32 = 16;

/// Runs an instance until it ends, until it has had nothing to do for a while, or until it can't go on.
pub(crate) async fn run(shared: Arc<Shared>, instance: InstanceId, signal: Arc<Signal>) {
    let mut guard = Guard {
        shared: &shared,
        instance: &instance,
        signal: &signal,
        armed: true,
    };
    loop {
        let activation = shared.store.activate(&instance);
        let stopped = Pump::new(&shared, &signal, &activation).run().await;
        let settled = settle(&shared, &activation, stopped).await;
        shared.store.deactivate(&activation);
        shared.probation.left(&shared, &instance);
        match settled {
            Ok(()) if shared.directory.retire(&instance, &signal) => {
                shared.supervisor.rested(&instance);
                break;
            }
            // There was news meanwhile: it is looked at once more, from what is stored.
            Ok(()) => {
                signal.lower();
            }
            Err(Stopped::Asked) => {
                shared.directory.leave(&instance, &signal);
                break;
            }
            Err(stopped) => {
                shared.directory.leave(&instance, &signal);
                Supervisor::broke_down(&shared, &instance, stopped.blame(), stopped.to_string());
                break;
            }
        }
    }
    guard.armed = false;
}

/// Whatever becomes of the task (a panic, an actor that is killed), its place is given back and the instance goes on.
struct Guard<'a> {
    shared: &'a Arc<Shared>,
    instance: &'a InstanceId,
    signal: &'a Arc<Signal>,
    armed: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if self.armed && self.shared.directory.leave(self.instance, self.signal) {
            self.shared.probation.left(self.shared, self.instance);
            let panicking = std::thread::panicking();
            let reason = if panicking { "it panicked" } else { "its task was ended" };
            Supervisor::broke_down(self.shared, self.instance, Blame::Instance, reason.to_owned());
        }
    }
}

struct Pump<'a> {
    shared: &'a Arc<Shared>,
    namespace: Namespace,
    signal: &'a Arc<Signal>,
    activation: &'a Activation,
    workflow: Arc<str>,
    /// The revision of the instance as it was read, until the first commit.
    revision_read: Option<u64>,
    /// The revision at which it was read last, and how often.
    reads: (u64, u32),
    /// The last message that the instance can have seen.
    seen: u64,
    /// The last one in its inbox that was read.
    read: Option<Arrival>,
    attempts: Attempts,
    flying: Flying<'a>,
    /// Deaths of the process since the instance last got anywhere, and its completions then.
    crashes: Option<(u32, u64)>,
    trial: Option<Trial<'a>>,
    /// Whether it is no suspect any more.
    cleared: bool,
    /// Whether it is written that it was put aside.
    held: bool,
    flow: Flow,
    /// The lane that it has a place of, if lanes have limits.
    lane: Option<Arc<str>>,
}

impl<'a> Pump<'a> {
    fn new(shared: &'a Arc<Shared>, signal: &'a Arc<Signal>, activation: &'a Activation) -> Self {
        let workflow = Arc::from("");
        let lane = Lane {
            priority: Priority::Normal,
            workflow: Arc::clone(&workflow),
            queue: None,
        };
        Self {
            shared,
            namespace: shared.store.namespace(activation.instance()),
            signal,
            activation,
            revision_read: None,
            reads: (0, 0),
            seen: 0,
            read: None,
            attempts: Attempts::new(shared, lane),
            workflow,
            flying: Flying::new(shared, activation.instance()),
            crashes: None,
            trial: None,
            cleared: false,
            held: false,
            flow: Flow::default(),
            lane: None,
        }
    }

    async fn run(mut self) -> Result<(), Stopped> {
        let ended = self.stay_on().await;
        self.flying.leave();
        ended
    }

    async fn stay_on(&mut self) -> Result<(), Stopped> {
        loop {
            let stayed = self.stay().await;
            let again = self.reads.1 < READS_MAX;
            match stayed {
                // A commit of the activation before this one arrived after the instance was read. Read it again.
                Err(Stopped::Storage(Error::Refused(Refusal::Revision { .. }))) if again => {}
                // A promise was decided while the instance gave it up. The decision is in the inbox: read it again.
                Err(Stopped::Storage(Error::Refused(Refusal::Duplicate(_)))) if again => {}
                // Somebody else has begun an activation.
                Err(Stopped::Storage(Error::Refused(Refusal::StaleActivation))) => return Err(Stopped::Asked),
                ended => return ended,
            }
        }
    }

    /// Runs the instance from what is stored.
    async fn stay(&mut self) -> Result<(), Stopped> {
        let mut execution = match self.load()? {
            Loading::Runs(execution) => execution,
            Loading::Comes(state, deadline) => return self.come_to_gate(state, deadline).await,
            Loading::Missed(state, told) => return self.hear_of_it(state, told).await,
            Loading::Ends(ends) => return self.end_at_gate(ends).await,
            Loading::Rests => return Ok(()),
        };
        execution.tell_of_wakes(Waker::from(Arc::clone(self.signal)));
        loop {
            if self.turn(&mut execution).await? {
                return Ok(());
            }
            self.wait(&mut execution).await?;
        }
    }

    /// Whether it may run. If this may be what the process dies of, it has to leave until no other suspect runs.
    fn may_run(&mut self) -> bool {
        if self.cleared || self.trial.is_some() || !is_suspect(self.deaths(), self.shared.config.crash_limit) {
            return true;
        }
        self.trial = self.shared.probation.enter(self.shared, self.namespace.instance());
        self.trial.is_some()
    }

    /// It has run alone for a while. Others may now as well, and what they do is not its fault.
    fn clear(&mut self) {
        self.cleared = true;
        self.flying.is_cleared();
        self.trial = None;
    }

    fn deaths(&self) -> u32 {
        self.crashes.map_or(0, |(deaths, _)| deaths)
    }

    fn nudge_courier(&self) {
        if let Some(courier) = self.shared.courier.get() {
            courier.nudge();
        }
    }

    /// Waits until an attempt ends or somebody has news; if neither has to come soon, until that was long enough.
    async fn wait(&mut self, execution: &mut Execution) -> Result<(), Stopped> {
        let idle = self.attempts.is_empty();
        // What wakes it from outside must find it here, or what comes of it would depend on when it left.
        let may_leave = idle && !execution.may_be_woken();
        if idle {
            self.rested();
            match self.signal.leave() {
                Leave::Stay if may_leave && self.shared.config.idle.is_zero() => return Err(Stopped::Idle),
                Leave::Stay => {}
                Leave::IfIdle => return Err(Stopped::Idle),
                Leave::Settled | Leave::Now => return Err(Stopped::Asked),
            }
        }
        if !idle && self.signal.leave() == Leave::IfIdle {
            self.signal.stay();
            self.shared.idle.ask_another();
        }
        let _rest = idle.then(|| self.shared.idle.rest(self.signal, self.lane.as_ref()));
        tokio::select! {
            // The order makes no difference, but it has to be the same one in a simulation.
            biased;
            told = self.attempts.told() => self.hear(execution, told),
            () = self.signal.wait() => {
                self.signal.lower();
                self.look(execution)?;
            }
            () = tokio::time::sleep(self.shared.config.idle), if may_leave => return Err(Stopped::Idle),
            () = over(self.trial.as_mut()), if self.trial.is_some() => self.clear(),
        }
        Ok(())
    }

    /// Reads what has come into the inbox since it was last read. Nobody else takes anything out of it meanwhile, and what
    /// comes later lies behind.
    fn look(&mut self, execution: &mut Execution) -> Result<(), Stopped> {
        self.seen = self.shared.store.delivered(self.namespace.shard());
        let snapshot = self.shared.store.snapshot(self.namespace.shard())?;
        let come = load::inbox_behind(&self.namespace, &*snapshot, self.read)?;
        self.read = come.back().map(|(arrival, _)| *arrival).or(self.read);
        telemetry::inbox(&self.workflow, execution.add_to_inbox(come));
        Ok(())
    }

    /// Whoever comes to rest lets other suspects go on.
    fn rested(&mut self) {
        self.flying.rests();
        self.trial = None;
        self.shared.supervisor.rested(self.namespace.instance());
    }

    /// What attempts tell. Of their progress the execution knows already, and stores it in the turn that follows.
    fn hear(&mut self, execution: &mut Execution, first: Told) {
        let mut next = Some(first);
        while let Some(told) = next {
            if let Told::Ended(location, id, end) = told {
                self.flying.ended(id);
                if let Some(end) = end {
                    execution.attempt_ended(&location, id, end, self.shared.clock.now_ms());
                }
            }
            next = self.attempts.try_told();
        }
    }

    /// Tells the scheduler again, also of an alarm that it has rung: the clock may have been set back since.
    fn arm(&self, alarm_at_ms: Option<Millis>) {
        if let (Some(at), Some(alarms)) = (alarm_at_ms, self.shared.alarms.get()) {
            alarms.armed(at, self.namespace.instance());
        }
    }
}

/// Waits until a trial is over, if there is one.
async fn over(trial: Option<&mut Trial<'_>>) {
    match trial {
        Some(trial) => trial.over().await,
        None => std::future::pending().await,
    }
}

//! The task that runs one resident instance.

mod copy;
mod gate;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use crate::actor::attempts::{Attempts, Lane, Told};
use crate::actor::flying::Flying;
use crate::actor::gate::{flow as flow_of, leave as leave_gate, stand};
use crate::actor::hold::{self, Held};
use crate::actor::load;
use crate::actor::probation::{Trial, is_suspect};
use crate::actor::shared::Shared;
use crate::actor::signal::{Leave, Signal};
use crate::actor::start;
use crate::actor::supervisor::{Blame, Supervisor};
use crate::actor::watchdog::At;
use crate::clock::Millis;
use crate::engine::{Begin, Divergence, Execution, Moment, Turn};
use crate::ids::InstanceId;
use crate::limits::PANICS_MAX;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Flow, Outgoing, Priority, Runnable, Stand, State, Status};
use crate::storage::{Activation, Condition, Error, Namespace, Refusal};
use crate::telemetry;

use gate::EndsAtGate;

/// How often an instance is read that does not get on in between. What makes it necessary to read it again is over when
/// it is read; more than this is a defect, and the supervisor's business.
const READS_MAX: u32 = 16;

/// Why a pump stopped.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Storage(#[from] Error),
    #[error(transparent)]
    Divergence(#[from] Divergence),
    #[error("this process does not know workflow `{0}`")]
    UnknownWorkflow(String),
    #[error("this process knows workflow `{workflow}` up to version {known}, and the instance is of version {version}")]
    UnknownVersion { workflow: String, version: u32, known: u32 },
    #[error("its function panicked: {0}")]
    Panicked(String),
    #[error("somebody else needs the instance")]
    Asked,
    #[error("it has nothing to do")]
    Idle,
}

impl Stopped {
    /// A commit that no store would take is the instance's own; that a store can't be reached is not.
    fn blame(&self) -> Blame {
        match self {
            Self::Storage(Error::TooLarge { .. } | Error::Refused(_)) => Blame::Instance,
            Self::Storage(_) => Blame::Store,
            Self::Divergence(_) | Self::Panicked(_) | Self::Asked | Self::Idle => Blame::Instance,
            Self::UnknownWorkflow(_) | Self::UnknownVersion { .. } => Blame::Instance,
        }
    }
}

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

/// Writes down why an instance can't go on, if that is something to write down.
async fn settle(shared: &Shared, activation: &Activation, stopped: Result<(), Stopped>) -> Result<(), Stopped> {
    let (status, reason, report) = match stopped {
        Ok(()) | Err(Stopped::Idle) => return Ok(()),
        Err(Stopped::Divergence(divergence)) => {
            let report = shared.store.codecs().pack(&divergence).ok();
            (Status::Stuck, divergence.to_string(), report)
        }
        Err(unknown @ (Stopped::UnknownWorkflow(_) | Stopped::UnknownVersion { .. })) => {
            (Status::Parked, unknown.to_string(), None)
        }
        // What can't be read concerns this instance alone.
        Err(Stopped::Storage(error @ (Error::Corrupt(_) | Error::Decode { .. } | Error::InvalidKey(_)))) => {
            tracing::error!(instance = %activation.instance(), %error, code = error.code(), "an instance is damaged");
            (Status::Stuck, error.to_string(), None)
        }
        Err(stopped) => return Err(stopped),
    };
    let held = Held { status, reason, report };
    Ok(hold::put_aside(shared, activation, &held).await?)
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

/// What became of reading an instance.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment")]
enum Loading {
    Runs(Execution),
    /// It has to come to its gate first, in time for its deadline.
    Comes(State, Option<Millis>),
    /// It ends before it was its turn.
    Ends(EndsAtGate),
    /// Its children ended where it was exported from.
    Missed(State, Vec<Outgoing>),
    /// There is nothing to run.
    Rests,
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

    fn load(&mut self) -> Result<Loading, Stopped> {
        self.seen = self.shared.store.delivered(self.namespace.shard());
        let snapshot = self.shared.store.snapshot(self.namespace.shard())?;
        let Some(state) = load::state(&self.namespace, &*snapshot)? else {
            return Ok(Loading::Rests);
        };
        let status = state.status;
        if status.is_terminal() || status == Status::Quarantined {
            return Ok(Loading::Rests);
        }
        self.flow = flow_of(&self.namespace, &*snapshot)?;
        let waits = matches!(stand(&self.flow), Some(Stand::Waits { .. }));
        if !waits && start::begins_later(&state, self.shared.clock.now_ms()) {
            self.arm(state.alarm_at_ms);
            return Ok(Loading::Rests);
        }
        let deaths = load::activations(&self.namespace, &*snapshot)?;
        self.crashes = (deaths > 0).then_some((deaths, state.completions));
        if !self.may_run() {
            return Ok(Loading::Rests);
        }
        self.flying.take_charge(state.revision);
        // Before it is read: that may be what the process dies of.
        self.flying.running(state.revision..=state.revision, deaths);
        let mut loaded = load::load_from(&self.namespace, &*snapshot, state)?;
        let Some(definition) = self.shared.definitions.get(loaded.origin.workflow.as_str()) else {
            return Err(Stopped::UnknownWorkflow(loaded.origin.workflow));
        };
        // What newer code has begun, this code can't go on with.
        if loaded.origin.version > definition.version {
            return Err(Stopped::UnknownVersion {
                workflow: loaded.origin.workflow,
                version: loaded.origin.version,
                known: definition.version,
            });
        }
        match stand(&self.flow) {
            Some(Stand::Outside) => return Ok(Loading::Comes(loaded.state, loaded.origin.deadline_at_ms)),
            Some(Stand::Waits { .. }) => return Ok(self.waits_or_ends(&loaded, &definition.policy)),
            Some(Stand::Inside { .. }) | None => {}
        }
        let missed = self.what_it_missed(&loaded)?;
        if !missed.is_empty() {
            return Ok(Loading::Missed(loaded.state, missed));
        }
        self.workflow = Arc::from(loaded.origin.workflow.as_str());
        let lane = Lane {
            priority: self.flow.priority,
            workflow: Arc::clone(&self.workflow),
            queue: definition.policy.queue,
        };
        self.attempts = Attempts::new(self.shared, lane);
        self.lane = self.shared.admission.limited_lane(&self.workflow);
        self.held = matches!(status, Status::Stuck | Status::Parked);
        if status == Status::Pending {
            // It runs from now on, and nothing of that is stored yet: whoever waits for it looks again.
            self.shared.changes.tell_of(self.namespace.instance(), false);
        }
        self.revision_read = Some(loaded.state.revision);
        let times = if self.reads.0 == loaded.state.revision {
            self.reads.1
        } else {
            0
        };
        self.reads = (loaded.state.revision, times + 1);
        loaded.crashed = self.flying.crashed();
        // What goes back to the inbox from here on lies before that, and is known.
        let last = loaded.inbox.back().map(|(arrival, _)| *arrival);
        self.read = last.max(Some(Arrival::GIVEN_BACK_LAST));
        let codecs = self.shared.store.codecs().clone();
        let bounds = definition.bounds(self.shared.config.bounds);
        let namespace = self.namespace.clone();
        let mut execution = Execution::new(namespace, loaded, definition, codecs, bounds);
        execution.runs_with(self.flow.gate.as_ref().map(|gate| gate.key.clone()));
        Ok(Loading::Runs(execution))
    }

    fn nudge_courier(&self) {
        if let Some(courier) = self.shared.courier.get() {
            courier.nudge();
        }
    }

    /// Takes turns until the instance rests with everything durable. Tells whether it ended.
    async fn turn(&mut self, execution: &mut Execution) -> Result<bool, Stopped> {
        // Also after a rest: a suspect that backs off is one still.
        if !self.may_run() {
            return Err(Stopped::Idle);
        }
        loop {
            if self.signal.leave() == Leave::Now {
                return Err(Stopped::Asked);
            }
            let now = self.shared.clock.now_ms();
            // What has come by now wins over a time that is over.
            if execution.gives_up(now) {
                self.look(execution)?;
            }
            let Turn {
                commit,
                begin,
                alarm_at_ms,
                broadcasts,
                ended,
                mut posted,
                incidents,
                warnings,
                unawaited,
                panicked,
                ..
            } = {
                let instance = self.namespace.instance();
                let at = execution.whereabouts();
                self.signal.is_at(at.outside());
                let _watched = self.shared.watch.poll(instance, &self.workflow, At::Function(at));
                execution.turn(now)?
            };
            for warning in warnings {
                tracing::warn!(instance = %self.namespace.instance(), %warning);
            }
            if let Some(panic) = panicked
                && self.shared.supervisor.breakdowns(self.namespace.instance()) + 1 < PANICS_MAX
            {
                return Err(Stopped::Panicked(panic));
            }
            let (revision, completions) = execution.progress();
            let Some(mut commit) = commit else {
                self.begin(begin, execution, revision..=revision);
                self.arm(alarm_at_ms);
                self.broadcast(broadcasts);
                return Ok(false);
            };
            // They may begin before this commit, which has nothing in it that they follow from.
            self.begin(begin, execution, revision - 1..=revision);
            if !self.attempts.is_empty() {
                self.flying.running(revision - 1..=revision, self.deaths());
            }
            commit.require(Condition::Current(self.activation.clone()));
            if !ended {
                commit.seen(self.seen);
                self.charge(&mut commit, completions);
            }
            if std::mem::take(&mut self.held) {
                commit.delete(&self.namespace, &Local::Meta(Meta::Hold));
            }
            if execution.stands().is_terminal() {
                posted |= leave_gate(&mut commit, &self.namespace, &self.flow, revision);
            }
            // A commit that an earlier activation had handed over may have been on its way while the instance was
            // read. It comes before the first commit of this one, which therefore notices.
            if let Some(revision) = self.revision_read.take() {
                commit.require(Condition::Revision(self.namespace.instance().clone(), revision));
            }
            self.shared.store.commit(commit).await?;
            self.flying.stored();
            self.shared.changes.tell_of(self.namespace.instance(), ended);
            if posted {
                self.nudge_courier();
            }
            self.broadcast(broadcasts);
            for step in unawaited {
                tracing::warn!(instance = %self.namespace.instance(), step, "a step was made and dropped before it was polled: it did not run");
            }
            for incident in &incidents {
                self.shared.observers.tell(incident);
            }
            if ended {
                self.shared.broadcasts.close(self.namespace.instance());
                self.report_end(execution);
                return Ok(true);
            }
            if !execution.committed() {
                self.arm(alarm_at_ms);
                return Ok(false);
            }
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

    fn broadcast(&self, items: Vec<Payload>) {
        for item in items {
            self.shared.broadcasts.tell(self.namespace.instance(), item);
        }
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

    fn begin(&mut self, begin: Vec<Begin>, execution: &mut Execution, revisions: RangeInclusive<u64>) {
        if begin.is_empty() || self.shared.stopping.load(Ordering::Acquire) {
            // What does not begin is made when the instance is next activated.
            return;
        }
        let entering: Vec<_> = begin.into_iter().map(|attempt| self.attempts.enter(attempt)).collect();
        self.flying.begins(&entering);
        self.flying.running(revisions, self.deaths());
        for attempt in entering {
            let instance = self.namespace.instance();
            self.attempts
                .begin(instance, &execution.span(), attempt, self.flying.slot());
        }
    }

    /// Keeps count of the deaths of the process until the instance gets somewhere.
    fn charge(&mut self, commit: &mut crate::storage::Commit, completions: u64) {
        let Some((activations, before)) = self.crashes else {
            return;
        };
        if completions == before {
            commit.keep_runnable(&self.namespace, &Runnable::new(&*self.workflow, activations));
        } else {
            self.crashes = None;
            self.trial = None;
            commit.reset_runnable(&self.namespace, &Runnable::new(&*self.workflow, 0));
        }
    }

    /// Tells the scheduler again, also of an alarm that it has rung: the clock may have been set back since.
    fn arm(&self, alarm_at_ms: Option<Millis>) {
        if let (Some(at), Some(alarms)) = (alarm_at_ms, self.shared.alarms.get()) {
            alarms.armed(at, self.namespace.instance());
        }
    }

    fn report_end(&self, execution: &mut Execution) {
        let moment = match execution.stands() {
            status if status.is_terminal() => Moment::Ended(status),
            status => Moment::PutAside(status),
        };
        self.shared.happened(self.namespace.instance(), &self.workflow, moment);
    }
}

/// Waits until a trial is over, if there is one.
async fn over(trial: Option<&mut Trial<'_>>) {
    match trial {
        Some(trial) => trial.over().await,
        None => std::future::pending().await,
    }
}

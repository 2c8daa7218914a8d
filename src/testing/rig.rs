//! A rig that runs workflows in virtual time, and crashes them on purpose.
//!
//! The engine is real, the store is real (in memory), the clock is not: it stands still until the rig moves it,
//! so a year of sleep takes as long as a line of code. Attempts at steps run one after the other. When each is seen to
//! end, and which of several is looked at first, follows from a seed and from where the step stands, not from how
//! often the process died: so a run with a crash can be compared with one without.
//!
//! A [`Plan`] says what happens to the instance on the way: it stays in memory, it is dropped from memory at every
//! rest, or the process dies at a certain commit, before or after it became durable. The outcome must be the same.
//! `life.rs` has the stay in memory itself, `look.rs` what can be seen from outside.

mod life;
mod look;
mod recorded;
mod tell;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::actor;
use crate::clock::{Clock, Millis};
use crate::config::Bounds;
use crate::engine::{AttemptEnd, AttemptId, Definition, Divergence, Incident, Workflow};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::engines::Memory;
use crate::storage::payload::Payload;
use crate::storage::record::{self, Entry, Failure};
use crate::storage::{self, Commit, Namespace, OpenOptions, Pace, Store};

use life::Life;
pub(super) use look::history_of;
pub use recorded::replay_file;

/// What happens to an instance while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plan {
    /// It stays in memory.
    #[default]
    Live,
    /// It is dropped from memory whenever it rests.
    Evict,
    /// The process dies when it is about to make this commit (from one), which is lost.
    CrashBefore(u64),
    /// The process dies right after this commit became durable.
    CrashAfter(u64),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End<T> {
    /// With a result.
    Completed(T),
    /// With a failure.
    Failed(Failure),
    /// It waits for something that does not come by itself.
    Waiting,
}

/// A time that stands still until it is moved.
#[derive(Debug)]
pub(super) struct Still(pub(super) AtomicU64);

impl Clock for Still {
    fn now_ms(&self) -> Millis {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, at_ms: Millis) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.fetch_max(at_ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// The beginning of 2030.
pub(super) const BEGINNING_MS: Millis = 1_893_456_000_000;

/// What will happen to an instance at a certain time.
#[derive(Debug)]
enum Planned {
    Message(record::Message),
    /// The operation at a path is decided.
    Settle(String, record::Decided),
}

/// An attempt whose end has not been looked at.
#[derive(Debug)]
struct Pending {
    ends_at_ms: Millis,
    luck: u64,
    location: Location,
    id: AttemptId,
    end: AttemptEnd,
}

/// Runs instances of one workflow in virtual time.
pub struct Rig<W> {
    store: Store,
    clock: Arc<Still>,
    definition: Definition,
    plan: Plan,
    seed: u64,
    /// Attempts end at one of so many points in time, so far apart.
    spread: Option<(u64, Duration)>,
    audited: bool,
    bounds: Bounds,
    /// Attempts that ran when the process died count.
    charged: bool,
    /// Whether attempts ran when the process last died.
    died_running: bool,
    incidents: Vec<Incident>,
    warnings: Vec<String>,
    unawaited: Vec<String>,
    /// The time is not moved past this one.
    until_ms: Millis,
    commits: u64,
    messages: u64,
    arrivals: u64,
    cancelled_attempts: u64,
    /// How often the instance was loaded.
    lives: u32,
    /// The attempts that began: in which stay in memory, where, and which.
    begun: Vec<(u32, String, u32)>,
    /// Attempts that nobody waits for any more, if their results come late.
    late: Option<Vec<(Location, AttemptId)>>,
    broadcasts: Vec<Payload>,
    at_crash: BTreeMap<String, Entry>,
    pending: Vec<Pending>,
    planned: BTreeMap<(Millis, u64), (InstanceId, Planned)>,
    runtime: tokio::runtime::Runtime,
    workflow: std::marker::PhantomData<fn() -> W>,
}

/// How a store is opened whose time stands still, and that time.
fn machine() -> (OpenOptions, Arc<Still>) {
    let clock = Arc::new(Still(AtomicU64::new(BEGINNING_MS)));
    (OpenOptions::new().clock(Arc::<Still>::clone(&clock)), clock)
}

/// What runs attempts and commits: one thread, whose time stands still.
fn executor() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime of one thread can be made")
}

impl<W: Workflow> Rig<W> {
    /// A rig at the beginning of 2030, following `plan`.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let (options, clock) = machine();
        let runtime = executor();
        let store = {
            // The committer is a task of the rig's own thread, so that a commit costs no change of threads.
            let _inside = runtime.enter();
            options.in_task(Pace::default()).open_engine(Arc::new(Memory::new()))
        };
        Self::over(store.expect("a store in memory opens"), clock, runtime, plan, seed)
    }

    fn over(store: Store, clock: Arc<Still>, runtime: tokio::runtime::Runtime, plan: Plan, seed: u64) -> Self {
        Self {
            store,
            clock,
            definition: Definition::of::<W>(),
            plan,
            seed,
            spread: None,
            audited: false,
            bounds: Bounds::default(),
            charged: false,
            died_running: false,
            incidents: Vec::new(),
            warnings: Vec::new(),
            unawaited: Vec::new(),
            until_ms: Millis::MAX,
            commits: 0,
            messages: 0,
            arrivals: 0,
            cancelled_attempts: 0,
            lives: 0,
            begun: Vec::new(),
            late: None,
            broadcasts: Vec::new(),
            at_crash: BTreeMap::new(),
            pending: Vec::new(),
            planned: BTreeMap::new(),
            runtime,
            workflow: std::marker::PhantomData,
        }
    }

    /// Attempts end at one of `points` in time, `apart` from each other, as the seed says; those that end together
    /// become one commit. Otherwise attempts end at once, each in a commit of its own.
    #[must_use]
    pub fn spread(mut self, points: u64, apart: Duration) -> Self {
        self.spread = Some((points.max(1), apart));
        self
    }

    /// Whenever the instance rests, it is loaded a second time to see that this writes nothing.
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.audited = true;
        self
    }

    /// Instances may hold this much.
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Attempts that were running when the process died count as failed, as they do in a runtime.
    #[must_use]
    pub fn charged(mut self) -> Self {
        self.charged = true;
        self
    }

    /// Attempts that were cancelled, or that have ended, give a result all the same, again and again: what nobody waits
    /// for must change nothing.
    pub fn tell_late_results(&mut self) {
        self.late = Some(Vec::new());
    }

    /// The attempts that began: in which stay in memory, at which path, and which one there.
    pub fn attempts_begun(&self) -> &[(u32, String, u32)] {
        &self.begun
    }

    /// What observers have heard of so far.
    pub fn incidents(&self) -> &[Incident] {
        &self.incidents
    }

    /// What the log has heard of so far.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Steps that functions had made and dropped without polling them once when they returned.
    pub fn unawaited(&self) -> &[String] {
        &self.unawaited
    }

    /// The same store under other code of the same name: what a deploy does.
    ///
    /// # Panics
    ///
    /// If the name is another one.
    #[must_use]
    pub fn deploy<V: Workflow>(self) -> Rig<V> {
        assert_eq!(W::NAME, V::NAME, "other code of the same workflow has the same name");
        Rig {
            definition: Definition::of::<V>(),
            workflow: std::marker::PhantomData,
            store: self.store,
            clock: self.clock,
            plan: self.plan,
            seed: self.seed,
            spread: self.spread,
            audited: self.audited,
            bounds: self.bounds,
            charged: self.charged,
            died_running: self.died_running,
            incidents: self.incidents,
            warnings: self.warnings,
            unawaited: self.unawaited,
            until_ms: self.until_ms,
            commits: self.commits,
            messages: self.messages,
            arrivals: self.arrivals,
            cancelled_attempts: self.cancelled_attempts,
            lives: self.lives,
            begun: self.begun,
            late: self.late,
            broadcasts: self.broadcasts,
            at_crash: self.at_crash,
            pending: self.pending,
            planned: self.planned,
            runtime: self.runtime,
        }
    }

    /// Commits so far, the start not counted.
    pub fn commits(&self) -> u64 {
        self.commits
    }

    /// The virtual time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Starts an instance.
    pub fn start(&mut self, id: &str, input: &W::Input) {
        let instance = InstanceId::new(id).expect("an id for a test");
        let now = self.clock.now_ms();
        let origin = record::Origin {
            deadline_at_ms: W::policy().deadline_at_ms(now),
            ..record::Origin::new(W::NAME, W::VERSION, now, self.seed)
        };
        let input = self.store.codecs().pack(input).expect("the input can be stored");
        let commit = actor::start_commit(&self.store, &instance, &origin, input, None);
        self.write(commit).expect("a start is accepted");
    }

    /// Attempts that were cancelled because nobody waited for them any more.
    pub fn cancelled_attempts(&self) -> u64 {
        self.cancelled_attempts
    }

    /// Moves the time on.
    pub fn advance(&mut self, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    /// Runs an instance like [`Rig::run`], but not past this time from now.
    pub fn run_for(&mut self, id: &str, duration: Duration) -> Result<End<W::Output>, Divergence> {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.until_ms = self.clock.now_ms().saturating_add(millis);
        let end = self.run(id);
        self.clock.0.fetch_max(self.until_ms, Ordering::Relaxed);
        self.until_ms = Millis::MAX;
        end
    }

    /// Runs an instance until it ends or waits for a message, moving the time on over every sleep.
    pub fn run(&mut self, id: &str) -> Result<End<W::Output>, Divergence> {
        loop {
            match self.life(id)? {
                Life::Over => return Ok(self.end(id)),
                Life::Rests => return Ok(End::Waiting),
                Life::Lost => {}
            }
        }
    }

    /// What was recorded when the process died.
    pub fn at_crash(&self) -> &BTreeMap<String, Entry> {
        &self.at_crash
    }

    fn namespace(&self, id: &str) -> Namespace {
        self.store.namespace(&InstanceId::new(id).expect("an id for a test"))
    }

    fn write(&self, commit: Commit) -> storage::Result<storage::Receipt> {
        self.runtime.block_on(self.store.commit(commit))
    }
}

/// Plays a script in every mode: staying in memory, dropped from memory at every rest, and with a crash before and
/// after every commit. What the script returns must be the same in all of them.
///
/// # Panics
///
/// If it is not, with the plan that made the difference.
pub fn in_every_mode<W: Workflow, T: PartialEq + std::fmt::Debug>(seed: u64, script: impl Fn(&mut Rig<W>) -> T) -> T {
    let mut live = Rig::new(Plan::Live, seed);
    let expected = script(&mut live);
    let audited = script(&mut Rig::new(Plan::Live, seed).audited());
    assert!(audited == expected, "loading it again made a difference: {audited:?}");
    let crashes = (1..=live.commits()).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
    for plan in std::iter::once(Plan::Evict).chain(crashes) {
        let found = script(&mut Rig::new(plan, seed));
        assert!(
            found == expected,
            "{plan:?}: {found:?}, but staying in memory gave {expected:?}"
        );
    }
    expected
}

impl<W> std::fmt::Debug for Rig<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rig")
            .field("plan", &self.plan)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

//! A harness that runs workflows in virtual time, and crashes them on purpose.
//!
//! The engine is real, the store is real (in memory), the clock is not: it stands still until the harness moves it,
//! so a year of sleep takes as long as a line of code. Attempts at steps run one after the other, and which of several
//! finished ones is looked at first follows from a seed.
//!
//! A [`Plan`] says what happens to the instance on the way: it stays in memory, it is dropped from memory at every
//! rest, or the process dies at a certain commit, before or after it became durable. The outcome must be the same.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::actor;
use crate::clock::{Clock, Millis};
use crate::engine::{Accepts, AttemptEnd, Begin, Definition, Divergence, Execution, Message, Workflow};
use crate::ids::{InstanceId, MessageId};
use crate::location::Location;
use crate::storage::engines::Memory;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{self, Entry, Failure, Output, State};
use crate::storage::{self, Commit, Namespace, OpenOptions, Rows, Store};

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
struct Still(AtomicU64);

impl Clock for Still {
    fn now_ms(&self) -> Millis {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, at_ms: Millis) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        self.0.fetch_max(at_ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

/// Runs instances of one workflow in virtual time.
pub struct Harness<W> {
    store: Store,
    clock: Arc<Still>,
    definition: Definition,
    plan: Plan,
    seed: u64,
    commits: u64,
    arrivals: u64,
    /// Attempts that were begun and not looked at: location, number, how it ended.
    ended: VecDeque<(Location, u32, AttemptEnd)>,
    runtime: tokio::runtime::Runtime,
    workflow: std::marker::PhantomData<fn() -> W>,
}

impl<W: Workflow> Harness<W> {
    /// A harness at the beginning of 2030, following `plan`.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let clock = Arc::new(Still(AtomicU64::new(1_893_456_000_000)));
        let options = OpenOptions::new().clock(Arc::<Still>::clone(&clock));
        let store = options
            .open_engine(Arc::new(Memory::new()))
            .expect("a store in memory opens");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        Self {
            store,
            clock,
            definition: Definition::of::<W>(),
            plan,
            seed,
            commits: 0,
            arrivals: 0,
            ended: VecDeque::new(),
            runtime: runtime.expect("a runtime of one thread can be made"),
            workflow: std::marker::PhantomData,
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
        let commit = actor::start_commit::<W>(&self.store, &instance, input, self.clock.now_ms());
        self.write(commit.expect("the input can be stored"))
            .expect("a start is accepted");
    }

    /// Sends a message to an instance.
    pub fn send<M: Message>(&mut self, id: &str, message: &M)
    where
        W: Accepts<M>,
    {
        self.arrivals += 1;
        let namespace = self.namespace(id);
        let message = record::Message {
            name: M::NAME.to_owned(),
            id: MessageId::new(format!("message-{}", self.arrivals)).expect("a number is an id"),
            payload: self.store.codecs().pack(message).expect("the message can be stored"),
            sent_at_ms: self.clock.now_ms(),
        };
        let arrival = storage::key::Arrival {
            epoch: 1,
            number: self.arrivals,
        };
        let mut commit = Commit::new(namespace.shard());
        commit.deliver(&namespace, arrival, &message);
        self.write(commit).expect("a message is accepted");
    }

    /// Moves the time on.
    pub fn advance(&mut self, duration: Duration) {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
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

    /// The entries of an instance, by path.
    pub fn history(&self, id: &str) -> BTreeMap<String, Entry> {
        let (namespace, mut history) = (self.namespace(id), BTreeMap::new());
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let listed = namespace.list(&*snapshot, Rows::History(&Location::root()), &mut |local, row| {
            history.insert(format!("{local:?}"), row.decode::<Entry>()?);
            Ok(())
        });
        listed.expect("a history can be read");
        history
    }

    /// One stay of the instance in memory.
    fn life(&mut self, id: &str) -> Result<Life, Divergence> {
        self.ended.clear();
        let namespace = self.namespace(id);
        let Some(mut execution) = self.load(&namespace) else {
            return Ok(Life::Over);
        };
        loop {
            let turn = execution.turn(self.clock.now_ms())?;
            for location in turn.cancel {
                self.ended.retain(|(at, ..)| *at != location);
            }
            turn.begin.into_iter().for_each(|begin| self.attempt(begin));
            if let Some(commit) = turn.commit {
                self.commits += 1;
                if self.plan == Plan::CrashBefore(self.commits) {
                    return Ok(Life::Lost);
                }
                self.write(commit).expect("the commit of an instance is accepted");
                if self.plan == Plan::CrashAfter(self.commits) {
                    return Ok(Life::Lost);
                }
                if turn.ended {
                    return Ok(Life::Over);
                }
                if execution.committed() {
                    continue;
                }
            }
            if !self.ended.is_empty() {
                let (location, number, end) = self.next_ended();
                execution.attempt_ended(&location, number, end, self.clock.now_ms());
            } else if let Some(at) = turn.alarm_at_ms {
                self.clock.0.fetch_max(at, Ordering::Relaxed);
                if self.plan == Plan::Evict {
                    return Ok(Life::Lost);
                }
            } else {
                return Ok(Life::Rests);
            }
        }
    }

    fn load(&self, namespace: &Namespace) -> Option<Execution> {
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let loaded = actor::load_instance(namespace, &*snapshot).expect("an instance can be read")?;
        if loaded.state.status.is_terminal() {
            return None;
        }
        Some(Execution::new(
            namespace.clone(),
            loaded,
            &self.definition,
            self.store.codecs().clone(),
        ))
    }

    /// Runs an attempt to its end. It has had its effect, whatever becomes of its result.
    fn attempt(&mut self, begin: Begin) {
        let Begin {
            location,
            number,
            attempting,
            timeout,
        } = begin;
        let end = self.runtime.block_on(async {
            let guarded = futures_util::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(attempting));
            match timeout {
                Some(timeout) => match tokio::time::timeout(timeout, guarded).await {
                    Ok(returned) => AttemptEnd::of(returned),
                    Err(_) => AttemptEnd::TimedOut,
                },
                None => AttemptEnd::of(guarded.await),
            }
        });
        self.ended.push_back((location, number, end));
    }

    /// Which of several ended attempts is looked at first: the same one whenever it is between the same ones.
    fn next_ended(&mut self) -> (Location, u32, AttemptEnd) {
        let luck = |location: &Location, number: u32| {
            xxh3_64_with_seed(format!("{location:?} {number}").as_bytes(), self.seed)
        };
        let chosen = (0..self.ended.len()).min_by_key(|at| luck(&self.ended[*at].0, self.ended[*at].1));
        let at = chosen.expect("there is one");
        self.ended.remove(at).expect("the position was just found")
    }

    fn end(&self, id: &str) -> End<W::Output> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let output: Option<Output> = namespace
            .get(&*snapshot, &Local::Meta(Meta::Output))
            .expect("it can be read");
        if let Some(Output(payload)) = output {
            return End::Completed(self.store.codecs().unpack(&payload).expect("the output is of its type"));
        }
        let failure: Option<Failure> = namespace
            .get(&*snapshot, &Local::Meta(Meta::Failure))
            .expect("it can be read");
        failure.map_or(End::Waiting, End::Failed)
    }

    /// What is recorded of where an instance stands.
    pub fn state(&self, id: &str) -> State {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let state = namespace
            .get(&*snapshot, &Local::Meta(Meta::State))
            .expect("it can be read");
        state.expect("the instance exists")
    }

    fn namespace(&self, id: &str) -> Namespace {
        self.store.namespace(&InstanceId::new(id).expect("an id for a test"))
    }

    fn write(&self, commit: Commit) -> storage::Result<storage::Receipt> {
        self.store.try_submit(commit)?.wait()
    }
}

/// Plays a script in every mode: staying in memory, dropped from memory at every rest, and with a crash before and
/// after every commit. What the script returns must be the same in all of them.
///
/// # Panics
///
/// If it is not, with the plan that made the difference.
pub fn in_every_mode<W: Workflow, T: PartialEq + std::fmt::Debug>(
    seed: u64,
    script: impl Fn(&mut Harness<W>) -> T,
) -> T {
    let mut live = Harness::new(Plan::Live, seed);
    let expected = script(&mut live);
    let crashes = (1..=live.commits()).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
    for plan in std::iter::once(Plan::Evict).chain(crashes) {
        let found = script(&mut Harness::new(plan, seed));
        assert!(
            found == expected,
            "{plan:?}: {found:?}, but staying in memory gave {expected:?}"
        );
    }
    expected
}

impl<W> std::fmt::Debug for Harness<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness")
            .field("plan", &self.plan)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// How a stay in memory ended.
enum Life {
    Over,
    Rests,
    Lost,
}

//! A world of several workflows in virtual time: instances that start, message and outlive each other.
//!
//! Where the rig runs one instance, a world runs all of them, with a courier between them. It is one process: when
//! its plan says that it dies, everything in memory is gone, and the next process finds only what is stored. Who is
//! looked at first follows from a seed. `life.rs` has the process, `look.rs` what can be seen from outside.

mod hand;
mod life;
mod look;
mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::rig::{BEGINNING_MS, Plan, Still};
use crate::actor;
use crate::clock::{Clock, Millis};
use crate::engine::schedule::Schedule;
use crate::engine::topic::Topic;
use crate::engine::{Accepts, AttemptEnd, AttemptId, Definition, Divergence, Execution, Message, Workflow};
use crate::ids::{InstanceId, MessageId};
use crate::location::Location;
use crate::storage::engines::Memory;
use crate::storage::record::{self, Content};
use crate::storage::{Arrivals, Commit, OpenOptions, Store};

use hand::WorldHand;

/// An attempt whose end has not been looked at: where, which, and how.
type Ended = (Location, AttemptId, AttemptEnd);

/// An instance in memory.
struct Resident {
    execution: Execution,
    ended: Vec<Ended>,
    alarm_at_ms: Option<Millis>,
}

/// Something that happens at a certain time.
type Deed = Box<dyn FnOnce(&mut World) + Send>;

/// Several workflows, their instances, and a courier between them.
///
/// ```
/// # use everstep::testing::rig::{End, Plan};
/// # use everstep::testing::world::World;
/// # use everstep::{Ctx, Result, Workflow, ok};
/// # struct Greet; impl Workflow for Greet {
/// #     const NAME: &'static str = "greet"; type Input = String; type Output = String;
/// #     async fn run(_: Ctx<Self>, name: String) -> Result<String> { ok(format!("hello {name}")) } }
/// let mut world = World::new(Plan::Live, 1).workflow(Greet);
/// world.start(Greet, "a", &"kim".to_owned());
/// world.run()?;
/// assert_eq!(world.end(Greet, "a"), End::Completed("hello kim".to_owned()));
/// # Ok::<(), everstep::Divergence>(())
/// ```
pub struct World {
    store: Store,
    clock: Arc<Still>,
    definitions: HashMap<&'static str, Definition>,
    seed: u64,
    hand: WorldHand,
    /// The time is not moved past this one.
    until_ms: Millis,
    residents: BTreeMap<InstanceId, Resident>,
    /// Who has news.
    woken: BTreeSet<InstanceId>,
    planned: BTreeMap<(Millis, u64), Deed>,
    sent: u64,
    /// Whether the courier also comes while an instance takes its turns.
    restless: bool,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// A world at the beginning of 2030 with three shards, following `plan`.
    pub fn new(plan: Plan, seed: u64) -> Self {
        Self::with_shards(plan, seed, 3)
    }

    /// The same, with this many shards.
    pub fn with_shards(plan: Plan, seed: u64, shards: u16) -> Self {
        let clock = Arc::new(Still(AtomicU64::new(BEGINNING_MS)));
        let options = OpenOptions::new().clock(Arc::<Still>::clone(&clock)).shards(shards);
        let store = options
            .open_engine(Arc::new(Memory::new()))
            .expect("a store in memory opens");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        Self {
            hand: WorldHand::new(store.clone(), Arc::<Still>::clone(&clock), plan),
            store,
            clock,
            definitions: [Definition::of::<Topic>(), Definition::of::<Schedule>()]
                .map(|built_in| (built_in.name, built_in))
                .into(),
            seed,
            until_ms: Millis::MAX,
            residents: BTreeMap::new(),
            woken: BTreeSet::new(),
            planned: BTreeMap::new(),
            sent: 0,
            restless: false,
            runtime: runtime.expect("a runtime of one thread can be made"),
        }
    }

    /// Adds a workflow.
    #[must_use]
    pub fn workflow<W: Workflow>(mut self, _workflow: W) -> Self {
        let definition = Definition::of::<W>();
        self.definitions.insert(definition.name, definition);
        self
    }

    /// Has the courier come, when the seed draws so, also while an instance takes its turns: what it brings is in the inbox
    /// then, and the instance has not looked.
    #[must_use]
    pub fn restless(mut self) -> Self {
        self.restless = true;
        self
    }

    /// Commits so far: of instances and of the courier; what is done from outside is not counted.
    pub fn commits(&self) -> u64 {
        self.hand.commits()
    }

    /// The virtual time, in milliseconds since the epoch.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Starts an instance.
    pub fn start<W: Workflow>(&mut self, _workflow: W, id: &str, input: &W::Input) {
        let instance = InstanceId::new(id).expect("an id for a test");
        // Ids are derived from it: instances with the same one would send each other duplicates.
        let secret = xxh3_64_with_seed(id.as_bytes(), self.seed);
        let origin = record::Origin::new(W::NAME, W::VERSION, self.clock.now_ms(), secret);
        let input = self.store.codecs().pack(input).expect("the input can be stored");
        let commit = actor::start_commit(&self.store, &instance, &origin, input, None);
        self.outside(&instance, |_| commit);
    }

    /// Sends a message to an instance.
    pub fn send<W: Accepts<M>, M: Message>(&mut self, _workflow: W, id: &str, message: &M) {
        let payload = self.store.codecs().pack(message).expect("the message can be stored");
        let name = M::NAME.to_owned();
        self.put(id, Content::Told { name, payload });
    }

    /// Asks an instance to end.
    pub fn cancel(&mut self, id: &str, reason: &str) {
        let reason = reason.to_owned();
        self.put(id, Content::Cancel { reason });
    }

    /// Does something when this much time has passed.
    pub fn after(&mut self, wait: Duration, deed: impl FnOnce(&mut Self) + Send + 'static) {
        let wait = Millis::try_from(wait.as_millis()).unwrap_or(Millis::MAX);
        let at = self.clock.now_ms().saturating_add(wait);
        let number = self.planned.keys().map(|(_, number)| number + 1).max().unwrap_or(0);
        self.planned.insert((at, number), Box::new(deed));
    }

    /// Runs until nothing moves any more, moving the time on over every sleep.
    pub fn run(&mut self) -> Result<(), Divergence> {
        loop {
            if self.live()? {
                return Ok(());
            }
        }
    }

    /// The same, but not past this time from now.
    pub fn run_for(&mut self, duration: Duration) -> Result<(), Divergence> {
        let millis = Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX);
        self.until_ms = self.clock.now_ms().saturating_add(millis);
        self.run()?;
        self.clock.0.fetch_max(self.until_ms, Ordering::Relaxed);
        self.until_ms = Millis::MAX;
        Ok(())
    }

    /// Puts a message into an inbox from outside; for an instance that has ended it is nothing.
    fn put(&mut self, id: &str, content: Content) {
        self.sent += 1;
        let message = record::Message {
            id: MessageId::new(format!("message-{}", self.sent)).expect("a number is an id"),
            sent_at_ms: self.clock.now_ms(),
            from: None,
            content,
        };
        let instance = InstanceId::new(id).expect("an id for a test");
        let namespace = self.store.namespace(&instance);
        self.outside(&instance, |arrivals| {
            let mut commit = Commit::new(namespace.shard());
            commit.deliver(&namespace, arrivals.next_place(), &message);
            commit
        });
    }

    /// What somebody outside does: it is durable when they know.
    fn outside(&mut self, instance: &InstanceId, build: impl FnOnce(&mut Arrivals<'_>) -> Commit) {
        let shard = self.store.shard_of(instance);
        let done = self.runtime.block_on(async {
            let pending = self.store.submit_delivery(shard, build).await?;
            pending.durable().await
        });
        if done.is_ok() {
            self.woken.insert(instance.clone());
        }
    }
}

/// Plays a script in every mode: staying in memory, dropped from memory at every rest, and with a crash of the whole
/// world before and after every commit. What the script returns must be the same in all of them.
///
/// # Panics
///
/// If it is not, with the plan that made the difference.
pub fn in_every_world<T: PartialEq + std::fmt::Debug>(
    world: impl Fn(Plan) -> World,
    script: impl Fn(&mut World) -> T,
) -> T {
    let mut live = world(Plan::Live);
    let expected = script(&mut live);
    let crashes = (1..=live.commits()).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
    for plan in std::iter::once(Plan::Evict).chain(crashes) {
        let found = script(&mut world(plan));
        assert!(
            found == expected,
            "{plan:?}: {found:?}, but staying in memory gave {expected:?}"
        );
    }
    expected
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("hand", &self.hand)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

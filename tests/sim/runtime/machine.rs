//! The simulated machine: a clock that jumps, a disk that fails, chance with a seed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep::Shard;
use everstep::clock::{Clock, Millis};
use everstep::storage::Pace;
use everstep::storage::batch::Batch;
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot,
};
use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Plan};
use everstep::{Simulated, Turns};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ledger;
use super::mutation::Mutation;
use crate::chance::Chance;

/// The beginning of 2030.
const BEGINNING_MS: Millis = 1_893_456_000_000;

/// The longest single wait, as the clock of a real machine has one: a clock that was set forward is noticed then.
const WAIT_MAX: Duration = Duration::from_secs(1_800);

/// How often what goes wrong; none is never.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Odds {
    /// A commit is the last one of its process.
    pub(crate) crash: u64,
    /// The answer to a commit is lost.
    pub(crate) lost: u64,
    /// A commit is refused by a disk that can't be reached.
    pub(crate) unavailable: u64,
    /// A commit takes time.
    pub(crate) slow: u64,
    /// The disk is full from a commit on.
    pub(crate) full: u64,
    /// A process that was thought dead writes what it had in hand.
    pub(crate) zombie: u64,
    /// A nudge is lost.
    pub(crate) nudge: u64,
    /// A task that was woken lets others go first, so many times less one at most.
    pub(crate) turns: u64,
}

impl Odds {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        Self {
            crash: [0, 8, 20, 60][chance.below(4) as usize],
            lost: [0, 4, 20][chance.below(3) as usize],
            unavailable: [0, 0, 20][chance.below(3) as usize],
            slow: [0, 2, 8][chance.below(3) as usize],
            full: [0, 0, 0, 60][chance.below(4) as usize],
            zombie: [0, 0, 10][chance.below(3) as usize],
            nudge: [0, 0, 0, 10][chance.below(4) as usize],
            turns: [0, 2, 4][chance.below(3) as usize],
        }
    }
}

/// What a process was about to write, and the lease that it had for that.
type Written = (Lease, Vec<Batch>);

/// What is in hand at one shard: of the process that writes there, and of the one before it, which is dead.
#[derive(Debug, Default)]
struct Hands {
    living: Option<Written>,
    dead: Option<Written>,
}

/// By shard.
type InHand = Arc<Mutex<BTreeMap<u16, Hands>>>;

/// A disk, and what the last processes had in hand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Platter {
    memory: Memory,
    in_hand: InHand,
}

/// A machine for as long as it has power. The disk outlives it.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) clock: Arc<Wall>,
    pub(crate) power: Arc<Power>,
    simulated: Simulated,
}

/// Tells when the power went.
#[derive(Debug, Default)]
pub(crate) struct Power {
    gone: Notify,
}

impl Power {
    /// Waits until the machine dies at a commit.
    pub(crate) async fn gone(&self) {
        self.gone.notified().await;
    }
}

impl Machine {
    pub(crate) fn new(
        disk: &Platter,
        begins_ms: Millis,
        chance: &mut Chance,
        odds: Odds,
        mutation: Option<Mutation>,
    ) -> Self {
        let power = Arc::new(Power::default());
        let clock = Arc::new(Wall::new(begins_ms, Arc::clone(&power)));
        let plan = Plan::new();
        if mutation == Some(Mutation::AcknowledgesBeforeSync) {
            plan.hold_back();
        }
        let engine = Disk {
            faulty: Faulty::new(Arc::new(disk.memory.clone()), plan.clone()),
            in_hand: Arc::clone(&disk.in_hand),
            full: AtomicBool::new(false),
            plan,
            power: Arc::clone(&power),
            chance: Mutex::new(chance.fork()),
            odds,
            mutation,
        };
        let pace = Mutex::new(chance.fork());
        let simulated = Simulated {
            engine: Arc::new(engine),
            clock: Arc::<Wall>::clone(&clock),
            chance: Arc::new(Seeded(Mutex::new(chance.fork()))),
            pace: Pace::new(move || {
                let mut chance = pace.lock().unwrap();
                let (yields, takes) = (chance.below(4), chance.once_in(odds.slow).then(|| chance.below(30)));
                Box::pin(async move {
                    for _ in 0..yields {
                        tokio::task::yield_now().await;
                    }
                    if let Some(millis) = takes {
                        tokio::time::sleep(Duration::from_millis(millis)).await;
                    }
                })
            }),
        };
        Self {
            clock,
            power,
            simulated,
        }
    }

    /// Decides which nudges are lost.
    pub(crate) fn loses(chance: &mut Chance, odds: Odds) -> impl Fn() -> bool + Send + Sync + 'static {
        let chance = Mutex::new(chance.fork());
        move || chance.lock().unwrap().once_in(odds.nudge)
    }

    /// Decides in which order tasks take their turns.
    pub(crate) fn turns(chance: &mut Chance, odds: Odds) -> Turns {
        let mut chance = chance.fork();
        Turns::drawn(move || if odds.turns == 0 { 0 } else { chance.below(odds.turns) })
    }

    pub(crate) fn simulated(&self) -> Simulated {
        self.simulated.clone()
    }

    pub(crate) fn beginning() -> Millis {
        BEGINNING_MS
    }
}

/// The clock on the wall: the time of the executor, and how far somebody has set it off.
#[derive(Debug)]
pub(crate) struct Wall {
    begun: Instant,
    set_ms: Mutex<Millis>,
    power: Arc<Power>,
}

impl Wall {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn new(begins_ms: Millis, power: Arc<Power>) -> Self {
        Self {
            begun: Instant::now(),
            set_ms: Mutex::new(begins_ms),
            power,
        }
    }

    /// Somebody sets the clock.
    pub(crate) fn jump(&self, millis: i64) {
        let mut set = self.set_ms.lock().unwrap();
        *set = set.saturating_add_signed(millis);
    }
}

impl Clock for Wall {
    #[expect(clippy::disallowed_methods, reason = "this is a clock")]
    fn now_ms(&self) -> Millis {
        let gone = Instant::now().duration_since(self.begun);
        let now = *self.set_ms.lock().unwrap() + gone.as_millis() as u64;
        let round = ledger::with(|ledger| {
            ledger.ticks(now);
            ledger.goes_round()
        });
        if round {
            // Whoever looks at the clock again and again may never write.
            self.power.gone.notify_one();
        }
        now
    }

    fn wait_until(&self, at_ms: Millis) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let wait = Duration::from_millis(at_ms.saturating_sub(self.now_ms())).min(WAIT_MAX);
        Box::pin(tokio::time::sleep(wait))
    }
}

#[derive(Debug)]
struct Seeded(Mutex<Chance>);

impl everstep::chance::Chance for Seeded {
    fn draw(&self) -> u64 {
        self.0.lock().unwrap().draw()
    }
}

/// A disk that fails as the odds say. The faults themselves are those of the faulty engine.
struct Disk {
    faulty: Faulty,
    in_hand: InHand,
    full: AtomicBool,
    plan: Plan,
    power: Arc<Power>,
    chance: Mutex<Chance>,
    odds: Odds,
    mutation: Option<Mutation>,
}

impl Disk {
    /// Whether commits are made without end: everything that is drawn comes to its end within far fewer.
    fn goes_round(&self) -> bool {
        ledger::with(ledger::Ledger::goes_round)
    }

    fn crash(&self) -> CommitError {
        self.plan.crash().expect("memory takes back what it has");
        self.power.gone.notify_one();
        CommitError::Unavailable(std::io::ErrorKind::BrokenPipe.into())
    }

    /// A process that was thought dead writes what it had in hand: the epoch alone can keep it out.
    fn rise(&self, group: &Group<'_>) {
        let dead = {
            let hands = self.in_hand.lock().unwrap();
            hands.get(&group.lease.shard.0).and_then(|hands| hands.dead.clone())
        };
        let Some((lease, batches)) = dead else { return };
        let fenced = self.mutation != Some(Mutation::AcceptsStaleEpochs);
        let late = Group {
            lease: if fenced { lease } else { group.lease },
            expected: group.expected,
            next: group.expected,
            batches: &batches,
        };
        let answer = self.faulty.commit(&late);
        ledger::with(|ledger| {
            ledger.note(format!("a dead process of epoch {} writes: {answer:?}", lease.epoch));
            if answer.is_ok() {
                ledger.writes(lease.shard.0, lease.epoch);
            }
        });
    }

    fn keep_in_hand(&self, group: &Group<'_>) {
        let mut hands = self.in_hand.lock().unwrap();
        let hands = hands.entry(group.lease.shard.0).or_default();
        let before = hands.living.replace((group.lease, group.batches.to_vec()));
        if let Some(dead) = before.filter(|(lease, _)| lease.epoch < group.lease.epoch) {
            hands.dead = Some(dead);
        }
    }
}

impl Engine for Disk {
    fn limits(&self) -> EngineLimits {
        self.faulty.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        let lease = self.faulty.acquire(shard, owner)?;
        // From here on the epochs before it are over, whether or not it ever writes.
        ledger::with(|ledger| ledger.writes(shard.0, lease.epoch));
        Ok(lease)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.faulty.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        let mut chance = self.chance.lock().unwrap();
        let at = format!("commit {} {:x}", group.next.sequence, group.next.chain);
        let bent: Option<Vec<_>> = self.mutation.map(|mutation| {
            let bend = |batch| mutation.bend(batch);
            group.batches.iter().map(bend).collect()
        });
        let group = &Group {
            batches: bent.as_deref().unwrap_or(group.batches),
            ..*group
        };
        let note = |what: &str| ledger::with(|ledger| ledger.commits(format!("{at} {what}")));
        self.keep_in_hand(group);
        if chance.once_in(self.odds.zombie) {
            self.rise(group);
        }
        if self.goes_round() {
            return Err(self.crash());
        }
        ledger::with(|ledger| ledger.writes(group.lease.shard.0, group.lease.epoch));
        if chance.once_in(self.odds.full) || self.full.load(Ordering::Relaxed) {
            note("the disk is full");
            self.full.store(true, Ordering::Relaxed);
            return Err(CommitError::Unavailable(std::io::ErrorKind::StorageFull.into()));
        }
        if chance.once_in(self.odds.crash) {
            if chance.once_in(2) {
                note("dies before");
                return Err(self.crash());
            }
            note("dies after");
            return self.faulty.commit(group).and_then(|()| Err(self.crash()));
        }
        if chance.once_in(self.odds.lost) {
            let fault = if chance.once_in(2) {
                CommitFault::FailBefore
            } else {
                CommitFault::FailAfter
            };
            note(&format!("{fault:?}"));
            self.plan.at_commit(1, fault);
        } else if chance.once_in(self.odds.unavailable) {
            note("unavailable");
            self.plan.at_commit(1, CommitFault::Fail(std::io::ErrorKind::TimedOut));
        } else {
            note("");
        }
        self.faulty.commit(group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.faulty.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.faulty.snapshot(shard)
    }
}

//! The harness: a runtime in a test, in virtual time.
//!
//! `life.rs` is the process that it runs and lets die, `disk.rs` what outlives the process, `handle.rs` what a test
//! holds of an instance, `operate.rs` what it does to one, `mock.rs` and `calls.rs` what stands in for steps and what was called, `expect.rs` the
//! assertions, `expected.rs` the mocks that a test counts on, `everywhere.rs` and `double.rs` the runs that try to break a workflow, `recorded.rs` histories from
//! production.

mod calls;
mod copies;
mod disk;
mod double;
mod everywhere;
mod expect;
mod expected;
mod handle;
mod life;
mod mock;
mod operate;
mod recorded;
mod seeded;
mod text;
mod time;
mod trace;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use crate::clock::{Millis, wall_ms, whole_ms};
use crate::duration::IntoDuration;
use crate::engine::{IntoWorkflow, Message, Witness, Workflow};
use crate::handle::{Sent, Start};
use crate::limits::TEST_COMMITS_MAX;
use crate::runtime::{Builder, Runtime};
use crate::storage::Store;

use super::rig::BEGINNING_MS;
pub use calls::Call;
use calls::Calls;
use copies::Copies;
use disk::{Death, Disk};
use expected::Expected;
pub use handle::Handle;
use life::Life;
pub use mock::Mock;
pub use recorded::replay_check;
use seeded::Seeded;
use text::or_panic;

/// A runtime in a test: the real one, in virtual time, on a disk in memory.
///
/// It is driven from a plain `#[test]`. Every call returns when everything has happened that can happen at this time;
/// the time itself stands still until the test moves it, with [`advance`](Harness::advance),
/// [`run_until_idle`](Harness::run_until_idle) or [`Handle::run_until_complete`]. So a year takes as long as a line of
/// code, and what happens is the same every time.
///
/// ```
/// use everstep::testing::Harness;
/// use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
///
/// #[derive(Message, serde::Serialize, serde::Deserialize)]
/// struct Approval { by: String }
///
/// #[workflow(accepts(Approval))]
/// async fn request(ctx: Ctx<Request>) -> Result<String> {
///     let approval = ctx.receive::<Approval>().timeout("7d").await?;
///     ctx.sleep("cooling off", "365d").await?;
///     ok(format!("approved by {}", approval.by))
/// }
///
/// let harness = Harness::new(Runtime::builder().workflow(request));
/// let request = harness.start(request, ());
/// harness.advance("3d");
/// request.send(Approval { by: "kim".into() });
/// assert_eq!(request.run_until_complete().unwrap(), "approved by kim");
/// ```
#[derive(Clone)]
pub struct Harness {
    inner: Rc<Inner>,
}

/// How a harness treats what it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain,
    /// The process dies at a commit.
    Dies(Death),
    /// Whenever everybody rests, everyone is replayed beside.
    Replays,
    /// Whenever everybody rests, everyone is dropped from memory.
    Evicts,
}

struct Inner {
    builder: Builder,
    seed: u64,
    beginning_ms: Millis,
    mode: Mode,
    calls: Arc<Calls>,
    expected: Rc<Expected>,
    chance: Arc<Seeded>,
    disk: RefCell<Disk>,
    life: RefCell<Option<Rc<Life>>>,
    now_ms: Cell<Millis>,
    commits_max: Cell<u64>,
    started: Cell<u64>,
    sent: Cell<u64>,
}

impl Harness {
    /// A harness for the runtime that a builder describes, at the beginning of 2030.
    ///
    /// Give it the builder that the program itself opens, and the test runs what production runs.
    pub fn new(builder: Builder) -> Self {
        let calls = Calls::new(builder.codecs().clone());
        let expected = Rc::new(Expected::default());
        Self::over(builder, 1, BEGINNING_MS, Mode::Plain, (calls, expected))
    }

    fn over(
        builder: Builder,
        seed: u64,
        beginning_ms: Millis,
        mode: Mode,
        (calls, expected): (Calls, Rc<Expected>),
    ) -> Self {
        let death = match mode {
            Mode::Dies(death) => Some(death),
            Mode::Plain | Mode::Replays | Mode::Evicts => None,
        };
        if mode == Mode::Replays || mode == Mode::Evicts {
            calls.trace();
        }
        let inner = Inner {
            builder,
            seed,
            beginning_ms,
            mode,
            calls: Arc::new(calls),
            expected,
            chance: Arc::new(Seeded::new(seed)),
            disk: RefCell::new(Disk::new(death)),
            life: RefCell::new(None),
            now_ms: Cell::new(beginning_ms),
            commits_max: Cell::new(TEST_COMMITS_MAX),
            started: Cell::new(0),
            sent: Cell::new(0),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The same from the beginning: nothing has happened yet, and the mocks are as they were set.
    fn afresh(&self, mode: Mode) -> Self {
        let Inner {
            builder,
            seed,
            beginning_ms,
            ..
        } = &*self.inner;
        self.bounded(Self::over(builder.clone(), *seed, *beginning_ms, mode, self.mocks()))
    }

    /// Another harness with the bounds of this one.
    fn bounded(&self, other: Self) -> Self {
        other.inner.commits_max.set(self.inner.commits_max.get());
        other
    }

    /// The mocks as they were set, for another harness.
    fn mocks(&self) -> (Calls, Rc<Expected>) {
        (self.inner.calls.afresh(), Rc::clone(&self.inner.expected))
    }

    /// Draws chance from another seed: what [`Ctx::random`](crate::Ctx::random) and
    /// [`Ctx::uuid`](crate::Ctx::uuid) give, and how retries are spread. Say it before anything is started.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        self.expect_unused("the seed");
        let Inner {
            builder, beginning_ms, ..
        } = &*self.inner;
        self.bounded(Self::over(
            builder.clone(),
            seed,
            *beginning_ms,
            Mode::Plain,
            self.mocks(),
        ))
    }

    /// Begins at another time. Say it before anything is started.
    #[must_use]
    pub fn beginning(self, time: SystemTime) -> Self {
        self.expect_unused("the beginning");
        let Inner { builder, seed, .. } = &*self.inner;
        self.bounded(Self::over(
            builder.clone(),
            *seed,
            wall_ms(time),
            Mode::Plain,
            self.mocks(),
        ))
    }

    /// Lets one call of the test go on for so many commits before it is said that something never rests, instead of
    /// [`TEST_COMMITS_MAX`](crate::limits::TEST_COMMITS_MAX): for a script that does very much by itself.
    #[must_use]
    pub fn commits_max(self, commits: u64) -> Self {
        self.inner.commits_max.set(commits);
        self
    }

    #[track_caller]
    fn expect_unused(&self, what: &str) {
        let unused = self.inner.life.borrow().is_none();
        assert!(unused, "{what} is set before anything is started");
    }

    /// Has something stand in for an activity, or for a step by its name or its path. Also in the middle of a test: it
    /// holds from the next attempt on.
    ///
    /// `charge` is every run of the activity `charge` and every step of that name; `orders/orders~3/charge` is one of them.
    /// `charge/rollback` is what undoes the step `charge`; what [`Ctx::compensate`](crate::Ctx::compensate) registers goes
    /// by the name that it was given.
    ///
    /// # Panics
    ///
    /// If it stands in for nothing until the harness is dropped: the name is another one, and the work itself has run.
    /// If it is not of the type of what it stands in for, too.
    #[track_caller]
    pub fn mock(&self, name: &str, mock: Mock) -> &Self {
        self.inner.expected.expect(name, std::panic::Location::caller());
        self.inner.calls.mock(name, mock);
        self
    }

    /// The same harness with a [mock](Harness::mock), for functions that make one for many tests: some of them may do
    /// without it.
    ///
    /// ```
    /// # use everstep::testing::{Harness, Mock};
    /// # use everstep::Runtime;
    /// fn harness() -> Harness {
    ///     Harness::new(Runtime::builder()).mocking("charge", Mock::returns("paid"))
    /// }
    /// # harness();
    /// ```
    #[must_use]
    pub fn mocking(self, name: &str, mock: Mock) -> Self {
        self.inner.calls.mock(name, mock);
        self
    }

    /// Lets the work itself run again where a mock stood in.
    pub fn unmock(&self, name: &str) -> &Self {
        self.inner.expected.forget(name);
        self.inner.calls.unmock(name);
        self
    }

    /// Starts an instance under an id that is made of the type name and a number: `payment-1`.
    pub fn start<As, W: IntoWorkflow<As>>(
        &self,
        workflow: W,
        input: <W::Workflow as Workflow>::Input,
    ) -> Handle<W::Workflow> {
        self.start_with(workflow, input, |start| start)
    }

    /// Starts an instance with all that [`Runtime::start`] can be told.
    ///
    /// ```
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # let harness = Harness::new(Runtime::builder().workflow(payment));
    /// let payment = harness.start_with(payment, 20, |start| start.id("order-123").tag("customer", "kim"));
    /// assert_eq!(payment.id(), "order-123");
    /// ```
    ///
    /// # Panics
    ///
    /// If the runtime refuses the start.
    #[track_caller]
    pub fn start_with<As, W: IntoWorkflow<As>>(
        &self,
        _workflow: W,
        input: <W::Workflow as Workflow>::Input,
        with: impl Fn(Start<W::Workflow>) -> Start<W::Workflow>,
    ) -> Handle<W::Workflow> {
        let name = <W::Workflow as Workflow>::NAME;
        let number = next(&self.inner.started);
        let id = format!("{name}-{number}");
        // A start that the process died of is made again, and has to be the same one.
        let input = Copies::of(input);
        let started = self.call(async |runtime| {
            let start = with(Start::<W::Workflow>::new(runtime.shared(), input.copy()).id(&id));
            self.inner.chance.settle(&id);
            let started = start.await;
            self.inner.chance.release();
            started
        });
        let started = or_panic(started, |error| format!("`{id}` could not be started: {error}"));
        Handle::new(self.clone(), started.id().to_string())
    }

    /// The handle of an instance that was started before, also by another instance.
    pub fn handle<As, W: IntoWorkflow<As>>(&self, _workflow: W, id: &str) -> Handle<W::Workflow> {
        Handle::new(self.clone(), id.to_owned())
    }

    /// The ids of all instances, in order.
    pub fn instances(&self) -> Vec<String> {
        self.with_store(instances)
    }

    /// Publishes an event, for everyone who waits for its type.
    #[track_caller]
    pub fn publish<E: Message>(&self, event: E) {
        let (event, id) = (Copies::of(event), self.message_id());
        let published = self.call(async |runtime| runtime.publish(event.copy()).id(&id).await);
        or_panic(published, |error| {
            format!("`{}` could not be published: {error}", E::NAME)
        });
    }

    /// Keeps a promise: the instance that waits for it goes on with this value. Tells whether it was the first
    /// decision.
    #[track_caller]
    pub fn resolve<T: serde::Serialize>(&self, token: &str, value: &T) -> bool {
        let resolved = self.first_sent(async |runtime| runtime.resolve(token, value).await);
        or_panic(resolved, |error| format!("the promise could not be kept: {error}")) == Sent::Accepted
    }

    /// Breaks a promise: the instance that waits for it goes on with an error. Tells whether it was the first decision.
    #[track_caller]
    pub fn reject(&self, token: &str, reason: &str) -> bool {
        let rejected = self.first_sent(async |runtime| runtime.reject(token, reason).await);
        or_panic(rejected, |error| format!("the promise could not be broken: {error}")) == Sent::Accepted
    }

    /// Does something with the runtime itself: whatever the harness has no method for.
    ///
    /// ```
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # let harness = Harness::new(Runtime::builder().workflow(payment));
    /// # harness.start(payment, 20);
    /// let page = harness.call(async |runtime| runtime.list().workflow("payment").await).unwrap();
    /// assert_eq!(page.rows.len(), 1);
    /// ```
    ///
    /// If the process dies meanwhile (as [`crash_everywhere`](Harness::crash_everywhere) has it), it is done again
    /// with the next one, as a caller would do: give ids to what is sent.
    #[expect(clippy::needless_pass_by_value, reason = "closures are given as they are written")]
    pub fn call<T>(&self, work: impl AsyncFn(&Runtime) -> T) -> T {
        let done = self.living(|life| life.run(work(life.runtime())));
        self.settle();
        done
    }

    /// The process dies, at once: what is not on disk is gone. The next one goes on from there.
    pub fn crash(&self) {
        drop(self.inner.life.take());
        self.settle();
    }

    /// The process dies, and for this long there is none: what comes due meanwhile is late. Then the next one begins.
    ///
    /// # Panics
    ///
    /// If it is not a duration.
    #[track_caller]
    pub fn be_down_for(&self, duration: impl IntoDuration) {
        let duration = or_panic(duration.into_duration(), |error| format!("{error}"));
        drop(self.inner.life.take());
        let whole = whole_ms(duration);
        let now = &self.inner.now_ms;
        now.set(now.get().saturating_add(whole));
        self.settle();
    }

    /// Drops every instance from memory. Those that wait are on disk alone then, and come back when something wakes
    /// them; attempts that are running are made again.
    pub fn evict(&self) {
        self.passivate();
        self.settle();
    }

    fn passivate(&self) {
        self.living(|life| {
            life.run(async {
                life.runtime().passivate_idle();
                life.settle().await;
                life.runtime().passivate_all().await;
                life.settle().await;
            })
        });
    }

    /// Waits until everything has happened that can happen at this time.
    fn settle(&self) {
        self.living(|life| life.run(life.settle()));
        match self.inner.mode {
            Mode::Plain | Mode::Dies(_) => {}
            Mode::Replays => self.replay_beside(),
            Mode::Evicts => self.passivate(),
        }
        if let Some(mistake) = self.inner.calls.mistake() {
            panic!("{mistake}");
        }
    }

    /// Does something in the process, or in the next one if it dies of it.
    fn living<T>(&self, work: impl Fn(&Life) -> Option<T>) -> T {
        loop {
            let life = self.life();
            let done = work(&life);
            self.inner.now_ms.set(life.now_ms());
            match done {
                Some(done) => return done,
                None => drop((life, self.inner.life.take())),
            }
        }
    }

    fn life(&self) -> Rc<Life> {
        assert!(
            tokio::runtime::Handle::try_current().is_err(),
            "the harness has an executor of its own: use it in a plain `#[test]`, not in an async one"
        );
        let Inner {
            builder, calls, chance, ..
        } = &*self.inner;
        loop {
            if let Some(life) = &*self.inner.life.borrow() {
                return Rc::clone(life);
            }
            let witness: Arc<dyn Witness> = Arc::<Calls>::clone(calls);
            let disk = self.inner.disk.borrow().next_life();
            *self.inner.disk.borrow_mut() = disk.clone();
            let builder = builder.clone().witness(&witness);
            let life = Life::begin(builder, disk, Arc::clone(chance), self.inner.now_ms.get());
            *self.inner.life.borrow_mut() = life.map(Rc::new);
        }
    }

    fn with_store<T>(&self, look: impl Fn(&Store) -> T) -> T {
        look(self.life().runtime().store())
    }

    /// Ids that a second try has too.
    fn message_id(&self) -> String {
        format!("message-{}", next(&self.inner.sent))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.expected.learn(&self.calls);
    }
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness")
            .field("seed", &self.inner.seed)
            .field("mode", &self.inner.mode)
            .finish_non_exhaustive()
    }
}

/// The ids of all instances but our own, in order.
fn instances(store: &Store) -> Vec<String> {
    let listed = store.shards().map(|shard| store.listed_ids(shard));
    let ids = listed.flat_map(|ids| ids.expect("the index can be read"));
    let mut ids: Vec<_> = ids.filter(|id| !id.starts_with("__")).collect();
    ids.sort();
    ids
}

fn next(counter: &Cell<u64>) -> u64 {
    counter.set(counter.get() + 1);
    counter.get()
}

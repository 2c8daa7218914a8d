//! Where a load is put: a machine whose memory is watched.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep::clock::Clock as _;
use everstep::{Builder, Config, Runtime};
use futures_util::{StreamExt as _, stream};

use crate::machine::{Machine, in_virtual_time};
use crate::weighed::Weighed;

/// What is allocated is counted for the whole process, so one test runs at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What may come and go without anybody minding: the tables of a process that has just begun.
pub(crate) const SLACK: usize = 256 * 1024;

/// A machine, and its store.
pub(crate) struct Ground {
    machine: Machine,
    pub(crate) store: Weighed,
}

impl Ground {
    /// The time of the machine.
    pub(crate) fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.machine.clock.now_ms())
    }

    /// Starts a runtime here. A restart is a second one, after the first was dropped.
    pub(crate) async fn open(&self, builder: Builder, config: Config) -> Runtime {
        let simulated = self.machine.simulated(self.store.clone());
        builder.config(config).open_simulated(simulated).await.unwrap()
    }
}

/// How many there are in this run: few in a test, all of them in `cargo xtask load`.
pub(crate) fn size(few: u64, all: u64) -> u64 {
    match std::env::var_os("EVERSTEP_LOAD") {
        Some(_) => all,
        None => few,
    }
}

/// Few in memory at once, and nobody longer than needed.
pub(crate) fn small() -> Config {
    Config::default().idle(Duration::ZERO).residents_max(64)
}

/// Puts a quarter of a load on a machine, then all of it on another one. The second may take no more memory beside its
/// store than the first, but for these bytes of each.
#[expect(clippy::needless_pass_by_value, reason = "a closure is written where it is passed")]
pub(crate) fn carries(what: &str, many: u64, each: usize, load: impl AsyncFn(&Ground, u64)) {
    let _alone = alone();
    let took = |many| {
        in_virtual_time(async {
            let ground = Ground {
                store: Weighed::new(),
                machine: Machine::steady(),
            };
            load(&ground, many).await;
            ground.store.beside()
        })
    };
    let (quarter, whole) = (took(many / 4), took(many));
    let kib = |bytes: usize| bytes / 1024;
    println!(
        "{many:>9} {what}: {} KiB beside the store, {} KiB with a quarter of them",
        kib(whole),
        kib(quarter)
    );
    let allowed = quarter + quarter / 4 + SLACK + each * usize::try_from(many - many / 4).unwrap();
    assert!(
        whole <= allowed,
        "{what}: {} KiB, and {} KiB at most",
        kib(whole),
        kib(allowed)
    );
}

/// Does it for each number, a few hundred at a time.
pub(crate) async fn each(many: u64, work: impl AsyncFn(u64)) {
    stream::iter(0..many)
        .map(|number| work(number))
        .buffer_unordered(256)
        .for_each(|()| async {})
        .await;
}

/// Lets virtual time pass. It moves on when nobody has anything to do, so this takes no time at all.
pub(crate) async fn pass(duration: Duration) {
    let over = tokio::time::timeout(duration, std::future::pending::<()>()).await;
    assert!(over.is_err(), "nothing ends what never ends");
}

/// Lets others go first until it is so. No time passes meanwhile.
pub(crate) async fn until(mut it_is_so: impl FnMut() -> bool) {
    while !it_is_so() {
        tokio::task::yield_now().await;
    }
}

//! What all residents share.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

use dashmap::DashMap;
use tokio::sync::Mutex;

use crate::actor::broadcasts::Broadcasts;
use crate::actor::changes::Changes;
use crate::actor::courier::Courier;
use crate::actor::directory::Directory;
use crate::actor::gate::Gates;
use crate::actor::observers::Observers;
use crate::actor::probation::Probation;
use crate::actor::residency::Idle;
use crate::actor::supervisor::Supervisor;
use crate::actor::watchdog::Watch;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Definition;
use crate::ids::InstanceId;
use crate::scheduler::{Admission, Alarms, Turnstile};
use crate::storage::{Failure, Flight, FlightSlot, InFlight, Store};

/// What all residents share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) chance: Arc<dyn Chance>,
    pub(crate) config: Config,
    pub(crate) definitions: HashMap<&'static str, Definition>,
    pub(crate) directory: Directory,
    pub(crate) admission: Arc<Admission>,
    pub(crate) turnstile: Arc<Turnstile>,
    pub(crate) idle: Arc<Idle>,
    pub(crate) supervisor: Supervisor,
    pub(crate) alarms: OnceLock<Arc<Alarms>>,
    pub(crate) courier: OnceLock<Courier>,
    pub(crate) gates: Gates,
    pub(crate) changes: Changes,
    pub(crate) observers: Observers,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) flight: Flight,
    /// Those who had attempts running when the process before this one died, until these are counted.
    pub(crate) charged: DashMap<InstanceId, Charged>,
    pub(crate) probation: Probation,
    pub(crate) watch: Arc<Watch>,
    /// Where user code runs. Whoever keeps these threads from going on keeps nobody but other user code.
    pub(crate) workers: tokio::runtime::Handle,
    pub(crate) stopping: AtomicBool,
    /// Who takes a message away that could not be delivered does so alone.
    pub(crate) letters: Mutex<()>,
}

/// An instance that had attempts running when the process before this one died.
#[derive(Debug)]
pub(crate) struct Charged {
    pub(crate) revision: u64,
    /// The deaths that it had been charged for before.
    pub(crate) deaths: u32,
    pub(crate) attempts: InFlight,
    /// Says so until it is stored.
    pub(crate) slot: Arc<FlightSlot>,
}

impl Shared {
    /// Empties the flight recorder, except for what is not counted yet.
    pub(crate) fn close_flight(&self) {
        let kept: Vec<_> = self.charged.iter().map(|charged| Arc::clone(&charged.slot)).collect();
        self.flight.close(kept.iter().map(|slot| &**slot));
    }

    /// Puts the shared parts together.
    pub(crate) fn new(
        store: Store,
        flight: Flight,
        workers: tokio::runtime::Handle,
        (clock, chance): (Arc<dyn Clock>, Arc<dyn Chance>),
        config: Config,
        definitions: HashMap<&'static str, Definition>,
        observers: Observers,
    ) -> Arc<Self> {
        let alarms = OnceLock::from(Arc::new(Alarms::new(store.clone(), Arc::clone(&clock))));
        let shared = Arc::new(Self {
            store,
            clock,
            chance,
            directory: Directory::default(),
            admission: Arc::new(Admission::new(&config, definitions.keys().copied())),
            turnstile: Turnstile::new(&config),
            idle: Arc::default(),
            supervisor: Supervisor::default(),
            alarms,
            courier: OnceLock::new(),
            gates: Gates::default(),
            changes: Changes::default(),
            observers,
            broadcasts: Broadcasts::default(),
            flight,
            charged: DashMap::new(),
            probation: Probation::default(),
            watch: Arc::default(),
            workers,
            stopping: AtomicBool::new(false),
            letters: Mutex::default(),
            config,
            definitions,
        });
        shared.directory.connect(&shared);
        shared
    }

    /// Everything has ended that could change anything: whoever waits is told so.
    pub(crate) fn end(&self) {
        self.changes.end();
        self.gates.left().notify_waiters();
    }

    /// Waits until the store fails. Nothing changes then before a restart: whoever waits looks again, and finds that.
    pub(crate) async fn hear_of_failure(shared: Weak<Self>, failure: Arc<Failure>) {
        failure.told().await;
        if let Some(shared) = shared.upgrade() {
            shared.changes.wake();
            shared.gates.left().notify_waiters();
        }
    }
}

//! What all residents share.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use dashmap::DashMap;
use tokio::sync::Semaphore;

use crate::actor::broadcasts::Broadcasts;
use crate::actor::changes::Changes;
use crate::actor::courier::Courier;
use crate::actor::directory::Directory;
use crate::actor::gate::Gates;
use crate::actor::observers::Observers;
use crate::actor::residency::Idle;
use crate::actor::supervisor::Supervisor;
use crate::actor::watchdog::Watch;
use crate::chance::Chance;
use crate::clock::Clock;
use crate::config::Config;
use crate::engine::Definition;
use crate::ids::InstanceId;
use crate::scheduler::{Admission, Alarms, Turnstile};
use crate::storage::{Flight, Store};

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
    pub(crate) idle: Idle,
    pub(crate) supervisor: Supervisor,
    pub(crate) alarms: OnceLock<Alarms>,
    pub(crate) courier: OnceLock<Courier>,
    pub(crate) gates: Gates,
    pub(crate) changes: Changes,
    pub(crate) observers: Observers,
    pub(crate) broadcasts: Broadcasts,
    pub(crate) flight: Flight,
    /// The revision at which each of these had attempts running when the process before this one died.
    pub(crate) charged: DashMap<InstanceId, u64>,
    /// One suspect at a time: whoever is to blame for the death of a process is then charged alone.
    pub(crate) probation: Arc<Semaphore>,
    pub(crate) watch: Arc<Watch>,
    /// Where user code runs. Whoever keeps these threads from going on keeps nobody but other user code.
    pub(crate) workers: tokio::runtime::Handle,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
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
        let shared = Arc::new(Self {
            store,
            clock,
            chance,
            directory: Directory::default(),
            admission: Arc::new(Admission::new(&config, definitions.keys().copied())),
            turnstile: Turnstile::new(&config),
            idle: Idle::default(),
            supervisor: Supervisor::default(),
            alarms: OnceLock::new(),
            courier: OnceLock::new(),
            gates: Gates::default(),
            changes: Changes::default(),
            observers,
            broadcasts: Broadcasts::default(),
            flight,
            charged: DashMap::new(),
            probation: Arc::new(Semaphore::new(1)),
            watch: Arc::default(),
            workers,
            stopping: AtomicBool::new(false),
            config,
            definitions,
        });
        shared.directory.connect(&shared);
        shared
    }
}

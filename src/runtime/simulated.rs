//! Where a simulation takes hold of a runtime (feature `testing`).

use std::collections::HashMap;
use std::sync::Arc;

use super::{Builder, Runtime};
use crate::actor::{self, Leave};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::config::Bounds;
use crate::engine::{Definition, Witness};
use crate::handle::Result;
use crate::ids::InstanceId;
use crate::storage::engine::Engine;
use crate::storage::payload::Codecs;
use crate::storage::{OpenOptions, Pace, Store};

/// What a simulated runtime has in the place of the machine.
#[derive(Clone)]
pub struct Simulated {
    /// Where the bytes are.
    pub engine: Arc<dyn Engine>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where random numbers come from.
    pub chance: Arc<dyn Chance>,
    /// How long a commit takes.
    pub pace: Pace,
}

impl std::fmt::Debug for Simulated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated").finish_non_exhaustive()
    }
}

impl Builder {
    /// Opens the runtime on a simulated machine. Everything runs in tasks of the tokio runtime that this is called
    /// from: if that has one thread and paused time, what happens follows from the machine alone.
    pub async fn open_simulated(self, machine: Simulated) -> Result<Runtime> {
        let Simulated {
            engine,
            clock,
            chance,
            pace,
        } = machine;
        let store = OpenOptions::new()
            .clock(Arc::clone(&clock))
            .codecs(self.codecs.clone())
            .shards(self.config.shards)
            .inbox_max(self.config.inbox_max)
            .inbox_bytes_max(self.config.inbox_bytes_max)
            .in_task(pace)
            .open_engine(engine)?;
        let here = tokio::runtime::Handle::current();
        self.assemble(store, (here.clone(), here), clock, chance).await
    }

    /// Has somebody see what all instances do.
    pub(crate) fn witness(mut self, witness: &Arc<dyn Witness>) -> Self {
        for definition in self.definitions.values_mut() {
            definition.witness = Some(Arc::clone(witness));
        }
        self
    }

    /// How much instances of a workflow may hold.
    pub(crate) fn bounds(&self, definition: &Definition) -> Bounds {
        definition.bounds(self.config.bounds)
    }

    /// How users' values are written and read.
    pub(crate) fn codecs(&self) -> &Codecs {
        &self.codecs
    }

    /// The workflows, by their type names.
    pub(crate) fn definitions(&self) -> &HashMap<&'static str, Definition> {
        &self.definitions
    }
}

impl Runtime {
    /// Asks everyone at rest to leave memory. They stay on disk until something wakes them.
    pub(crate) fn passivate_idle(&self) {
        self.shared.directory.ask_all_to_leave(Leave::IfIdle);
    }

    /// Drops everyone from memory, whatever they do, and lets them go on from what is stored.
    pub(crate) async fn passivate_all(&self) {
        let mut everyone = self.shared.directory.everyone();
        everyone.sort();
        for instance in everyone {
            actor::exclusively(&self.shared, &instance, |_| async {}).await;
        }
    }

    /// Drops an instance from memory, whatever it does, and lets it go on from what is stored.
    pub async fn passivate(&self, id: &str) -> Result<()> {
        let instance = InstanceId::new(id)?;
        actor::exclusively(&self.shared, &instance, |_| async {}).await;
        Ok(())
    }

    /// Nudges an instance that there is no news for.
    pub fn nudge(&self, id: &str) -> Result<()> {
        self.shared.directory.wake(&InstanceId::new(id)?);
        Ok(())
    }

    /// Loses the nudges that `lost` says, from now on. Whoever looks at the store on its own account (an alarm, somebody
    /// who was turned away, the next process) finds what they were about.
    pub fn lose_nudges(&self, lost: impl Fn() -> bool + Send + Sync + 'static) {
        self.shared.directory.lose_nudges(Box::new(lost));
    }

    /// The store, to look at.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }
}

//! The composition root: puts the rooms together, starts and stops them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::actor::{self, Changes, Directory, Shared};
use crate::clock::{Clock, SystemClock};
use crate::engine::{Definition, Workflow};
use crate::handle::{Error, Handle, Result};
use crate::ids::InstanceId;
use crate::scheduler::Alarms;
use crate::spawn;
use crate::storage::{self, OpenOptions, Refusal};

/// A running Everstep: workflows, and the store that their instances live in.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
}

/// Gathers what a runtime needs before it opens.
#[derive(Default)]
pub struct Builder {
    definitions: HashMap<&'static str, Definition>,
}

impl Builder {
    /// Adds a workflow that this process can run.
    #[must_use]
    pub fn workflow<W: Workflow>(mut self, _workflow: W) -> Self {
        let definition = Definition::of::<W>();
        self.definitions.insert(definition.name, definition);
        self
    }

    /// Opens the store and carries on with every instance that has something to do.
    pub async fn open(self, url: &str) -> Result<Runtime> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let options = OpenOptions::new().clock(Arc::clone(&clock));
        let url = url.to_owned();
        let opened = spawn::blocking(move || options.open(&url)).await;
        let store = opened.map_err(|error| Error::Start(error.to_string()))??;
        let shared = Arc::new(Shared {
            store,
            clock,
            definitions: self.definitions,
            directory: Directory::default(),
            alarms: OnceLock::new(),
            changes: Changes::default(),
        });
        shared.directory.connect(&shared);
        let runtime = Runtime { shared };
        runtime.start_alarms().await?;
        runtime.recover()?;
        Ok(runtime)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("workflows", &self.definitions.keys())
            .finish()
    }
}

impl Runtime {
    /// Begins to put a runtime together.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts an instance, durably; one that exists under the same id is returned as it is.
    pub async fn start<W: Workflow>(&self, _workflow: W, id: &str, input: &W::Input) -> Result<Handle<W>> {
        let instance = InstanceId::new(id)?;
        let now = self.shared.clock.now_ms();
        let commit = actor::start_commit::<W>(&self.shared.store, &instance, input, now)?;
        match self.shared.store.commit(commit).await {
            Ok(_) | Err(storage::Error::Refused(Refusal::Exists)) => {}
            Err(error) => return Err(error.into()),
        }
        self.shared.directory.wake(&instance);
        Ok(Handle::new(Arc::clone(&self.shared), instance))
    }

    /// The handle of an instance that was started before.
    pub fn handle<W: Workflow>(&self, _workflow: W, id: &str) -> Result<Handle<W>> {
        Ok(Handle::new(Arc::clone(&self.shared), InstanceId::new(id)?))
    }

    /// Stops: no instance runs on, what is durable stays.
    pub async fn stop(self) {
        if let Some(alarms) = self.shared.alarms.get() {
            alarms.stop().await;
        }
        self.shared.directory.stop_all();
    }

    async fn start_alarms(&self) -> Result<()> {
        let directory = Arc::downgrade(&self.shared);
        let wake = Arc::new(move |instance: &InstanceId| {
            if let Some(shared) = directory.upgrade() {
                shared.directory.wake(instance);
            }
        });
        let started = Alarms::start(self.shared.store.clone(), Arc::clone(&self.shared.clock), wake).await;
        let alarms = started.map_err(|error| Error::Start(error.to_string()))?;
        self.shared.alarms.set(alarms).expect("the alarms are started once");
        Ok(())
    }

    /// Wakes everyone who was running when the process before this one ended.
    fn recover(&self) -> Result<()> {
        for shard in self.shared.store.shards() {
            let mut after = None;
            loop {
                let page = self.shared.store.runnable(shard, after.as_ref())?;
                for (instance, _) in page.rows {
                    self.shared.directory.wake(&instance);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

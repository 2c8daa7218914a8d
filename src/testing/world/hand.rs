//! How a world writes: every commit is counted, and at one of them the process may die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::rig::{Plan, Still};
use crate::actor::{Build, Hand, terminate_commit};
use crate::clock::Clock;
use crate::ids::{InstanceId, Shard};
use crate::storage::{Error, Posted, Result, Store};

/// Writes for the instances of a world and for its courier.
#[derive(Debug)]
pub(super) struct WorldHand {
    store: Store,
    clock: Arc<Still>,
    plan: Plan,
    commits: AtomicU64,
    dead: AtomicBool,
}

impl WorldHand {
    pub(super) fn new(store: Store, clock: Arc<Still>, plan: Plan) -> Self {
        let (commits, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        Self {
            store,
            clock,
            plan,
            commits,
            dead,
        }
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(super) fn plan(&self) -> Plan {
        self.plan
    }

    /// Whether the process has died; the next one has not.
    pub(super) fn take_death(&self) -> bool {
        self.dead.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

impl Hand for WorldHand {
    async fn commit(&self, shard: Shard, build: Build<'_>) -> Result<()> {
        if self.is_dead() {
            return Err(Error::Closed);
        }
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if self.plan == Plan::CrashBefore(number) {
            self.dead.store(true, Ordering::Relaxed);
            return Err(Error::Closed);
        }
        let pending = self.store.submit_delivery(shard, build).await?;
        let done = pending.durable().await;
        if self.plan == Plan::CrashAfter(number) {
            self.dead.store(true, Ordering::Relaxed);
            return Err(Error::Closed);
        }
        done.map(drop)
    }

    async fn end(&self, _row: &Posted, children: Vec<InstanceId>, reason: &str) -> Result<bool> {
        for child in children {
            // A resident is told by the refusal of its next commit: it has another revision then.
            if let Some(commit) = terminate_commit(&self.store, &child, reason, self.clock.now_ms())? {
                let shard = self.store.shard_of(&child);
                self.commit(shard, Box::new(|_| commit)).await?;
            }
        }
        Ok(true)
    }

    fn is_ending(&self, _row: &Posted) -> bool {
        false
    }
}

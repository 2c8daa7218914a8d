//! How busy a runtime is, at one moment.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use crate::actor::Shared;
use crate::clock::{Stopwatch, whole_ms};
use crate::runtime::Runtime;
use crate::scheduler::QueueStats;

/// How busy a runtime is: what a dashboard shows.
///
/// ```
/// # use everstep::{Config, Runtime};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::default().queue_attempts_max("gpu", 2);
/// let runtime = Runtime::builder().config(config).open("memory:").await?;
/// let stats = runtime.stats();
/// assert_eq!((stats.residents, stats.attempts), (0, 0));
/// assert_eq!(stats.queues["gpu"].waiting, 0);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Instances in memory.
    pub residents: usize,
    /// Those of them that have nothing to do.
    pub idle: usize,
    /// Instances that wait to be brought into memory. More may wait in the store.
    pub waiting: usize,
    /// Attempts that are running.
    pub attempts: usize,
    /// Attempts that wait for their turn.
    pub attempts_waiting: usize,
    /// What goes through the queues that the configuration bounds.
    pub queues: BTreeMap<String, QueueStats>,
    /// Instances that broke down and are tried again.
    pub failing: usize,
    /// Alarms that are due and wait for room.
    pub alarms_due: usize,
    /// Commits that were made durable since the store was opened.
    pub commits: u64,
    /// Commits that were made durable per second, since the snapshot before this one.
    pub commits_per_second: u64,
}

impl Runtime {
    /// How busy the runtime is.
    pub fn stats(&self) -> RuntimeStats {
        let Shared {
            directory,
            admission,
            turnstile,
            idle,
            supervisor,
            alarms,
            store,
            ..
        } = &*self.shared;
        RuntimeStats {
            residents: directory.residents(),
            idle: idle.count(),
            waiting: admission.waiting(),
            attempts: turnstile.running(),
            attempts_waiting: turnstile.waiting(),
            queues: turnstile.queues().into_iter().collect(),
            failing: supervisor.failing(),
            alarms_due: alarms.get().map_or(0, |alarms| alarms.due()),
            commits: store.commits(),
            commits_per_second: self.commits_per_second(store.commits()),
        }
    }

    fn commits_per_second(&self, commits: u64) -> u64 {
        let now = (Stopwatch::start(), commits);
        let mut before = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((watch, before)) = before.replace(now) else {
            return 0;
        };
        let millis = whole_ms(watch.elapsed()).max(1);
        commits.saturating_sub(before).saturating_mul(1000) / millis
    }
}

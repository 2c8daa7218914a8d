//! One round: many writers, each with one commit at a time, for a given time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Work that is left over after a round (tables to write, to merge) gets this long at most before the next begins.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const SETTLE_STEP: Duration = Duration::from_millis(50);

/// Somebody who commits again and again.
pub(crate) trait Writer: Send + Sized + 'static {
    /// Commits once, and tells how long it took from handing over to the answer.
    fn commit(&mut self) -> impl Future<Output = Duration> + Send;
}

/// What a round measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) ops_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) commits_per_cpu_s: f64,
}

/// Lets the writers commit for about `length`. They are there again afterwards.
///
/// What the round leaves to be done in the background is waited for and counts as its CPU time, so that it does not
/// slow down whoever comes next.
pub(crate) fn measure<W: Writer>(runtime: &Runtime, writers: &mut Vec<W>, length: Duration) -> Round {
    let cpu = cpu_time();
    let start = now();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for mut writer in writers.drain(..) {
        let stop = Arc::clone(&stop);
        let task = async move {
            let mut latencies = Vec::with_capacity(1024);
            while !stop.load(Ordering::Relaxed) {
                latencies.push(writer.commit().await);
            }
            (writer, latencies)
        };
        tasks.spawn_on(task, runtime.handle());
    }
    let mut latencies = Vec::new();
    runtime.block_on(async {
        tokio::time::sleep(length).await;
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            let (writer, its_latencies) = ended.expect("a writer does not panic");
            writers.push(writer);
            latencies.extend(its_latencies);
        }
    });
    let took = now() - start;
    settle();
    let cpu = cpu_time() - cpu;
    latencies.sort_unstable();
    let commits = latencies.len() as f64;
    Round {
        ops_per_s: commits / took.as_secs_f64(),
        p50_us: percentile(&latencies, 0.50),
        p99_us: percentile(&latencies, 0.99),
        commits_per_cpu_s: commits / cpu.as_secs_f64(),
    }
}

/// The time of the machine.
#[expect(clippy::disallowed_methods, reason = "a bench measures the time of the machine")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until the process is all but idle.
#[expect(
    clippy::disallowed_methods,
    reason = "idleness shows only in what did not happen for a while"
)]
pub(crate) fn settle() {
    let start = now();
    while now() - start < SETTLE_MAX {
        let before = cpu_time();
        std::thread::sleep(SETTLE_STEP);
        if cpu_time() - before < SETTLE_STEP / 20 {
            return;
        }
    }
}

/// The CPU time that the process has used so far, in all threads.
pub(crate) fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("CPU time is not negative")
}

pub(crate) fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted
        .get(at)
        .or(sorted.last())
        .map_or(0.0, |latency| latency.as_secs_f64() * 1e6)
}

/// The middle one; of an even number the mean of the two in the middle.
pub(crate) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => f64::NAN,
        length if length % 2 == 0 => f64::midpoint(figures[middle - 1], figures[middle]),
        _ => figures[middle],
    }
}

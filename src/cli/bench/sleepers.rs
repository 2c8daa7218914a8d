//! W5: instances that sleep, passivated: how late they wake, and what memory they take.

use std::time::Duration;

use everstep::{Config, Runtime};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::super::problem::Outcome;
use super::crash::Child;
use super::figure::{Figure, Sample};
use super::workflows::{self, LATENESS_US, now_us};
use super::{Measuring, round};

/// Starts at once.
const AT_ONCE: usize = 1_024;

/// A day, in milliseconds.
const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// An operation is a sleeper that wakes, and its latency how late it wakes.
pub(crate) fn measure(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let (sleepers, due) = (measuring.size.sleepers, measuring.size.due);
    let runtime = measuring.open("w5", Config::default().idle(Duration::ZERO))?;
    let limit = measuring.disk.turn(&measuring.executor, AT_ONCE)?;
    let begin = round::now();
    let tomorrow = now_us() / 1_000 + DAY_MS;
    let executor = &measuring.executor;
    executor.block_on(start(&runtime, sleepers, |_| tomorrow))?;
    let per_start = (round::now() - begin) / sleepers;
    // They are due within a second that begins when all of them have been asleep for a while.
    let first_ms = now_us() / 1_000 + 500 + millis(per_start * due * 3);
    LATENESS_US.lock().expect("nobody panics with it").clear();
    executor.block_on(start(&runtime, due, |number| {
        first_ms + u64::from(number) * 1_000 / u64::from(due)
    }))?;
    let late_to_bed = now_us() / 1_000 > first_ms;
    let cpu = round::cpu_time();
    executor.block_on(all_awake(due))?;
    let cpu = round::cpu_time() - cpu;
    let latenesses = std::mem::take(&mut *LATENESS_US.lock().expect("nobody panics with it"));
    let sample = Sample {
        ops: u64::from(due),
        took: Duration::from_secs(1),
        cpu,
        latencies: latenesses.into_iter().map(Duration::from_micros).collect(),
    };
    measuring.executor.block_on(runtime.stop());
    drop(runtime);
    let mut figure = Figure::of("W5", format!("{due} due within a second"), 2.0, vec![(limit, sample)]);
    figure.p50_syncs = None;
    if late_to_bed {
        // The machine was too busy for this to say anything.
        figure = figure.and("went_to_sleep_too_late", 1.0);
    }
    if measuring.place.engine().is_durable() {
        figure = figure.and("bytes_each_asleep", bytes_each(measuring, sleepers)?);
    }
    measuring.place.remove("w5");
    Ok(vec![figure])
}

/// Memory of a process that runs a store with all of them, beyond one that has the same store open and runs nothing.
/// What the engine keeps in memory of its rows is in both.
fn bytes_each(measuring: &Measuring, sleepers: u32) -> Outcome<f64> {
    let url = measuring.place.url("w5");
    let resting = Child::Store.resident_bytes(&url, measuring.quick)?;
    let running = Child::Runtime.resident_bytes(&url, measuring.quick)?;
    Ok((running - resting).max(0.0) / f64::from(sleepers))
}

/// Starts them and waits until they sleep and are out of memory.
async fn start(runtime: &Runtime, number: u32, until_ms: impl Fn(u32) -> u64) -> Outcome {
    let starts = (0..number).map(|number| {
        let starting = runtime.start(workflows::sleeper, until_ms(number));
        async move {
            starting.await?;
            Outcome::Ok(())
        }
    });
    let () = stream::iter(starts).buffer_unordered(AT_ONCE).try_collect().await?;
    while runtime.stats().residents > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

async fn all_awake(number: u32) -> Outcome {
    while LATENESS_US.lock().expect("nobody panics with it").len() < number as usize {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

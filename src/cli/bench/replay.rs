//! W8: how fast an instance that is not in memory comes back.

use std::time::Duration;

use everstep::{Config, Runtime};

use super::super::problem::Outcome;
use super::figure::{self, Figure, Sample};
use super::workflows::{self, Go};
use super::{Measuring, round};

/// An operation is an entry that is read and replayed: what a message to a passivated instance takes with a long
/// history, beyond what it takes with a short one.
pub(crate) fn measure(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let entries = measuring.size.replayed;
    let runtime = measuring.open("w8", Config::default().idle(Duration::ZERO))?;
    let (mut turns, mut read_back) = (Vec::new(), Vec::new());
    for _ in 0..measuring.size.turns {
        read_back.push(measuring.disk.read_back(entries)?);
        let (short, _) = measuring.executor.block_on(wake(&runtime, 1))?;
        let (long, cpu) = measuring.executor.block_on(wake(&runtime, entries))?;
        turns.push((long.saturating_sub(short), cpu));
    }
    measuring.close("w8", runtime)?;
    let micros = |took: &Duration| took.as_secs_f64() * 1e6;
    let took_us = round::median(turns.iter().map(|(took, _)| micros(took))).max(1.0);
    let sample = Sample {
        ops: u64::from(entries),
        took: Duration::from_secs_f64(took_us / 1e6),
        cpu: Duration::from_secs_f64(round::median(turns.iter().map(|(_, cpu)| cpu.as_secs_f64()))),
        latencies: turns.iter().map(|(took, _)| *took).collect(),
    };
    // Nothing is written but the message and the end, so the limit is what a log allows to be read, and not to be synced.
    let limit = figure::Limit {
        commits_per_s: round::median(read_back.into_iter()),
        sync_us: f64::NAN,
    };
    let what = format!("an entry replayed, of {entries}");
    Ok(vec![Figure {
        p50_syncs: None,
        ..Figure::of("W8", what, 1.0, vec![(limit, sample)])
    }])
}

/// From a message to the end of an instance that is not in memory, and the CPU time of it.
async fn wake(runtime: &Runtime, entries: u32) -> Outcome<(Duration, Duration)> {
    let instance = runtime.start(workflows::replayed, entries).await?;
    let rests = |status| status == everstep::storage::record::Status::Waiting;
    instance.reached(rests).await?;
    while runtime.stats().residents > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (begin, cpu) = (round::now(), round::cpu_time());
    instance.send(Go).await?;
    instance.result().await?;
    Ok((round::now() - begin, round::cpu_time() - cpu))
}

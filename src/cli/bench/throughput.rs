//! W3, W7 and the second half of W4: many at once.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Config, Runtime};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::super::problem::Outcome;
use super::commits::Commits;
use super::figure::{Figure, Sample};
use super::round::{self, Round};
use super::workflows::{self, Go};
use super::{Measuring, one_after_another};

/// Steps of an instance in W3.
const STEPS: u32 = 5;

/// W3. An operation is a step; commits are those of the start and of the end too. Beside the limit stands what the
/// store alone commits, with as many writers and without workflows.
pub(crate) fn instances(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let instances = measuring.size.instances;
    let mut figures = Vec::new();
    for &at_once in measuring.size.at_once {
        let (name, store) = (format!("w3-{at_once}"), format!("w3-store-{at_once}"));
        let runtime = measuring.open(&name, Config::default())?;
        let mut commits = Commits::start(&measuring.executor, &measuring.place.url(&store), at_once)?;
        let (length, mut alone) = (measuring.size.limit, Vec::new());
        let turns = measuring.in_turns(at_once, |executor| {
            alone.push(round::measure(executor, &mut commits.writers, length));
            let one = || async {
                runtime.start(workflows::chain, STEPS).await?.result().await?;
                Ok(())
            };
            let mut sample = executor.block_on(many_at_once(instances, at_once, one))?;
            sample.ops *= u64::from(STEPS);
            Ok(sample)
        })?;
        let commits_per_step = f64::from(STEPS + 2) / f64::from(STEPS);
        let what = format!("a step, {at_once} instances");
        let figure = Figure::of("W3", what, commits_per_step, turns);
        let alone = store_alone(at_once, &alone, figure.ops_per_s, figure.limit_ratio, commits_per_step);
        let ratio = figure.ops_per_s * commits_per_step / alone.ops_per_s;
        figures.push(alone);
        figures.push(figure.and("of_the_store_alone", ratio));
        drop(commits);
        measuring.close(&name, runtime)?;
        measuring.place.remove(&store);
    }
    Ok(figures)
}

/// What the store commits without workflows: medians of its rounds. Its share of the limit follows from that of the
/// workflows, which were measured in the same turns.
fn store_alone(at_once: usize, rounds: &[Round], steps_per_s: f64, limit_ratio: f64, commits: f64) -> Figure {
    let of = |figure: fn(&Round) -> f64| round::median(rounds.iter().map(figure));
    let ops_per_s = of(|round| round.ops_per_s);
    Figure {
        workload: "W3",
        what: format!("the store alone, {at_once}"),
        ops_per_s,
        p50_us: of(|round| round.p50_us),
        p99_us: of(|round| round.p99_us),
        cpu_us_per_op: 1e6 / of(|round| round.commits_per_cpu_s),
        limit_ratio: limit_ratio * ops_per_s / (steps_per_s * commits),
        p50_syncs: None,
        more: Vec::new(),
    }
}

/// W4, many messages at once.
pub(crate) fn messages(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w4", Config::default())?;
    let (instances, at_once) = (measuring.size.instances, *measuring.size.at_once.last().unwrap_or(&1));
    let turns = measuring.in_turns(at_once, |executor| {
        let waiting = executor.block_on(waiting(&runtime, instances, at_once))?;
        round::settle();
        let mut waiting = waiting.into_iter();
        executor.block_on(many_at_once(instances, at_once, || {
            let instance = waiting.next();
            async move {
                if let Some(instance) = instance {
                    instance.send(Go).await?;
                    instance.result().await?;
                }
                Ok(())
            }
        }))
    })?;
    measuring.close("w4", runtime)?;
    let what = format!("a message, {at_once} at once");
    Ok(vec![Figure::of("W4", what, 2.0, turns)])
}

async fn waiting(
    runtime: &Runtime,
    instances: u32,
    at_once: usize,
) -> Outcome<Vec<everstep::Handle<workflows::Waits>>> {
    let starts = (0..instances).map(|_| async {
        let instance = runtime.start(workflows::waits, ()).await?.into_handle();
        instance.reached(|status| status == Status::Waiting).await?;
        Outcome::Ok(instance)
    });
    stream::iter(starts).buffer_unordered(at_once).try_collect().await
}

/// W7. An operation is the whole. Results are compared with the commits of as many writers as there are steps: what ends
/// together shares a commit, and how many there are is a matter of timing.
pub(crate) fn fan(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w7", Config::default())?;
    let steps = measuring.size.steps;
    let turns = measuring.in_turns(steps as usize, |executor| {
        executor.block_on(one_after_another(3, || async {
            runtime.start(workflows::fan, steps).await?.result().await?;
            Ok(())
        }))
    })?;
    measuring.close("w7", runtime)?;
    let what = format!("{steps} steps side by side");
    let figure = Figure::of("W7", what, f64::from(steps), turns);
    let steps_per_s = figure.ops_per_s * f64::from(steps);
    Ok(vec![figure.and("steps_per_s", steps_per_s)])
}

/// Does this so often, so many at once, and tells how long each took.
pub(crate) async fn many_at_once<F: Future<Output = Outcome>>(
    times: u32,
    at_once: usize,
    mut operation: impl FnMut() -> F,
) -> Outcome<Sample> {
    let (begin, cpu) = (round::now(), round::cpu_time());
    let all = (0..times).map(|_| {
        let operation = operation();
        async move {
            let begin = round::now();
            operation.await?;
            Outcome::Ok(round::now() - begin)
        }
    });
    let latencies: Vec<Duration> = stream::iter(all).buffer_unordered(at_once).try_collect().await?;
    Ok(Sample {
        ops: u64::from(times),
        took: round::now() - begin,
        cpu: round::cpu_time() - cpu,
        latencies,
    })
}

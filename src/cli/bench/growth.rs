//! W9: what a step costs behind a long history, and a start in a store that is full. Both have to be flat.

use everstep::storage::key::{Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{Input, Origin, State, Status};
use everstep::storage::{Commit, OpenOptions};
use everstep::{Config, InstanceId};

use super::super::problem::{Outcome, Problem};
use super::figure::{Figure, Limit, Sample};
use super::workflows::{self, Take};
use super::{Measuring, one_after_another, round};

/// Steps that are asked for at once.
const STEPS: u32 = 20;

/// Instances that are put into a store with one commit.
const FILLED_AT_ONCE: u32 = 200;

type Turns = Vec<(Limit, Sample)>;

pub(crate) fn measure(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let mut figures = steps(measuring)?;
    figures.extend(starts(measuring)?);
    Ok(figures)
}

/// Steps of instances that have a history of some length, in turns.
fn steps(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w9", Config::default())?;
    let histories = measuring.size.histories;
    let mut instances = Vec::new();
    for entries in histories {
        let instance = measuring.executor.block_on(async {
            let instance = runtime.start(workflows::long, entries).await?;
            // When this is answered the history is there.
            instance.ask(Take { steps: 1 }).await?;
            Outcome::Ok(instance)
        })?;
        instances.push(instance);
    }
    round::settle();
    let times = measuring.size.latencies.div_ceil(STEPS);
    let mut turns: [Turns; 3] = Default::default();
    for _ in 0..measuring.size.turns {
        for (instance, turns) in instances.iter().zip(&mut turns) {
            turns.extend(measuring.one_turn(|executor| {
                let asking = || async {
                    instance.ask(Take { steps: STEPS }).await?;
                    Ok(())
                };
                let mut sample = executor.block_on(one_after_another(times, asking))?;
                sample.ops *= u64::from(STEPS);
                sample.latencies.iter_mut().for_each(|took| *took /= STEPS);
                Ok(sample)
            })?);
        }
    }
    measuring.close("w9", runtime)?;
    let named = |entries: u32| format!("a step behind {entries} entries");
    Ok(compared(1.0, histories.map(named), turns))
}

/// Starts in stores of some size, in turns.
fn starts(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let sizes = measuring.size.instances_before;
    let mut runtimes = Vec::new();
    for size in sizes {
        let name = format!("w9-{size}");
        if measuring.place.engine().is_durable() {
            fill(measuring, &name, size)?;
        }
        runtimes.push((measuring.open(&name, Config::default())?, name));
    }
    round::settle();
    let times = measuring.size.latencies;
    let mut turns: [Turns; 3] = Default::default();
    for _ in 0..measuring.size.turns {
        for ((runtime, _), turns) in runtimes.iter().zip(&mut turns) {
            turns.extend(measuring.one_turn(|executor| {
                executor.block_on(one_after_another(times, || async {
                    runtime.start(workflows::chain, 0).await?.result().await?;
                    Ok(())
                }))
            })?);
        }
    }
    for (runtime, name) in runtimes {
        measuring.close(&name, runtime)?;
    }
    let named = |size: u32| format!("a start among {size}");
    // One commit for the start, one for the end.
    Ok(compared(2.0, sizes.map(named), turns))
}

impl Measuring {
    /// One turn of the limit and of what is measured.
    fn one_turn(
        &mut self,
        mut sample: impl FnMut(&tokio::runtime::Runtime) -> Outcome<Sample>,
    ) -> Outcome<Option<(Limit, Sample)>> {
        let limit = self.disk.turn(&self.executor, 1)?;
        Ok(Some((limit, sample(&self.executor)?)))
    }
}

/// The figures, each with how much more it costs than the first: in syncs of its own turns, and in CPU time.
fn compared(commits_per_op: f64, what: [String; 3], turns: [Turns; 3]) -> Vec<Figure> {
    let figures = what.into_iter().zip(turns);
    let mut figures: Vec<_> = figures
        .map(|(what, turns)| Figure::of("W9", what, commits_per_op, turns))
        .collect();
    let Some(first) = figures.first() else { return figures };
    let (syncs, cpu) = (first.p50_syncs, first.cpu_us_per_op);
    for figure in &mut figures {
        if let (Some(its), Some(first)) = (figure.p50_syncs, syncs) {
            figure.more.push(("times_the_first", its / first));
        }
        figure
            .more
            .push(("times_the_cpu_of_the_first", figure.cpu_us_per_op / cpu));
    }
    figures
}

/// Puts instances into a store that have completed, as if they had been started long ago.
fn fill(measuring: &Measuring, name: &str, instances: u32) -> Outcome {
    let store = OpenOptions::new().open(&measuring.place.url(name))?;
    let begun = workflows::now_us() / 1_000;
    let state = State {
        status: Status::Completed,
        revision: 2,
        ..State::begun(begun)
    };
    let input = Input(Payload {
        key_id: KeyId::PLAIN,
        bytes: vec![0],
    });
    let mut pending = Vec::new();
    for first in (0..instances).step_by(FILLED_AT_ONCE as usize) {
        let mut commit = Commit::new(store.shards().next().unwrap_or(everstep::Shard(0)));
        for number in first..(first + FILLED_AT_ONCE).min(instances) {
            let id = InstanceId::new(format!("chain-{number:016}"));
            let namespace = store.namespace(&id.map_err(|error| Problem::Other(error.to_string()))?);
            let origin = Origin::new("chain", 1, begun - u64::from(instances - number), 0);
            commit
                .set(&namespace, &Local::Meta(Meta::Origin), &origin)
                .set(&namespace, &Local::Meta(Meta::Input), &input)
                .set_state(&namespace, None, &state)
                .set_index(&namespace, &origin, &state);
        }
        pending.push(measuring.executor.block_on(store.submit(commit))?);
    }
    for commit in pending {
        measuring.executor.block_on(commit.durable())?;
    }
    Ok(store.close()?)
}

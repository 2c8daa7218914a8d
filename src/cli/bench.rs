//! `everstep bench`: what workflows cost, beside what the disk allows.
//!
//! The limit is a program of the same shape without a store: a task for each writer, a channel, one thread, one write
//! and one sync for a group (`limit.rs`). Limit and workload take turns, so that a machine that is busy with other
//! things slows both of them down; what counts is the ratio. `workflows.rs` has the workflows; each workload is in a
//! file of its own kind.

mod chart;
mod commits;
mod crash;
mod disk;
mod figure;
mod growth;
mod latency;
mod limit;
mod place;
mod replay;
mod round;
mod sleepers;
mod throughput;
mod workflows;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use everstep::{Config, Runtime};

use super::Output;
use super::problem::{Outcome, Problem};
use disk::Disk;
use figure::{Figure, Limit, Sample};
use place::{Engine, Place};

#[derive(Debug, Args)]
#[command(after_help = "\
Workloads:
  W1  three steps, one after another: latency from start to result
  W2  a chain of 1,000 steps
  W3  instances of five steps, many at once
  W4  a message to completion: latency, and many at once
  W5  sleeping instances: how late they wake, what memory they take
  W6  killed with 10,000 instances in flight: how long until all are done
  W7  1,000 steps side by side
  W8  how fast a history is replayed
  W9  the cost of a step behind a long history, and of a start in a full store

Every figure stands beside what a bare log on the same disk does with as many
writers, measured in turns: `of limit` is that share. `CPU us` is processor time
for each operation, `syncs` the p50 in syncs of this disk. All of it takes a few
minutes on a quiet machine; --quick takes seconds and proves nothing.

Examples:
  everstep bench
  everstep bench --only W1,W4 --store sled
  everstep bench --json --svg bench.svg")]
pub(crate) struct Bench {
    /// The engine under the store
    #[arg(long, value_enum, default_value_t = Engine::Fjall)]
    store: Engine,
    /// Only these workloads
    #[arg(long, value_delimiter = ',', value_name = "W1,W2,...")]
    only: Vec<Workload>,
    /// A hundredth of everything: shows that it works, not how fast
    #[arg(long)]
    quick: bool,
    /// Where to put the data: on the disk to measure; removed afterwards
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Threads of the executor; the committer has one of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// Draw the figures into this file as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// What a process that a bench has started does
    #[arg(long, hide = true, requires = "url")]
    child: Option<crash::Child>,
    #[arg(long, hide = true)]
    url: Option<String>,
    #[arg(long, hide = true, default_value_t = 0)]
    until_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Workload {
    #[value(name = "W1", alias = "w1")]
    W1,
    #[value(name = "W2", alias = "w2")]
    W2,
    #[value(name = "W3", alias = "w3")]
    W3,
    #[value(name = "W4", alias = "w4")]
    W4,
    #[value(name = "W5", alias = "w5")]
    W5,
    #[value(name = "W6", alias = "w6")]
    W6,
    #[value(name = "W7", alias = "w7")]
    W7,
    #[value(name = "W8", alias = "w8")]
    W8,
    #[value(name = "W9", alias = "w9")]
    W9,
}

impl Bench {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let executor = self.executor()?;
        if let (Some(child), Some(url)) = (self.child, &self.url) {
            return child.run(&executor, url, Size::new(self.quick), self.until_ms);
        }
        // Before what takes minutes, and without touching what is there.
        let svg = self.svg.as_deref().map(chart::File::create).transpose()?;
        let place = Place::new(&self.dir, self.store)?;
        if !output.json {
            place.tell(output)?;
            writeln!(output.out, "{}", Figure::heading())?;
        }
        let size = Size::new(self.quick);
        let mut measuring = Measuring {
            disk: Disk::new(&place.directory("limit"), size.limit)?,
            executor,
            place,
            size,
            quick: self.quick,
        };
        let mut figures = Vec::new();
        for workload in Workload::value_variants() {
            if !self.only.is_empty() && !self.only.contains(workload) {
                continue;
            }
            for figure in workload.measure(&mut measuring)? {
                let (store, durable) = (self.store.name(), self.store.is_durable());
                if output.json {
                    output.object(&figure.object(store, durable))?;
                } else {
                    writeln!(output.out, "{}", figure.line())?;
                }
                output.out.flush()?;
                figures.push(figure);
            }
        }
        if let Some(file) = svg {
            let title = format!("everstep on {}, {}", self.store.name(), self.store.durability());
            file.write(&chart::draw(&figures, &title))?;
        }
        Ok(())
    }

    fn executor(&self) -> Outcome<tokio::runtime::Runtime> {
        let mut builder = match self.threads {
            1 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        Ok(builder.worker_threads(usize::from(self.threads)).enable_all().build()?)
    }
}

impl Workload {
    fn measure(self, measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
        match self {
            Self::W1 => latency::three_steps(measuring),
            Self::W2 => latency::chain(measuring),
            Self::W3 => throughput::instances(measuring),
            Self::W4 => {
                let mut figures = latency::messages(measuring)?;
                figures.extend(throughput::messages(measuring)?);
                Ok(figures)
            }
            Self::W5 => sleepers::measure(measuring),
            Self::W6 => crash::measure(measuring),
            Self::W7 => throughput::fan(measuring),
            Self::W8 => replay::measure(measuring),
            Self::W9 => growth::measure(measuring),
        }
    }
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Turns of what is measured in turns with the limit.
    turns: usize,
    /// How long a turn of the limit is.
    limit: Duration,
    /// Operations of a turn that are done one after another.
    latencies: u32,
    /// Steps of a chain, and side by side.
    steps: u32,
    /// Instances of a turn that run at once, each number of them.
    at_once: &'static [usize],
    /// Instances of a turn of those.
    instances: u32,
    /// Instances that sleep for long, and that are due within a second.
    sleepers: u32,
    due: u32,
    /// Instances in flight when the process is killed.
    flights: u32,
    /// Entries of a history that is replayed.
    replayed: u32,
    /// Entries behind a step, and instances in the store before a start.
    histories: [u32; 3],
    instances_before: [u32; 3],
}

impl Size {
    fn new(quick: bool) -> Self {
        if quick {
            return Self {
                turns: 1,
                limit: Duration::from_millis(20),
                latencies: 3,
                steps: 10,
                at_once: &[8],
                instances: 16,
                sleepers: 50,
                due: 20,
                flights: 50,
                replayed: 100,
                histories: [1, 10, 100],
                instances_before: [0, 100, 1_000],
            };
        }
        Self {
            turns: 5,
            limit: Duration::from_millis(300),
            latencies: 60,
            steps: 1_000,
            at_once: &[64, 256, 1_024],
            instances: 4_000,
            sleepers: 100_000,
            due: 10_000,
            flights: 10_000,
            replayed: 10_000,
            // A history has at most 100,000 entries, and what is measured comes on top.
            histories: [10, 1_000, 99_000],
            instances_before: [0, 100_000, 1_000_000],
        }
    }
}

/// What every workload needs.
struct Measuring {
    executor: tokio::runtime::Runtime,
    disk: Disk,
    place: Place,
    size: Size,
    quick: bool,
}

impl Measuring {
    /// A runtime on a new store, with everybody passivated at once if they have nothing to do, or not.
    fn open(&self, name: &str, config: Config) -> Outcome<Runtime> {
        let url = self.place.url(name);
        let opening = workflows::builder().config(config).open(&url);
        Ok(self.executor.block_on(opening)?)
    }

    /// Turns of the limit with so many writers and of what is measured.
    fn in_turns(
        &mut self,
        writers: usize,
        mut sample: impl FnMut(&tokio::runtime::Runtime) -> Outcome<Sample>,
    ) -> Outcome<Vec<(Limit, Sample)>> {
        // What comes first warms up and is not counted, unless there is only one.
        let warm_up = usize::from(self.size.turns > 1);
        let mut turns = Vec::new();
        for turn in 0..self.size.turns + warm_up {
            let limit = self.disk.turn(&self.executor, writers)?;
            let sample = sample(&self.executor)?;
            if turn >= warm_up {
                turns.push((limit, sample));
            }
        }
        Ok(turns)
    }

    /// Stops a runtime and removes its store.
    fn close(&self, name: &str, runtime: Runtime) -> Outcome {
        self.executor.block_on(runtime.stop());
        drop(runtime);
        self.place.remove(name);
        Ok(())
    }
}

/// Does this so often, one after another, and tells how long each took.
async fn one_after_another<F: Future<Output = Outcome>>(
    times: u32,
    mut operation: impl FnMut() -> F,
) -> Outcome<Sample> {
    let (begin, cpu) = (round::now(), round::cpu_time());
    let mut latencies = Vec::with_capacity(times as usize);
    for _ in 0..times {
        let begin = round::now();
        operation().await?;
        latencies.push(round::now() - begin);
    }
    Ok(Sample {
        ops: u64::from(times),
        took: round::now() - begin,
        cpu: round::cpu_time() - cpu,
        latencies,
    })
}

impl From<Box<dyn std::error::Error>> for Problem {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        Self::Other(error.to_string())
    }
}

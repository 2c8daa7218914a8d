//! W6: a process that is killed with many instances in flight, and the next one that brings them to their end. And
//! what a process does that a bench has started.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::ValueEnum;
use everstep::Config;
use everstep::storage::OpenOptions;
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Runtime;

use super::super::problem::{Outcome, Problem};
use super::figure::{Figure, Sample};
use super::workflows::{self, LIFE, RUNS, now_us};
use super::{Measuring, Size, place, round};

/// Starts at once.
const AT_ONCE: usize = 1_024;

/// How long the first and the last of those in flight sleep at least, from when the process begins.
const SLEEP_MS: u64 = 3_000;
const SPREAD_MS: u64 = 1_000;

/// What a process that a bench has started does.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Child {
    /// Starts instances, says so, and goes on until it is killed.
    Flight,
    /// Opens a store and tells how much memory it takes.
    Store,
    /// Runs a store and tells how much memory it takes.
    Runtime,
    /// Removes what is left of a bench that was interrupted.
    Clean,
}

/// An operation is an instance, and the time that of the whole: from the restart to the end of the last, without the
/// time that the last one still had to sleep.
pub(crate) fn measure(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    if !measuring.place.engine().is_durable() {
        return Ok(Vec::new());
    }
    let flights = measuring.size.flights;
    let limit = measuring.disk.turn(&measuring.executor, AT_ONCE)?;
    let url = measuring.place.url("w6");
    let first_ms = now_us() / 1_000 + if measuring.quick { 300 } else { SLEEP_MS };
    let (spread_ms, mut child) = (
        SPREAD_MS.min(u64::from(flights)),
        Child::Flight.start(&url, measuring.quick, first_ms)?,
    );
    let mut told = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut told)?;
    child.kill()?;
    child.wait()?;
    if told.trim() != "started" {
        return Err(Problem::Other("the process that was to be killed did not start".into()));
    }
    LIFE.fetch_add(1, Ordering::Relaxed);
    RUNS.store(0, Ordering::Relaxed);
    let last_due_us = (first_ms + spread_ms) * 1_000;
    let (begin_us, cpu) = (now_us(), round::cpu_time());
    let runtime = measuring.open("w6", Config::default())?;
    let open_us = now_us() - begin_us;
    let results = (0..flights).map(|number| {
        let handle = runtime.handle(workflows::flight, &id(number));
        async { Outcome::Ok(handle?.result().await?) }
    });
    let results = stream::iter(results).buffer_unordered(flights as usize);
    let stored: Vec<u64> = measuring.executor.block_on(results.try_collect())?;
    let took_us = now_us() - begin_us;
    let beyond_us = took_us - last_due_us.saturating_sub(begin_us).min(took_us);
    let again = RUNS.load(Ordering::Relaxed).saturating_sub(stored.iter().sum());
    let sample = Sample {
        ops: u64::from(flights),
        took: Duration::from_micros(took_us),
        cpu: round::cpu_time() - cpu,
        latencies: vec![Duration::from_micros(beyond_us)],
    };
    measuring.close("w6", runtime)?;
    let mut figure = Figure::of(
        "W6",
        format!("killed with {flights} in flight"),
        4.0,
        vec![(limit, sample)],
    );
    figure.p50_syncs = None;
    let figure = figure
        .and("open_ms", open_us as f64 / 1e3)
        .and("all_done_ms", took_us as f64 / 1e3)
        .and("beyond_their_sleeps_ms", beyond_us as f64 / 1e3)
        .and("acknowledged_steps_again", again as f64);
    Ok(vec![figure])
}

fn id(number: u32) -> String {
    format!("flight-{number}")
}

impl Child {
    /// How this program is started for it.
    pub(crate) fn command(self, url: &str) -> Outcome<Command> {
        let name = match self {
            Self::Flight => "flight",
            Self::Store => "store",
            Self::Runtime => "runtime",
            Self::Clean => "clean",
        };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "--child", name, "--url", url]);
        Ok(command)
    }

    /// Starts a process of this program.
    fn start(self, url: &str, quick: bool, until_ms: u64) -> Outcome<std::process::Child> {
        let mut command = self.command(url)?;
        command.args(["--until-ms", &until_ms.to_string()]);
        if quick {
            command.arg("--quick");
        }
        // It ends when its standard input does, that is with this process at the latest.
        Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
    }

    /// The memory that a process takes that does this.
    pub(crate) fn resident_bytes(self, url: &str, quick: bool) -> Outcome<f64> {
        let mut child = self.start(url, quick, 0)?;
        let mut told = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut told)?;
        drop(child.stdin.take());
        child.wait()?;
        let kilobytes: f64 = told
            .trim()
            .parse()
            .map_err(|_| Problem::Other(format!("a process told `{}` instead of its memory", told.trim())))?;
        Ok(kilobytes * 1024.0)
    }

    /// What it does when it was started.
    pub(crate) fn run(self, executor: &Runtime, url: &str, size: Size, until_ms: u64) -> Outcome {
        match self {
            Self::Flight => executor.block_on(fly(url, size.flights, until_ms)),
            Self::Store => {
                let store = OpenOptions::new().open(url)?;
                println!("{}", resident_kilobytes()?);
                until_input_ends();
                Ok(store.close()?)
            }
            Self::Runtime => executor.block_on(async {
                let runtime = workflows::builder().open(url).await?;
                // Until the alarms have filled their window, and whoever was found runnable is out again.
                tokio::time::sleep(Duration::from_millis(500)).await;
                println!("{}", resident_kilobytes()?);
                until_input_ends();
                runtime.stop().await;
                Ok(())
            }),
            Self::Clean => place::clean(url),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a thread that only waits for the end of the input"
)]
async fn fly(url: &str, flights: u32, first_ms: u64) -> Outcome {
    let runtime = workflows::builder().open(url).await?;
    let spread_ms = SPREAD_MS.min(u64::from(flights));
    let starts = (0..flights).map(|number| {
        let until_ms = first_ms + u64::from(number) * spread_ms / u64::from(flights);
        let starting = runtime.start(workflows::flight, until_ms).id(id(number));
        async move {
            starting.await?;
            Outcome::Ok(())
        }
    });
    let () = stream::iter(starts).buffer_unordered(AT_ONCE).try_collect().await?;
    println!("started");
    // It runs on here while it waits to be killed.
    let input = tokio::task::spawn_blocking(until_input_ends);
    input.await.map_err(|error| Problem::Other(error.to_string()))
}

fn until_input_ends() {
    // Whether it ends or fails: nobody is there any more.
    let _ = std::io::stdin().read(&mut [0]);
}

/// What the system says that this process has in memory.
fn resident_kilobytes() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Problem::Other("the system does not tell how much memory is used".into()))
}

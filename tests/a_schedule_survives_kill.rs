//! A process with a schedule is killed with SIGKILL in the middle of its slots, again and again: no slot is lost, and
//! none starts a second instance. FAULTS 30.
//!
//! The test starts itself as a child process, on a store on disk and with a clock of its own: hours pass as fast as the
//! disk goes. The child says which slot runs; the parent kills it there, and the next process finds that a day has gone
//! by. It has to catch up, and is killed in the middle of that as well.

#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it expects by unwrapping it"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use everstep::chance::SystemChance;
use everstep::storage::Pace;
use everstep::storage::engines::Fjall;
use everstep::storage::record::Status;
use everstep::{CatchUp, Ctx, Every, Overlap, Result, Runtime, Simulated, ok, workflow};

#[path = "kit/day.rs"]
mod day;

use day::{Day, pass};

/// Where the store is, which process this is (one a day), how slots that meet are treated, and whether it is the last.
const STORE: &str = "EVERSTEP_TEST_SLOTS";
const DAY: &str = "EVERSTEP_TEST_SLOTS_DAY";
const OVERLAP: &str = "EVERSTEP_TEST_SLOTS_OVERLAP";
const LAST: &str = "EVERSTEP_TEST_SLOTS_LAST";

const HOUR: Duration = Duration::from_secs(3600);

/// Says that it runs, from inside and outside of a step: the parent may strike before or behind any commit.
#[workflow]
async fn slot(ctx: Ctx<Slot>) -> Result<()> {
    let id = ctx.id().to_string();
    say(&format!("begun {id}"));
    let ran = move || {
        let id = id.clone();
        async move {
            say(&format!("ran {id}"));
            ok(())
        }
    };
    ok(ctx.step("run", ran).await?)
}

async fn run(store: &Path, overlap: Overlap, day: u64, last: bool) {
    let machine = Simulated {
        engine: Arc::new(Fjall::open(store).unwrap()),
        clock: Arc::new(Day::new(day)),
        chance: Arc::new(SystemChance),
        pace: Pace::new(|| Box::pin(tokio::task::yield_now())),
    };
    let runtime = Runtime::builder().workflow(slot).open_simulated(machine).await.unwrap();
    let schedule = runtime.schedule("s", Every::new("1h")).starts(slot, ());
    let schedule = schedule.overlap(overlap).catch_up(CatchUp::All(1000)).await.unwrap();
    if !last {
        // Until somebody kills it.
        std::future::pending::<()>().await;
    }
    pass(HOUR * 3 / 2).await;
    let mut found = Vec::new();
    let mut page = schedule.instances().oldest_first().await.unwrap();
    loop {
        for row in &page.rows {
            assert_eq!(row.status, Status::Completed, "{}", row.id);
            found.push(row.id.clone());
        }
        let Some(next) = page.next else { break };
        page = schedule.instances().oldest_first().after(next).await.unwrap();
    }
    found.sort();
    found.dedup();
    let described = schedule.describe().await.unwrap();
    let (first, last) = (found.first().unwrap(), found.last().unwrap());
    say(&format!("result {} {} {first} {last}", described.started, found.len()));
}

fn say(line: &str) {
    println!("\nEVERSTEP {line}");
    std::io::stdout().flush().unwrap();
}

fn spawn(store: &Path, overlap: &str, day: usize, last: bool) -> (Child, impl Iterator<Item = String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_killed_schedule_goes_on_slot_by_slot", "--nocapture"])
        .env(STORE, store)
        .env(DAY, day.to_string())
        .env(OVERLAP, overlap)
        .stdout(Stdio::piped());
    if last {
        command.env(LAST, "");
    }
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map_while(std::result::Result::ok);
    (
        child,
        said.filter_map(|line| line.strip_prefix("EVERSTEP ").map(str::to_owned)),
    )
}

#[test]
fn a_killed_schedule_goes_on_slot_by_slot() {
    if let Ok(store) = std::env::var(STORE) {
        let day = std::env::var(DAY).unwrap().parse().unwrap();
        let overlap = match std::env::var(OVERLAP).unwrap().as_str() {
            "allow" => Overlap::Allow,
            _ => Overlap::Queue,
        };
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let last = std::env::var(LAST).is_ok();
        return executor.block_on(run(Path::new(&store), overlap, day, last));
    }
    // Behind which line of each process the kill comes. Each has the slots of its own day to say, at least.
    let kills = [
        ("begun", 1),
        ("ran", 2),
        ("begun", 7),
        ("ran", 11),
        ("ran", 20),
        ("begun", 3),
    ];
    for overlap in ["allow", "queue"] {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        for (day, (word, times)) in kills.into_iter().enumerate() {
            let (mut child, lines) = spawn(&store, overlap, day, false);
            let reached = lines.filter(|line| line.starts_with(word)).take(times).count();
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(reached, times, "process {day} never got to {word:?}");
        }
        let (mut child, mut lines) = spawn(&store, overlap, kills.len(), true);
        let result = lines.find_map(|line| line.strip_prefix("result ").map(str::to_owned));
        assert!(child.wait().unwrap().success());
        let hours = kills.len() * 24 + 1;
        let expected = format!("{hours} {hours} s-2030-01-01T01:00:00Z s-2030-01-07T01:00:00Z");
        assert_eq!(
            result.as_ref(),
            Some(&expected),
            "one instance for each hour of six days and one, {overlap}"
        );
    }
}

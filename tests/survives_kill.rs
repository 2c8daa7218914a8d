//! A workflow with a step, a message and a sleep is killed with SIGKILL and carried on: nothing runs twice, nothing
//! that was acknowledged is lost. FAULTS 1 and 3.
//!
//! The test starts itself as a child process that runs the workflow and reports every milestone on its standard
//! output. At the milestone under test the child does nothing more of its own, so that it does not matter how soon the
//! kill comes; the parent then opens the same directory again with the next child.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what it expects by unwrapping it"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use everstep::storage::OpenOptions;
use everstep::storage::record::Status;
use everstep::{Accepts, Ctx, Message, Runtime, Sent, Workflow, WorkflowError};
use serde::{Deserialize, Serialize};

/// The store that a child works in.
const CHILD: &str = "EVERSTEP_TEST_STORE";
/// The milestone at which a child waits to be killed.
const HALT: &str = "EVERSTEP_TEST_HALT";
/// What the children before this one said, with commas in between: it was acknowledged, and has to be there.
const SAID: &str = "EVERSTEP_TEST_SAID";

#[derive(Debug, Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

#[derive(Clone, Copy)]
struct Order;

impl Accepts<Approval> for Order {}

impl Workflow for Order {
    const NAME: &'static str = "order";
    type Input = PathBuf;
    type Output = String;

    async fn run(ctx: Ctx<Order>, effects: PathBuf) -> Result<String, WorkflowError> {
        let file = effects.clone();
        let number: u32 = ctx.step("reserve", move || effect(file.clone(), "reserve", 7)).await?;
        let approval: Approval = ctx.receive().await?;
        ctx.sleep("cooling off", Duration::from_millis(300)).await?;
        let charge = move || {
            let effects = effects.clone();
            async move {
                // In a child that is to be killed, the kill alone decides how far it gets, not how late it comes.
                if std::env::var_os(HALT).is_some() {
                    std::future::pending::<()>().await;
                }
                effect(effects, "charge", number * 6).await
            }
        };
        let total: u32 = ctx.step("charge", charge).await?;
        Ok(format!("{total} approved by {}", approval.by))
    }
}

/// What a step does to the world outside: a line in a file, on disk before the step ends.
async fn effect(file: PathBuf, line: &'static str, result: u32) -> Result<u32, WorkflowError> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    Ok(result)
}

/// The child: runs the workflow to its end, saying where it is.
async fn child(store: &Path) {
    let effects = store.with_extension("effects");
    let runtime = Runtime::builder()
        .workflow(Order)
        .open(store.to_str().unwrap())
        .await
        .unwrap();
    let order = runtime.start(Order, effects).id("order-1").await.unwrap();
    assert!(order.existed() || !was_said("started"), "the start was lost");
    milestone("started").await;
    order
        .reached(|status| status == Status::Waiting || past(status))
        .await
        .unwrap();
    milestone("waiting").await;
    let approval = Approval { by: "kim".into() };
    match order.send(approval).id("approval-1").await {
        Ok(Sent::Accepted) => {
            assert!(!was_said("sent"), "the message was lost, and is accepted anew");
            milestone("sent").await;
        }
        // A child before this one sent it; by now the instance may even have ended.
        Ok(Sent::Duplicate) => {}
        Err(error) => assert!(past(order.status().await.unwrap().status), "{error}"),
    }
    order.reached(past).await.unwrap();
    milestone("sleeping").await;
    let result = order.result().await.unwrap();
    say(&format!("result {result}"));
}

/// Whether a child before this one said it.
fn was_said(milestone: &str) -> bool {
    std::env::var(SAID).is_ok_and(|said| said.split(',').any(|known| known == milestone))
}

/// Says how far it got, and waits there to be killed if that is what it was started for.
async fn milestone(name: &str) {
    say(name);
    if std::env::var(HALT).is_ok_and(|halt| halt == name) {
        std::future::pending::<()>().await;
    }
}

/// Whether the message was taken.
fn past(status: Status) -> bool {
    status == Status::Sleeping || status.is_terminal()
}

fn say(line: &str) {
    println!("\nEVERSTEP {line}");
    std::io::stdout().flush().unwrap();
}

fn spawn(store: &Path, halt: Option<&str>, said: &[String]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "a_killed_workflow_carries_on", "--nocapture"])
        .env(CHILD, store)
        .env(SAID, said.join(","))
        .stdout(Stdio::piped());
    if let Some(milestone) = halt {
        command.env(HALT, milestone);
    }
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    (
        child,
        lines.filter_map(|line| line.strip_prefix("EVERSTEP ").map(str::to_owned)),
    )
}

/// FAULTS 26: whatever a kill cut off, no alarm, message or listing row is without what it belongs to.
fn is_sound(store: &Path) {
    let report = OpenOptions::new().verify(store.to_str().unwrap()).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_killed_workflow_carries_on() {
    if let Ok(store) = std::env::var(CHILD) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(child(Path::new(&store)));
        return;
    }
    for kills in [
        &["started"][..],
        &["waiting"],
        &["sent"],
        &["sleeping"],
        &["started", "waiting", "sent", "sleeping"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        let mut said = Vec::new();
        for milestone in kills {
            let (mut child, lines) = spawn(&store, Some(milestone), &said);
            let mut reached = false;
            for line in lines {
                reached = line == *milestone;
                said.push(line);
                if reached {
                    break;
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(reached, "the child never got to {milestone:?} of {kills:?}");
            is_sound(&store);
        }
        let (mut child, mut lines) = spawn(&store, None, &said);
        let result = lines.find(|line| line.starts_with("result"));
        assert_eq!(result.as_deref(), Some("result 42 approved by kim"), "after {kills:?}");
        assert!(child.wait().unwrap().success());
        is_sound(&store);
        let effects = std::fs::read_to_string(store.with_extension("effects")).unwrap();
        if kills[0] == "started" {
            // The first kill may hit the first step between its effect and its commit: then, and only then, it runs
            // again.
            assert!(
                ["reserve\ncharge\n", "reserve\nreserve\ncharge\n"].contains(&effects.as_str()),
                "{effects}"
            );
        } else {
            assert_eq!(effects, "reserve\ncharge\n", "after {kills:?} every step ran once");
        }
    }
}

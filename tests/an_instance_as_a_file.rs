//! An instance as a file: written by the program or through a handle, tried against today's code, brought into another
//! store, where it goes on as if it had always been there.

#![cfg(all(feature = "testing", feature = "cli", feature = "fjall"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use everstep::storage::OpenOptions;
use everstep::storage::record::Status;
use everstep::testing::rig::{End, replay_file};
use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

/// How often a step was done, in either store.
static RESERVED: AtomicU32 = AtomicU32::new(0);

#[workflow(accepts(Approval))]
async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> {
    let reserve = move || async move {
        RESERVED.fetch_add(1, Ordering::SeqCst);
        ok(amount + 1)
    };
    let held = ctx.step("reserve", reserve).await?;
    let Approval { by } = ctx.receive().await?;
    ctx.step("charge", || async { ok(()) }).await?;
    ok(format!("{held} approved by {by}"))
}

/// The same workflow as somebody is about to deploy it: the first step has another name.
mod next {
    use super::{Approval, Ctx, Result, ok, workflow};

    #[workflow(name = "payment", accepts(Approval))]
    pub(super) async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> {
        let held = ctx.step("hold", move || async move { ok(amount + 1) }).await?;
        let Approval { by } = ctx.receive().await?;
        ok(format!("{held} approved by {by}"))
    }
}

fn everstep(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    let output = program.env("NO_COLOR", "1").args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Starts an order in a store, and says how it looks as a file when it waits for its approval.
async fn begin(store: &str, id: &str, amount: u32) -> String {
    let runtime = Runtime::builder().workflow(payment).open(store).await.unwrap();
    let order = runtime
        .start(payment, amount)
        .id(id)
        .tag("shop", "paris")
        .await
        .unwrap();
    order.reached(|status| status == Status::Waiting).await.unwrap();
    let file = order.export().await.unwrap();
    let nobody = runtime.instance("nobody").unwrap().export().await.unwrap_err();
    assert_eq!(nobody.code(), "ES0401");
    runtime.stop().await;
    file
}

/// Lets an order go on in a store where it was brought to, and says how it looks as a file when it is over.
async fn end(store: &str, id: &str) -> String {
    let runtime = Runtime::builder().workflow(payment).open(store).await.unwrap();
    let order = runtime.handle(payment, id).unwrap();
    assert_eq!(order.status().await.unwrap().tags["shop"], "paris");
    order.send(Approval { by: "kim".into() }).await.unwrap();
    assert_eq!(order.result().await.unwrap(), "42 approved by kim");
    let file = order.export().await.unwrap();
    runtime.stop().await;
    file
}

/// Waits until a runtime that was stopped has let go of its store.
fn is_closed(store: &Path) {
    loop {
        match OpenOptions::new().open(text(store)) {
            Err(error) if error.code() == "ES0205" => std::thread::yield_now(),
            opened => return opened.unwrap().close().unwrap(),
        }
    }
}

#[test]
fn an_instance_is_exported_replayed_imported_and_goes_on() {
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    let (here, there, other, file) = (place("here"), place("there"), place("other"), place("order-1.jsonl"));

    let through_the_handle = executor.block_on(begin(text(&here), "order-1", 41));
    is_closed(&here);
    everstep(&["export", text(&here), "--instance", "order-1", "--out", text(&file)]);
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(written, through_the_handle);

    // Today's code fits, and has not ended; the next would leave such instances stuck, and says where.
    assert!(matches!(replay_file::<Payment>(&written), Ok(None)));
    let divergence = replay_file::<next::Payment>(&written).unwrap_err().to_string();
    assert!(
        divergence.contains("reserve") && divergence.contains("hold"),
        "{divergence}"
    );

    // Into a new store, through the program; into one that has another instance, through the library.
    everstep(&["import", text(&there), text(&file)]);
    executor.block_on(begin(text(&other), "order-2", 5));
    is_closed(&other);
    let imported = OpenOptions::new().import(text(&other), &mut Cursor::new(&written));
    assert_eq!(imported.unwrap().1.instances, 1);

    for store in [&there, &other] {
        let over = executor.block_on(end(text(store), "order-1"));
        is_closed(store);
        // What is over is replayed to its end.
        let ended = replay_file::<Payment>(&over).unwrap();
        assert_eq!(ended, Some(End::Completed("42 approved by kim".to_owned())));
        let report = OpenOptions::new().verify(text(store)).unwrap();
        assert!(report.is_clean(), "{report}");
    }
    // Once for each order: what was done before the export was done again nowhere.
    assert_eq!(RESERVED.load(Ordering::SeqCst), 2);
}

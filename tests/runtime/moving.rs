//! A store, or one instance of it, as a file: brought into another store it goes on there as it would have here.

use std::sync::Arc;

use everstep::storage::OpenOptions;
use everstep::storage::record::Status;
use everstep::{Ctx, Every, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::kit::{echo, everyone, machine, naps, pass, waits};

#[derive(Message, Serialize, Deserialize)]
struct Opened {
    by: String,
}

#[workflow]
async fn visits(ctx: Ctx<Visits>) -> Result<String> {
    ok(ctx.wait_event::<Opened>().await?.by)
}

const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);

/// Found in a review: rows of ids that begin with `__` were written and not read, so the export of a store could not be
/// imported any more once it had a schedule, a topic, a debounced start or a batch.
#[tokio::test(start_paused = true)]
async fn a_store_moves_with_everything_that_the_runtime_itself_is_made_of() {
    let here = everyone().workflow(visits).open_simulated(machine()).await.unwrap();
    here.schedule("hourly", Every::new("1h")).starts(echo, 7).await.unwrap();
    here.publish(Opened { by: "kim".into() }).await.unwrap();
    let debounced = here.debounce("document", "30m").starts(echo, 8).await.unwrap();
    here.start(waits, 1).id("waits").await.unwrap();
    let pausing = here.batch(here.list().workflow("waits")).pause().start("pausing").await;
    pausing.unwrap().finished().await.unwrap();
    here.stop().await;
    let mut file = Vec::new();
    here.store().export(&mut file).unwrap();

    let there = machine();
    let engine = Arc::clone(&there.engine);
    let (store, _) = OpenOptions::new().import_engine(engine, &mut &file[..]).unwrap();
    let mut again = Vec::new();
    store.export(&mut again).unwrap();
    assert_eq!(rows(&again), rows(&file));
    drop(store);
    let there = everyone().workflow(visits).open_simulated(there).await.unwrap();
    let visitor = there.start(visits, ()).await.unwrap();
    assert_eq!(visitor.result().timeout("1m").await.unwrap(), "kim", "the topic");
    let progress = there.batch_handle("pausing").unwrap().progress().await.unwrap();
    assert!(progress.is_over && progress.done == 1, "the batch: {progress:?}");
    pass(HOUR + HOUR / 2).await;
    let slots = there.schedule_handle("hourly").unwrap().describe().await.unwrap();
    assert_eq!(slots.started, 1, "the schedule");
    let begun = there.handle(echo, debounced.id().as_str()).unwrap();
    assert_eq!(begun.result().timeout("1m").await.unwrap(), 8, "the debounced start");
    let report = there.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Found in a review: the places at gates did not move with a store. Everybody came to the gate anew when the copy was
/// opened, in an order of chance, and whoever had waited longest could be the last.
#[tokio::test(start_paused = true)]
async fn who_waits_at_a_gate_keeps_its_place() {
    let here = everyone().open_simulated(machine()).await.unwrap();
    let names: Vec<_> = (0..12).map(|number| format!("{}", (number * 7) % 12)).collect();
    for name in &names {
        let starting = here.start(naps, 60).id(name).at_most(1, "customer");
        starting.await.unwrap();
    }
    pass(HOUR / 40).await;
    here.stop().await;
    let mut file = Vec::new();
    here.store().export(&mut file).unwrap();

    let there = machine();
    let engine = Arc::clone(&there.engine);
    let shards = OpenOptions::new().shards(3);
    drop(shards.import_engine(engine, &mut &file[..]).unwrap());
    let there = everyone().open_simulated(there).await.unwrap();
    for (number, name) in names.iter().enumerate() {
        let nap = there.handle(naps, name).unwrap();
        nap.result().timeout("1h").await.unwrap();
        for behind in &names[number + 1..] {
            let stands = there.handle(naps, behind).unwrap().status().await.unwrap();
            assert_ne!(stands.status, Status::Completed, "{behind} came behind {name}");
        }
    }
    assert!(there.store().verify().unwrap().is_clean());
}

/// The lines between the first and the last.
fn rows(file: &[u8]) -> Vec<&str> {
    let lines: Vec<_> = std::str::from_utf8(file).unwrap().lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// Takes a turn by chance, tells its token, and waits for it to be used.
#[workflow]
async fn consents(ctx: Ctx<Consents>) -> Result<u64> {
    for turn in 0..20 {
        let side = ["left", "right"][usize::from(ctx.random().is_multiple_of(2))];
        ctx.step(&format!("{side} {turn}"), || async { ok(()) }).await?;
    }
    let helper = ctx.child(echo, 1).detach().await?;
    ctx.set("helper", helper.id().as_str())?;
    ctx.step("prepare", || async { ok(()) }).await?;
    let consent = ctx.promise::<u64>("consent")?;
    ctx.emit(consent.token().to_string())?;
    ok(consent.await?)
}

/// Found in a review: the file of an instance held the secret that the tokens of its promises are made of. Whoever read
/// the file could decide the promises of the instance that it was exported from.
#[tokio::test(start_paused = true)]
async fn the_file_of_an_instance_does_not_say_what_tokens_are_made_of() {
    let here = everyone().workflow(consents).open_simulated(machine()).await.unwrap();
    let order = here.start(consents, ()).id("order").await.unwrap();
    let token = order.stream::<String>().next().await.unwrap().unwrap().value;
    order.reached(|status| status == Status::Waiting).await.unwrap();
    let (file, mut all) = (order.export().await.unwrap(), Vec::new());
    here.store().export(&mut all).unwrap();
    let secret = secret(std::str::from_utf8(&all).unwrap(), "order");
    assert!(!file.contains(&secret), "{file}");

    let there = machine();
    let engine = Arc::clone(&there.engine);
    drop(OpenOptions::new().import_engine(engine, &mut file.as_bytes()).unwrap());
    let there = everyone().workflow(consents).open_simulated(there).await.unwrap();
    let copy = there.handle(consents, "order").unwrap();
    there.passivate("order").await.unwrap();
    pass(HOUR).await;
    let stands = copy.status().await.unwrap();
    assert_eq!(
        stands.status,
        Status::Waiting,
        "chance and children are as they were: {stands:?}"
    );
    assert_eq!(there.resolve(&token, &7_u64).await.unwrap_err().code(), "ES0106");
    // Another token comes of doing it again.
    copy.reset("prepare").await.unwrap();
    let mut told = copy.stream::<String>();
    let mut last = told.next().await.unwrap().unwrap();
    while last.value == token {
        last = told.next().await.unwrap().unwrap();
    }
    there.resolve(&last.value, &8_u64).await.unwrap();
    assert_eq!(copy.result().await.unwrap(), 8);
    // And the original knows nothing of it.
    here.resolve(&token, &9_u64).await.unwrap();
    assert_eq!(order.result().await.unwrap(), 9);
}

/// The secret of an instance, as it stands in the export of a store.
fn secret(file: &str, instance: &str) -> String {
    let origins = file.lines().filter(|line| line.contains(r#""fact":"origin""#));
    let of = format!(r#""instance":"{instance}""#);
    let row: serde_json::Value = origins
        .filter(|line| line.contains(&of))
        .map(|line| serde_json::from_str(line).unwrap())
        .next()
        .unwrap();
    // Behind the name of the workflow with its length, the version and the time.
    let bare = row["bare"].as_str().unwrap();
    bare[2 * (1 + "consents".len() + 4 + 8)..][..32].to_owned()
}

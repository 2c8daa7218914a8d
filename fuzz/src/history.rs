//! The target for histories: the engine replays what no engine wrote.
//!
//! The input is a recipe that bends the rows of an instance which waits in the middle of a workflow with every kind of
//! entry. Whatever comes of it is imported, and the workflow runs over it: it may go on, fail, be stuck or be put
//! aside, but it never panics, and everything comes to rest.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use everstep::storage::engines::Memory;
use everstep::storage::record::Status;
use everstep::storage::{OpenOptions, Pace};
use everstep::{Attempt, Ctx, Loop, Message, Result, Runtime, branch, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::import::whole;
use crate::input::Input;
use crate::machine::{in_virtual_time, machine};

#[derive(Message, Serialize, Deserialize)]
struct Note(u32);

#[derive(Message, Serialize, Deserialize)]
struct Heard;

/// One of everything. It waits for a second note at the end, for a day.
#[workflow(accepts(Note))]
async fn everything(ctx: Ctx<Everything>) -> Result<u32> {
    let first = ctx.step("first", || async { ok(1_u32) }).rollback(undo).await?;
    let fails = |attempt: Attempt| async move {
        everstep::ensure!(attempt.number() > 1, "at first");
        ok(2_u32)
    };
    let second = ctx.step("second", fails).delay("1s").await?;
    ctx.compensate("undo", second, undo);
    ctx.sleep("nap", "1m").await?;
    let Note(note) = ctx.receive().await?;
    let version = ctx.version("change", 2)?;
    let (left, right) = ctx
        .join(
            "both",
            (
                branch("left", |ctx: Ctx<Everything>| async move {
                    ok(ctx.step("s", || async { ok(3_u32) }).await?)
                }),
                branch("right", |ctx: Ctx<Everything>| async move {
                    ok(ctx.sleep("s", "1s").await?)
                }),
            ),
        )
        .await?;
    let () = right;
    let each = ctx.map("each", vec![1_u32, 2, 3], 2, |ctx: Ctx<Everything>, item| async move {
        ok(ctx.step("s", move || async move { ok(item) }).await?)
    });
    let sum: u32 = each.await?.into_iter().sum();
    let body = |ctx: Ctx<Everything>, round: u32| async move {
        ctx.step("s", || async { ok(()) }).await?;
        ok(if round == 7 {
            Loop::Break(round)
        } else {
            Loop::Continue(round + 1)
        })
    };
    let rounds = ctx.repeat("rounds", 0, body).commit_interval(2).history_keep(2).await?;
    ctx.set("progress", rounds)?;
    ctx.emit(rounds)?;
    let let_go = ctx.child(helper, 5).detach().await?;
    let awaited = ctx.child(helper, 6).id("awaited").await?;
    let race = ctx.race(
        "fastest",
        (
            branch("slow", |ctx: Ctx<Everything>| async move {
                ctx.sleep("s", "1h").await?;
                ok(1_u32)
            }),
            branch("quick", |ctx: Ctx<Everything>| async move {
                ok(ctx.step("s", || async { ok(2_u32) }).await?)
            }),
        ),
    );
    let won = race.await?.value;
    ctx.publish(Heard).await?;
    let Heard = ctx.wait_event().timeout("1s").await?;
    let promised = ctx.promise::<u32>("promised")?.timeout("1s").await;
    ctx.send_to(&let_go, Heard).await?;
    let caught = ctx
        .step("caught", || async { Err::<u32, _>(std::io::Error::other("always")) })
        .retries(0)
        .tried()
        .await?;
    let Note(last) = ctx.receive().timeout("1d").await?;
    let sum = first + second + note + version + left + sum + rounds + awaited + won + last;
    let sum = sum + u32::from(caught.is_err()) + u32::from(promised.is_err());
    ok(ctx.step("last", move || async move { ok(sum) }).await? + let_go.id().as_str().len() as u32)
}

async fn undo(_done: u32) -> Result<()> {
    ok(())
}

#[workflow(accepts(Heard))]
async fn helper(_ctx: Ctx<Helper>, number: u32) -> Result<u32> {
    ok(number)
}

/// A row of the file: its key, and everything behind it.
#[derive(Clone)]
struct Row {
    key: String,
    record: String,
}

/// Checks one recipe.
pub fn check(data: &[u8]) {
    notice_panics();
    let mut rows = base().to_vec();
    let mut input = Input::new(data);
    // More changes than this only make a file that is refused.
    for _ in 0..8 {
        if input.rest().is_empty() {
            break;
        }
        bend(&mut rows, &mut input);
    }
    let rows: Vec<_> = rows.iter().map(|row| format!("{}{}", row.key, row.record)).collect();
    let file = whole(&rows);
    in_virtual_time(async {
        let disk = Memory::new();
        let options = OpenOptions::new().in_task(Pace::default());
        let imported = options.import_engine(Arc::new(disk.clone()), &mut file.as_bytes());
        // Dropped before the runtime opens: a store has one owner.
        if imported.map(drop).is_ok() {
            replay(&disk).await;
        }
    });
}

/// One change, as the recipe says.
fn bend(rows: &mut Vec<Row>, input: &mut Input<'_>) {
    if rows.is_empty() {
        return;
    }
    let kind = input.byte();
    let (at, other) = (
        usize::from(input.byte()) % rows.len(),
        usize::from(input.byte()) % rows.len(),
    );
    match kind % 6 {
        0 => {
            rows.remove(at);
        }
        1 => {
            let (place, change) = (input.byte(), input.byte());
            rows[at].record = changed(&rows[at].record, |bytes| {
                if !bytes.is_empty() {
                    let place = usize::from(place) % bytes.len();
                    bytes[place] ^= change;
                }
            });
        }
        2 => rows[at].record = rows[other].record.clone(),
        3 => {
            let record = rows[at].record.clone();
            rows[at].record = std::mem::replace(&mut rows[other].record, record);
        }
        4 => {
            let place = usize::from(input.byte());
            let more = input.bytes().to_vec();
            rows[at].record = changed(&rows[at].record, |bytes| {
                let place = place.min(bytes.len());
                bytes.splice(place..place, more);
            });
        }
        _ => {
            let length = usize::from(input.byte());
            rows[at].record = changed(&rows[at].record, |bytes| bytes.truncate(length));
        }
    }
}

/// The part behind the key, with other bytes in the record.
fn changed(record: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    const MARK: &str = "\"bare\":\"";
    let (head, rest) = record.split_once(MARK).expect("a row has a record");
    let hex = rest.trim_end_matches("\"}");
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("a record is in hexadecimal");
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
    change(&mut bytes);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{head}{MARK}{hex}\"}}")
}

/// The rows of an instance that has come to its last wait.
fn base() -> &'static [Row] {
    static BASE: OnceLock<Vec<Row>> = OnceLock::new();
    BASE.get_or_init(|| in_virtual_time(record()))
}

async fn record() -> Vec<Row> {
    let runtime = open(&Memory::new()).await.expect("an empty disk opens");
    let instance = runtime.start(everything, ()).id("a").await.expect("it starts");
    instance.send(Note(4)).await.expect("it is sent");
    let mut last = instance.watch();
    while instance
        .history()
        .await
        .is_ok_and(|history| !format!("{history:?}").contains("caught"))
    {
        let change = last.next().await.expect("it is told of what changes");
        assert!(change.is_some(), "{:?}", instance.result().await);
    }
    let mut file = Vec::new();
    let exported = runtime.store().export_instance(instance.id(), &mut file);
    exported.expect("it can be exported");
    let file = String::from_utf8(file).expect("an export is text");
    let lines: Vec<_> = file.lines().collect();
    let row = |line: &&str| {
        let (key, record) = line.split_once(",\"record\"").expect("a row has a record");
        Row {
            key: key.to_owned(),
            record: format!(",\"record\"{record}"),
        }
    };
    lines[1..lines.len() - 1].iter().map(row).collect()
}

/// Lets the workflow run over what is stored, until it rests for good.
async fn replay(disk: &Memory) {
    // A store that does not open says why.
    let Ok(runtime) = open(disk).await else { return };
    let Ok(instance) = runtime.instance("a") else { return };
    let rests = instance.reached(|status| status.is_terminal() || status == Status::Quarantined);
    let _ended = tokio::time::timeout(Duration::from_secs(7 * 24 * 60 * 60), rests).await;
    runtime.stop().await;
    runtime.store().verify().expect("a store can be verified");
    assert!(
        !PANICKED.load(Ordering::Acquire),
        "something panicked, and somebody caught it"
    );
}

/// Whether anything panicked, in whatever task: the runtime contains panics, and this is where they would hide.
static PANICKED: AtomicBool = AtomicBool::new(false);

fn notice_panics() {
    static NOTICED: Once = Once::new();
    NOTICED.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.store(true, Ordering::Release);
            before(panic);
        }));
    });
}

async fn open(disk: &Memory) -> std::result::Result<Runtime, everstep::Error> {
    let builder = Runtime::builder().workflow(everything).workflow(helper);
    builder.open_simulated(machine(disk)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_has_every_kind_of_entry_and_can_be_replayed() {
        let rows = base();
        assert!(rows.len() > 50, "{}", rows.len());
        assert!(rows.iter().any(|row| row.key.contains("attempts")));
        check(&[]);
    }
}

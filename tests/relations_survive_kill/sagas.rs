//! A saga is cancelled, and the process dies in the middle of it and of its undoing: all of it is undone, each part behind
//! those that came after it.

use everstep::storage::record::EntryKind;
use everstep::{Config, Ctx, Handle, Loop, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::day;
use crate::life::{self, Life};

const TEST: &str = "sagas::a_killed_saga_is_undone_in_reverse_order";

/// The lives in which it is still on its way when they begin.
const FORWARD: u64 = 3;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Go;

/// The effect of an undoing. Whoever dies behind it does it again.
fn undo(what: &str) -> Result<()> {
    crate::process::say(&format!("undid {what}"));
    life::pass(what);
    ok(())
}

#[workflow]
async fn hotel(ctx: Ctx<Hotel>) -> Result<u32> {
    ok(ctx.step("book", || async { ok(7) }).await?)
}

/// A step, a child, a loop with a checkpoint and a compensation; then it waits to be cancelled.
#[workflow(accepts(Go))]
async fn travel(ctx: Ctx<Travel>) -> Result<()> {
    let flight = ctx.step("flight", || async { ok(()) });
    flight.rollback(|()| async { undo("flight") }).await?;
    let hotel = ctx.child(hotel, ()).rollback(|_: u32| async { undo("hotel") });
    hotel.await?;
    let rounds = ctx.repeat("rounds", 0_u32, |ctx: Ctx<Self>, round: u32| async move {
        if round == 1 {
            ctx.checkpoint("from here on")?;
            let tour = ctx.step("tour", || async { ok(()) });
            tour.rollback(|()| async { undo("tour") }).await?;
        }
        ctx.step("walk", || async { ok(()) }).await?;
        ok(if round < 3 {
            Loop::Continue(round + 1)
        } else {
            Loop::Break(())
        })
    });
    rounds.commit_interval(1).history_every(1).await?;
    ctx.compensate("mail", (), |()| async { undo("mail") });
    ctx.receive::<Go>().await?;
    ok(())
}

/// What is recorded, by path.
async fn recorded(travel: &Handle<Travel>) -> Vec<(String, EntryKind)> {
    let history = travel.history().await.unwrap();
    history
        .entries
        .into_iter()
        .map(|entry| (entry.path, entry.kind))
        .collect()
}

async fn live(life: Life) {
    let forward = life.number < FORWARD;
    if forward {
        life.arm();
    }
    let builder = Runtime::builder().workflow(travel).workflow(hotel);
    let runtime = life.open(builder, Config::default().shards(2), |_| true).await;
    life::is_sound(&runtime);
    if !forward {
        life.arm();
    }
    let travel = runtime.start(travel, ()).id("travel").await.unwrap();
    // The last thing before it waits.
    while !recorded(&travel).await.iter().any(|(path, _)| path == "mail") {
        day::pass(std::time::Duration::from_secs(60)).await;
    }
    travel.cancel("enough").await.unwrap();
    travel.result().await.unwrap_err();
    life::is_sound(&runtime);
    let status = travel.status().await.unwrap().status;
    let recorded = recorded(&travel).await;
    let undone = recorded
        .iter()
        .filter(|(_, kind)| matches!(kind, EntryKind::Rollback(Some(_))));
    let undone = undone.count();
    crate::process::say(&format!("{status} {undone}"));
}

/// FAULTS 57.
#[test]
fn a_killed_saga_is_undone_in_reverse_order() {
    if Life::play(live) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // On its way; then behind each undoing, and around commits in between.
    let places = [
        "after 3", "before 4", "after 4", "mail 1", "before 2", "tour 1", "after 1", "hotel 1", "before 1", "flight 1",
        "before 1",
    ];
    let said = life::lives(TEST, &directory.path().join("store"), &places);
    let calls: Vec<_> = said.concat();
    let (end, calls) = calls.split_last().unwrap();
    let mut undone: Vec<_> = calls.to_vec();
    undone.dedup();
    assert_eq!(
        undone,
        ["undid mail", "undid tour", "undid hotel", "undid flight"],
        "{said:?}"
    );
    assert!(
        calls.len() >= 4 + 3,
        "it died between an undoing and its commit: {said:?}"
    );
    assert_eq!(end, "cancelled 3");
}

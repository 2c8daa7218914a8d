//! One of each key may run at once, started from outside or by a parent, and the process dies while one is inside, while it
//! leaves, and while the next is let in: never two at once, and everyone has its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;

use everstep::storage::key::Key;
use everstep::{Config, Ctx, Result, Runtime, ok, workflow};

use crate::life::{self, Life};

const TEST: &str = "gates::a_killed_gate_lets_everyone_in_one_by_one";

const KEYS: usize = 4;
/// Started from outside for each key, and by a parent.
const EACH: usize = 8;
const INSIDE: usize = 4;

/// Writes into a file, on disk before it goes on, and comes by a place.
async fn note(file: PathBuf, line: String, place: &'static str) -> Result<()> {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{line}")?;
    file.sync_all()?;
    life::pass(place);
    ok(())
}

/// Comes in, stays for a while, and leaves. A step that a kill cut off is made again, as often as it takes.
#[workflow]
async fn guarded(ctx: Ctx<Guarded>, (file, line): (PathBuf, String)) -> Result<()> {
    for place in ["entered", "left"] {
        let (file, line) = (file.clone(), line.clone());
        let work = move || note(file.clone(), line.clone(), place);
        ctx.step(place, work).retries(1000).await?;
        if place == "entered" {
            ctx.sleep("inside", "1s").await?;
        }
    }
    ok(())
}

/// Starts children with keys, which stand at the same gates as those from outside.
#[workflow]
async fn family(ctx: Ctx<Family>, file: PathBuf) -> Result<()> {
    let mut children = Vec::new();
    for number in 0..KEYS * INSIDE {
        let key = format!("key-{}", number % KEYS);
        let child = ctx.child(guarded, (file.clone(), format!("{key} child {number}")));
        children.push(child.at_most(1, key).start().await?);
    }
    for child in children {
        child.await?;
    }
    ok(())
}

async fn live(life: Life) {
    life.arm();
    let builder = Runtime::builder().workflow(guarded).workflow(family);
    let config = Config::default().shards(3);
    let runtime = life.open(builder, config, |key| matches!(key, Key::Gate(..))).await;
    life::is_sound(&runtime);
    let notes = life.store.with_extension("notes");
    let family = runtime.start(family, notes.clone()).id("family").await.unwrap();
    let mut handles = Vec::new();
    for number in 0..KEYS * EACH {
        let key = format!("key-{}", number % KEYS);
        let input = (notes.clone(), format!("{key} {number}"));
        let starting = runtime.start(guarded, input).id(format!("guarded-{number}"));
        handles.push(starting.at_most(1, key).await.unwrap());
    }
    for handle in handles {
        handle.result().await.unwrap();
    }
    family.result().await.unwrap();
    life::is_sound(&runtime);
}

/// FAULTS 67 and 1.
#[test]
fn a_killed_gate_lets_everyone_in_one_by_one() {
    if Life::play(live) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let places = [
        "before 2",
        "after 5",
        "entered 1",
        "left 1",
        "after 1",
        "before 3",
        "entered 6",
        "left 5",
        "after 4",
        "before 5",
        "left 8",
    ];
    life::lives(TEST, &store, &places);
    let notes = std::fs::read_to_string(store.with_extension("notes")).unwrap();
    let mut turns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, name) in notes.lines().filter_map(|line| line.split_once(' ')) {
        let turns = turns.entry(key).or_default();
        if turns.last() != Some(&name) {
            turns.push(name);
        }
    }
    assert_eq!(turns.len(), KEYS);
    for (key, turns) in turns {
        let names: BTreeSet<_> = turns.iter().collect();
        // A name that comes twice was not alone while it was inside.
        assert_eq!(
            (turns.len(), names.len()),
            (EACH + INSIDE, EACH + INSIDE),
            "{key}: {turns:?}"
        );
    }
}

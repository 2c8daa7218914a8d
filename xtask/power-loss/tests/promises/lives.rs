//! Children that are killed in the middle, and started again.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use everstep_power_loss::{Dirs, Error, Event};

use crate::harness::{Role, Stage, say, synced};

pub(crate) const ROLES: &[Role] = &[
    ("begin", begin),
    ("sync another", sync_another),
    ("sync the log", sync_the_log),
    ("threads", threads),
    ("churn", churn),
    ("rewrite", rewrite),
];

fn begin(root: &Path) {
    let mut log = synced(&root.join("log"), b"one");
    log.write_all(b"two").expect("write");
}

fn sync_another(root: &Path) {
    drop(synced(&root.join("other"), b"content"));
}

fn sync_the_log(root: &Path) {
    OpenOptions::new()
        .append(true)
        .open(root.join("log"))
        .and_then(|log| log.sync_data())
        .expect("sync");
}

fn log_is_sometimes_short(stage: &Stage) -> bool {
    let mut short = 0;
    stage.cuts(Dirs::Lenient, 30, |_, _, out| {
        short += usize::from(fs::read(out.join("log")).expect("the log") == b"one");
    });
    short > 0
}

#[test]
fn what_a_killed_process_left_unsynced_stays_unsynced_in_its_next_life() {
    let stage = Stage::after("begin");
    stage.play("sync another", 1, "ready");
    assert!(log_is_sometimes_short(&stage));
    stage.play("sync the log", 1, "ready");
    assert!(!log_is_sometimes_short(&stage));
}

#[test]
fn after_a_cut_in_place_nothing_is_left_to_lose() {
    let stage = Stage::after("begin");
    let seed = (0..).find(|&seed| {
        let out = stage.root().with_extension("probe");
        let report = stage.rig.cut_into(seed, &out).expect("a cut");
        fs::remove_dir_all(out).expect("clean up");
        report.undone == 1
    });
    stage.rig.cut(seed.expect("endless")).expect("a cut");
    assert_eq!(fs::read(stage.root().join("log")).expect("the log"), b"one");
    stage.cuts(Dirs::Strict, 5, |_, report, _| {
        assert_eq!(report, Default::default());
    });
    stage.play("sync another", 1, "ready");
    stage.cuts(Dirs::Lenient, 5, |_, _, out| {
        assert!(out.join("other").exists());
    });
}

#[test]
fn a_change_behind_the_shim_stops_the_cut() {
    let stage = Stage::after("begin");
    // The last record of all is settled, not checked: have another one.
    stage.play("sync another", 1, "ready");
    fs::write(stage.root().join("log"), b"unseen").expect("write");
    let result = stage.rig.cut_into(1, &stage.root().with_extension("out"));
    assert!(matches!(result, Err(Error::Unseen(_))), "{result:?}");
}

const SLOT_BYTES: u64 = 700;

fn record(slot: u64) -> Vec<u8> {
    format!("{slot:07}").repeat(100).into_bytes()
}

/// Four threads in one file, each reports a slot when its sync has returned.
fn threads(root: &Path) {
    let file = fs::File::create(root.join("slots")).expect("create");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let file = &file;
            scope.spawn(move || {
                for slot in (thread..).step_by(4) {
                    file.write_all_at(&record(slot), slot * SLOT_BYTES).expect("write");
                    file.sync_data().expect("sync");
                    say(&format!("slot {slot}"));
                }
            });
        }
    });
}

#[test]
fn no_thread_loses_what_its_sync_has_confirmed() {
    for _ in 0..3 {
        let stage = Stage::new();
        let said = stage.play("threads", 200, "slot ");
        let slots: Vec<u64> = said.iter().filter_map(|line| line[5..].parse().ok()).collect();
        stage.cuts(Dirs::Lenient, 10, |seed, _, out| {
            let bytes = fs::read(out.join("slots")).expect("the slots");
            for &slot in &slots {
                let at = (slot * SLOT_BYTES) as usize;
                let found = &bytes[at..at + SLOT_BYTES as usize];
                assert!(found == record(slot), "seed {seed}, slot {slot}");
            }
        });
    }
}

/// With four threads at work, some write is recorded while a sync runs. The
/// sync must not claim it.
#[test]
fn a_sync_covers_only_what_came_before_it() {
    let stage = Stage::new();
    stage.play("threads", 200, "slot ");
    let records = stage.records();
    let overtaken = records
        .iter()
        .filter(|record| matches!(record.event, Event::Synced { upto, .. } if upto + 1 < record.seq));
    assert!(overtaken.count() > 0);
}

/// Creation, renaming and removal in a loop while another thread writes.
fn churn(root: &Path) {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut log = fs::File::create(root.join("log")).expect("create");
            loop {
                log.write_all(&[b'l'; 1500]).expect("write");
                WRITTEN.store(true, Ordering::Relaxed);
            }
        });
        for round in 0_u64.. {
            let (next, current) = (root.join("next"), root.join("current"));
            drop(synced(&next, round.to_string().as_bytes()));
            fs::rename(&next, &current).expect("rename");
            fs::write(root.join("scratch"), b"scratch").expect("write");
            fs::remove_file(root.join("scratch")).expect("remove");
            if WRITTEN.load(Ordering::Relaxed) {
                say(&format!("round {round}"));
            }
        }
    });
}

#[test]
fn a_kill_at_any_moment_leaves_a_journal_that_agrees_with_the_disk() {
    for rounds in [1, 7, 20] {
        let stage = Stage::new();
        for _ in 0..3 {
            let said = stage.play("churn", rounds, "round ");
            let last: u64 = said
                .iter()
                .filter_map(|line| line[6..].parse().ok())
                .max()
                .expect("one");
            stage.cuts(Dirs::Lenient, 5, |seed, _, out| {
                let Ok(current) = fs::read_to_string(out.join("current")) else {
                    // The first rename becomes durable with the second round's sync.
                    return assert_eq!(last, 0, "seed {seed}");
                };
                let current: u64 = current.parse().expect("a whole number");
                assert!(current + 1 >= last, "seed {seed}: {current} after {last}");
            });
            stage.cuts(Dirs::Strict, 1, |_, _, out| {
                assert!(!out.join("current").exists());
            });
        }
    }
}

/// More than the journal holds before it is compacted.
fn rewrite(root: &Path) {
    begin(root);
    let page = fs::File::create(root.join("page")).expect("create");
    for round in 0..80 {
        page.write_all_at(&[round; 1 << 20], 0).expect("write");
        page.sync_data().expect("sync");
    }
}

#[test]
fn a_compacted_journal_still_knows_what_is_unsynced() {
    let stage = Stage::after("rewrite");
    assert!(stage.records().len() < 80);
    assert!(log_is_sometimes_short(&stage));
    stage.cuts(Dirs::Lenient, 2, |_, _, out| {
        assert!(fs::read(out.join("page")).expect("the page") == [79; 1 << 20]);
    });
    stage.play("sync the log", 1, "ready");
    assert!(!log_is_sometimes_short(&stage));
}

//! `verify` reports everything that is wrong, each thing under its name and for the instance it belongs to, and
//! changes nothing. FAULTS 11, 77, 78.
#![cfg(feature = "testing")]
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use everstep::Shard;
use everstep::storage::batch::Batch;
use everstep::storage::engine::{Direction, Scan};
use everstep::storage::engines::faulty::{Faulty, Plan as Faults};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::record::{
    Alarm, Answer, AtGate, Completed, DeadLetter, Decided, Emitted, Entry, EntryKind, Flow, Hold, IndexRow, Input,
    Message, Name, Origin, Outgoing, Output, Parcel, Published, Runnable, Seen, State, Status, Tombstone,
};
use everstep::storage::value::{self, Record};
use everstep::storage::{Fault, Report};
use stores::{Plan, Reachable, export, history};

const SHARD: Shard = Shard(0);

/// A store with two instances: one to damage, one that must not suffer from it.
fn store() -> Reachable {
    let store = Reachable::new(1);
    let open = store.open();
    Plan::new("good").make(&open);
    Plan::new("victim").make(&open);
    open.close().unwrap();
    store
}

fn victim(local: Local<'static>) -> Key<'static> {
    Key::Instance(SHARD, "victim".into(), local)
}

fn set<R: Record>(batch: &mut Batch, key: &Key<'_>, record: &R) {
    let key = key.pack();
    batch.set(&key, &value::encode(&key, record));
}

fn state(change: impl FnOnce(&mut State)) -> impl FnOnce(&mut Batch) {
    let mut state = Plan::new("victim").state();
    change(&mut state);
    move |batch| set(batch, &victim(Local::Meta(Meta::State)), &state)
}

fn delete(key: Key<'static>) -> impl FnOnce(&mut Batch) {
    move |batch| batch.delete(&key.pack())
}

/// Damages a store and says what `verify` makes of it.
fn report(damage: impl FnOnce(&mut Batch)) -> Report {
    let store = store();
    store.tamper(SHARD, damage);
    store.open().verify().unwrap()
}

/// The report has these faults and no other, and every one of them is the victim's.
#[track_caller]
fn finds(damage: impl FnOnce(&mut Batch), expected: &[Fault]) {
    let report = report(damage);
    let faults: Vec<_> = report.faults.iter().map(|(fault, count)| (*fault, *count)).collect();
    let expected: Vec<_> = expected.iter().map(|fault| (*fault, 1)).collect();
    assert_eq!(faults, expected, "{report}");
    for finding in &report.findings {
        assert_eq!(finding.instance.as_deref(), Some("victim"), "{report}");
    }
}

#[test]
fn a_sound_store_has_no_finding() {
    let report = store().open().verify().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.instances, 2);
    assert_eq!(report.to_string().lines().last(), Some("nothing is wrong"));
    // Header and position; 3 names, 3 entries, 3 facts, 2 messages and attempts twice, then alarm, index, runnable, 2 seen.
    assert_eq!(report.rows, 2 + 2 * (3 + 3 + 3 + 2 + 1 + 1 + 1 + 1 + 2), "{report}");
}

#[test]
fn broken_envelopes_are_told_apart() {
    let entry = || victim(history(1));
    let stored = store().value(&entry());
    let with = |value: Vec<u8>| move |batch: &mut Batch| batch.set(&entry().pack(), &value);
    let mut flipped = stored.clone();
    flipped[20] ^= 1;
    finds(with(flipped), &[Fault::Damaged]);
    finds(with(stored[..stored.len() - 1].to_vec()), &[Fault::Truncated]);
    finds(with([stored.as_slice(), &[0]].concat()), &[Fault::TrailingBytes]);
    let elsewhere = value::encode(&victim(history(0)).pack(), &Plan::new("victim").entry(1));
    finds(with(elsewhere), &[Fault::WrongKey]);
    finds(
        with(value::encode(&entry().pack(), &Name("no entry".into()))),
        &[Fault::WrongType],
    );
    finds(with(value::encode(&entry().pack(), &Newer)), &[Fault::NewerVersion]);
    finds(with(value::encode(&entry().pack(), &NotAnEntry)), &[Fault::Malformed]);
}

/// An entry of a release to come.
#[derive(serde::Serialize, serde::Deserialize)]
struct Newer;

impl Record for Newer {
    const TYPE: u8 = Entry::TYPE;
    const NAME: &'static str = "entry";
    const VERSION: u8 = Entry::VERSION + 1;
}

/// An intact envelope around nothing.
#[derive(serde::Serialize, serde::Deserialize)]
struct NotAnEntry;

impl Record for NotAnEntry {
    const TYPE: u8 = Entry::TYPE;
    const NAME: &'static str = "entry";
}

/// The family of a key. There is no arm for all others: a new family has to be read, too.
fn family(key: &Key<'_>) -> &'static str {
    match key {
        Key::Store => "store",
        Key::Position(_) => "position",
        Key::Alarm(..) => "alarm",
        Key::Index(..) => "index",
        Key::Dedup(..) => "dedup",
        Key::Runnable(..) => "runnable",
        Key::Outbox(..) => "outbox",
        Key::Dead(..) => "dead",
        Key::Tombstone(..) => "tombstone",
        Key::Gate(..) => "gate",
        Key::Placed(..) => "placed",
        Key::Instance(_, _, local) => match local {
            Local::Name(_) => "name",
            Local::History(_) => "history",
            Local::Inbox(_) => "inbox",
            Local::Attempts(_) => "attempts",
            Local::Emitted(_) => "emitted",
            Local::Published(_) => "published",
            Local::Answer(_) => "answer",
            Local::Meta(Meta::State) => "state",
            Local::Meta(Meta::Output) => "output",
            Local::Meta(Meta::Failure) => "failure",
            Local::Meta(Meta::Origin) => "origin",
            Local::Meta(Meta::Input) => "input",
            Local::Meta(Meta::Hold) => "hold",
            Local::Meta(Meta::Flow) => "flow",
        },
    }
}

const FAMILIES: usize = 25;

/// Adds what no instance of these tests has by itself.
fn add_the_rest(batch: &mut Batch) {
    let payload = Plan::new("victim").payload();
    let message = Message::told("n", everstep::MessageId::new("m").unwrap(), payload.clone(), 0);
    let hold = Hold {
        reason: "why".into(),
        since_ms: 1,
        report: None,
    };
    let emitted = Emitted {
        payload: payload.clone(),
        at_ms: 1,
    };
    let outgoing = Outgoing {
        to: "good".into(),
        parcel: Parcel::Message {
            message: message.clone(),
            dead_letter: true,
        },
    };
    let dead = DeadLetter {
        to: "nobody".into(),
        reason: "why".into(),
        message,
    };
    set(batch, &victim(Local::Meta(Meta::Output)), &Output(payload.clone()));
    set(batch, &victim(Local::Meta(Meta::Failure)), &stores::failure());
    set(batch, &victim(Local::Meta(Meta::Hold)), &hold);
    set(batch, &victim(Local::Meta(Meta::Flow)), &Flow::default());
    set(batch, &victim(Local::Emitted(0)), &emitted);
    set(
        batch,
        &victim(Local::Published("p".into())),
        &Published(payload.clone()),
    );
    set(
        batch,
        &victim(Local::Answer("m".into())),
        &Answer {
            decided: Decided::Completed(payload),
            at_ms: 1,
        },
    );
    set(batch, &Key::Outbox(SHARD, "victim".into(), 7, 0), &outgoing);
    set(batch, &Key::Dead(SHARD, 1, "m".into()), &dead);
    let place = Arrival { epoch: 1, number: 1 };
    set(
        batch,
        &Key::Gate(SHARD, "g".into(), place, "victim".into()),
        &AtGate { limit: 1 },
    );
    set(
        batch,
        &Key::Placed(SHARD, "g".into(), "victim".into()),
        &Seen { epoch: 1, number: 1 },
    );
    set(
        batch,
        &Key::Tombstone(SHARD, "gone".into()),
        &Tombstone { deleted_at_ms: 1 },
    );
}

/// Whatever the row, its damage is found.
#[test]
fn every_row_is_read() {
    let store = store();
    store.tamper(SHARD, add_the_rest);
    let (plan, mut families) = (Faults::new(), BTreeSet::new());
    let engine = Faulty::new(store.engine.clone(), plan.clone());
    let open = store.options.open_engine(Arc::new(engine)).unwrap();
    assert!(open.verify().unwrap().is_clean());
    let mut keys = Vec::new();
    let everything = Scan {
        start: &[],
        end: &[0xff; 64],
        direction: Direction::Forward,
        limit: usize::MAX,
    };
    let mut note = |key: &[u8], value: &[u8]| {
        keys.push((key.to_vec(), value.len()));
        ControlFlow::Continue(())
    };
    open.snapshot(SHARD).unwrap().scan(&everything, &mut note).unwrap();
    for (bytes, length) in keys {
        let key = Key::unpack(&bytes).unwrap();
        // The last byte and one in the middle: both are covered by the checksum.
        for at in [length / 2, length - 1] {
            plan.flip(&bytes, at, 1);
            let report = open.verify().unwrap();
            plan.mend(&bytes);
            assert_eq!(report.total(), 1, "{key:?}: {report}");
            assert_eq!(report.faults.len(), 1, "{key:?}: {report}");
        }
        families.insert(family(&key));
    }
    assert_eq!(families.len(), FAMILIES, "{families:?}");
}

#[test]
fn keys_that_nobody_packs_are_found_wherever_they_lie() {
    let inside = [victim(Local::Name(0)).pack(), vec![0x02, b'x', 0]].concat();
    finds(move |batch| batch.set(&inside, b""), &[Fault::InvalidKey]);
    for key in [
        &[0][..],
        b"\x02other\0",
        b"\x14\x15\x09",
        b"\x14\xff",
        b"\x15\x07\x15\x02",
        b"zzz",
        &[0xff; 100],
    ] {
        let report = report(|batch| batch.set(key, b"value"));
        assert_eq!(report.faults.get(&Fault::InvalidKey), Some(&1), "{key:x?}: {report}");
        assert_eq!(report.total(), 1, "{key:x?}: {report}");
    }
}

#[test]
fn alarms_and_states_agree() {
    let alarm = |at, instance: &'static str| {
        move |batch: &mut Batch| set(batch, &Key::Alarm(SHARD, at, instance.into()), &Alarm { revision: 7 })
    };
    finds(alarm(6_000, "victim"), &[Fault::StaleAlarm]);
    finds(
        delete(Key::Alarm(SHARD, 5_000, "victim".into())),
        &[Fault::MissingAlarm],
    );
    finds(
        state(|state| state.alarm_at_ms = Some(7_000)),
        &[Fault::MissingAlarm, Fault::StaleAlarm],
    );
    finds(state(|state| state.alarm_at_ms = None), &[Fault::StaleAlarm]);
    let report = report(alarm(6_000, "nobody"));
    assert_eq!(report.findings[0].fault, Fault::OrphanAlarm, "{report}");
    assert_eq!(report.findings[0].instance.as_deref(), Some("nobody"));
}

/// Such a listing row is a fault, and the only one, and gone when the index was rebuilt.
#[track_caller]
fn is_found_and_mended(id: &'static str, wrong: &IndexRow) {
    let store = store();
    let open = store.open();
    let mut ended = Plan::new("ended");
    (ended.status, ended.alarm_at_ms) = (Status::Completed, None);
    ended.make(&open);
    open.close().unwrap();
    store.tamper(SHARD, |batch| set(batch, &Key::Index(SHARD, 1_000, id.into()), wrong));
    let open = store.open();
    let report = open.verify().unwrap();
    assert_eq!(report.faults.get(&Fault::IndexDiffers), Some(&1), "{wrong:?}: {report}");
    assert_eq!(report.total(), 1, "{wrong:?}: {report}");
    assert_eq!(report.findings[0].instance.as_deref(), Some(id), "{report}");
    assert!(!report.findings[0].detail.is_empty(), "{report}");
    assert_eq!(open.rebuild_index().unwrap().written, 1, "{wrong:?}");
    let report = open.verify().unwrap();
    assert!(report.is_clean(), "{wrong:?}: {report}");
}

#[test]
fn the_index_and_the_instances_agree() {
    let row = |status| IndexRow {
        workflow: "payment".into(),
        status,
        updated_at_ms: 2_000,
        parent: None,
        tags: Vec::new(),
    };
    let at = |ms, id: &'static str| Key::Index(SHARD, ms, id.into());
    finds(delete(at(1_000, "victim")), &[Fault::MissingIndex]);
    finds(
        |batch| set(batch, &at(1_000, "victim"), &row(Status::Running)),
        &[Fault::IndexDiffers],
    );
    // Found in review: only workflow and status were compared, and a foreign tag or parent was called fine.
    let wrong = [
        IndexRow {
            tags: vec![("customer".into(), "another".into())],
            ..row(Status::Sleeping)
        },
        IndexRow {
            parent: Some("another".into()),
            ..row(Status::Sleeping)
        },
        IndexRow {
            workflow: "another".into(),
            ..row(Status::Sleeping)
        },
    ];
    for wrong in &wrong {
        is_found_and_mended("victim", wrong);
    }
    // While it sleeps its row is not written with every commit, so an earlier time is no fault; behind its end it is.
    let earlier = IndexRow {
        updated_at_ms: 1_500,
        ..row(Status::Sleeping)
    };
    finds(|batch| set(batch, &at(1_000, "victim"), &earlier), &[]);
    let ended = IndexRow {
        updated_at_ms: 1_500,
        ..row(Status::Completed)
    };
    is_found_and_mended("ended", &ended);
    finds(
        |batch| set(batch, &at(1_001, "victim"), &row(Status::Sleeping)),
        &[Fault::IndexTime],
    );
    finds(
        |batch| {
            let origin = Origin {
                created_at_ms: 9,
                ..Plan::new("victim").origin()
            };
            set(batch, &victim(Local::Meta(Meta::Origin)), &origin);
        },
        &[Fault::MissingIndex, Fault::IndexTime],
    );
    let report = report(|batch| set(batch, &at(1_000, "nobody"), &row(Status::Running)));
    assert_eq!(
        report.faults.keys().collect::<Vec<_>>(),
        [&Fault::OrphanIndex],
        "{report}"
    );
}

#[test]
fn what_names_an_instance_names_one_that_is_there() {
    let report = report(|batch| {
        set(batch, &Key::Runnable(SHARD, "nobody".into()), &Runnable::new("w", 0));
        let seen = Seen { epoch: 1, number: 1 };
        set(batch, &Key::Dedup(SHARD, "nobody".into(), "m".into()), &seen);
    });
    let faults: Vec<_> = report.faults.keys().copied().collect();
    assert_eq!(faults, [Fault::OrphanDedup, Fault::OrphanRunnable], "{report}");
    finds(
        state(|state| state.status = Status::Failed),
        &[Fault::IndexDiffers, Fault::RunnableEnded],
    );
}

#[test]
fn histories_are_whole() {
    finds(state(|state| state.entries = 4), &[Fault::HistoryCount]);
    finds(delete(victim(history(0))), &[Fault::HistoryCount]);
    finds(state(|state| state.completions = 2), &[Fault::OrderTooHigh]);
    let twice = Entry {
        id: 2,
        completed: Some(Completed { order: 1, at_ms: 1 }),
        kind: EntryKind::Step(None),
        ran: None,
    };
    finds(
        move |batch| set(batch, &victim(history(2)), &twice),
        &[Fault::OrderTwice],
    );
    finds(
        |batch| set(batch, &victim(Local::Name(5)), &Name("far".into())),
        &[Fault::NameGap],
    );
    finds(delete(victim(Local::Name(1))), &[Fault::NameGap, Fault::UnknownName]);
    finds(delete(victim(Local::Name(2))), &[Fault::UnknownName]);
}

#[test]
fn the_facts_are_there() {
    finds(delete(victim(Local::Meta(Meta::Input))), &[Fault::MissingInput]);
    finds(delete(victim(Local::Meta(Meta::Origin))), &[Fault::MissingOrigin]);
    let report = report(delete(victim(Local::Meta(Meta::State))));
    assert_eq!(report.faults.get(&Fault::MissingState), Some(&1), "{report}");
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.instance.as_deref() == Some("victim")),
        "{report}"
    );
}

#[test]
fn an_instance_is_where_it_is_looked_for() {
    let store = Reachable::new(2);
    let open = store.open();
    let home = open.shard_of(&Plan::new("victim").id());
    open.close().unwrap();
    let away = Shard(1 - home.0);
    store.tamper(away, |batch| {
        let key = Key::Instance(away, "victim".into(), Local::Meta(Meta::Input));
        set(batch, &key, &Input(Plan::new("victim").payload()));
        let key = Key::Instance(away, "o/dd".into(), Local::Meta(Meta::Input));
        set(batch, &key, &Input(Plan::new("victim").payload()));
    });
    let report = store.open().verify().unwrap();
    assert!(report.faults.contains_key(&Fault::WrongShard), "{report}");
    assert_eq!(report.faults.get(&Fault::InvalidId), Some(&1), "{report}");
}

/// One fault does not hide another, and a store with very many is still reported in bounded space.
#[test]
fn all_are_counted_and_the_first_are_listed() {
    let report = report(|batch| {
        for number in 0..3_000 {
            let key = Key::Runnable(SHARD, format!("gone {number}").into());
            set(batch, &key, &Runnable::new("w", 0));
        }
        batch.delete(&victim(Local::Meta(Meta::Input)).pack());
        set(
            batch,
            &Key::Dedup(SHARD, "victim".into(), "m".into()),
            &Message::told(
                "not a seen",
                everstep::MessageId::new("m").unwrap(),
                Plan::new("victim").payload(),
                0,
            ),
        );
    });
    assert_eq!(report.faults[&Fault::OrphanRunnable], 3_000);
    assert_eq!(report.faults[&Fault::MissingInput], 1);
    assert_eq!(report.faults[&Fault::WrongType], 1);
    assert_eq!(report.findings.len(), everstep::limits::FINDINGS_MAX);
    let text = report.to_string();
    assert!(
        text.contains("3002 things are wrong") && text.ends_with("and 2002 more"),
        "{text}"
    );
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["faults"]["orphan_runnable"], 3_000);
}

/// Whatever changes while the index is rebuilt wins over what was read before.
#[test]
fn a_change_in_between_wins_over_the_rebuilding() {
    let store = Reachable::new(1);
    let open = store.open();
    let plans: Vec<_> = (0..300)
        .map(|number| Plan::new(&format!("instance {number:03}")))
        .collect();
    for plan in &plans {
        plan.make(&open);
    }
    open.close().unwrap();
    let wipe = |batch: &mut Batch| {
        let (start, end) = (
            Key::Index(SHARD, 0, "".into()).pack(),
            Key::Index(SHARD, 9_000, "".into()).pack(),
        );
        batch.delete_range(&start, &end);
    };
    store.tamper(SHARD, wipe);
    let open = store.open();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for plan in plans.iter().rev() {
                let mut state = plan.state();
                (state.status, state.revision) = (Status::Paused, 8);
                let namespace = open.namespace(&plan.id());
                let mut commit = everstep::storage::Commit::new(SHARD);
                commit.set_state(&namespace, state.alarm_at_ms, &state);
                commit.set_index(&namespace, &plan.origin(), &state);
                open.try_submit(commit).unwrap().wait().unwrap();
            }
        });
        open.rebuild_index().unwrap();
    });
    let report = open.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn the_index_is_rebuilt_from_the_instances() {
    let store = Reachable::new(2);
    let open = store.open();
    for number in 0..600 {
        let mut plan = Plan::new(&format!("instance {number:03}"));
        plan.created_at_ms = number;
        plan.make(&open);
    }
    let before = export(&open);
    open.close().unwrap();
    for shard in [Shard(0), Shard(1)] {
        store.tamper(shard, |batch| {
            // All rows of this shard are lost, and there are rows of nobody and at the wrong time.
            let (start, end) = (
                Key::Index(shard, 0, "".into()).pack(),
                Key::Index(shard, 1_000, "".into()).pack(),
            );
            batch.delete_range(&start, &end);
            let row = IndexRow {
                workflow: "wrong".into(),
                status: Status::Running,
                updated_at_ms: 0,
                parent: None,
                tags: Vec::new(),
            };
            set(batch, &Key::Index(shard, 5_000, "nobody".into()), &row);
        });
    }
    let open = store.open();
    let home = open.shard_of(&Plan::new("instance 001").id());
    let row = IndexRow {
        workflow: "wrong".into(),
        status: Status::Running,
        updated_at_ms: 0,
        parent: None,
        tags: Vec::new(),
    };
    drop(open);
    store.tamper(home, |batch| {
        set(batch, &Key::Index(home, 7_000, "instance 001".into()), &row);
        set(batch, &Key::Index(home, 1, "instance 001".into()), &row);
        let key = Key::Index(home, 2, "__odd".into()).pack();
        batch.set(&key, b"nonsense");
    });
    let open = store.open();
    assert!(!open.verify().unwrap().is_clean());
    let rebuilt = open.rebuild_index().unwrap();
    assert_eq!((rebuilt.written, rebuilt.removed, rebuilt.skipped), (600, 4, 0));
    let report = open.verify().unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(export(&open), before);
    assert_eq!(
        open.rebuild_index().unwrap(),
        Default::default(),
        "there is nothing left to do"
    );
}

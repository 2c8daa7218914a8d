//! What was exported is imported, byte for byte, into a store of any number of shards; and a file that is cut off,
//! changed or nonsense never makes a store that looks whole.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everstep::limits::IMPORT_LINE_BYTES_MAX;
use everstep::storage::engine::Engine;
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{State, Status};
use everstep::storage::{Error, OpenOptions, Rows, Store};
use everstep::{InstanceId, Shard};
use proptest::prelude::*;
use stores::{Mortal, Plan, Reachable, export, url};

fn imported(target: &Reachable, file: &[u8]) -> Result<Store, Error> {
    let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
    target
        .options
        .import_engine(engine, &mut &file[..])
        .map(|(store, _)| store)
}

fn source(plans: &[Plan], shards: u16) -> (Reachable, Vec<u8>) {
    let source = Reachable::new(shards);
    let store = source.open();
    for plan in plans {
        plan.make(&store);
    }
    let file = export(&store);
    (source, file)
}

/// Rows without the first line, which names the shards, and the last, whose hash is over the first.
fn rows(file: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

/// The rows of a store, or of the one instance that a file holds, to be compared with that file: what it has no secret of
/// has none here either.
fn like(file: &[u8], store: &Store) -> Vec<u8> {
    let first: serde_json::Value = serde_json::from_slice(file.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let Some(id) = first["scope"]["instance"].as_str() else {
        return export(store);
    };
    let mut again = Vec::new();
    store
        .export_instance(&InstanceId::new(id).unwrap(), &mut again)
        .unwrap();
    again
}

#[track_caller]
fn refused(file: &[u8]) -> (u64, String) {
    let target = Reachable::new(1);
    match imported(&target, file) {
        Err(error @ Error::Import { .. }) => {
            assert_eq!(error.code(), "ES0231");
            let Error::Import { line, reason } = error else {
                unreachable!()
            };
            // If anything was begun, the store does not open.
            let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
            if let Ok(store) = target.options.open_engine(engine) {
                assert_eq!(rows(&export(&store)), [""; 0]);
            }
            (line, reason)
        }
        other => panic!("{other:?}"),
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let ids = prop_oneof![
        "[a-z]{1,4}",
        "[ -.0-~äöü日本]{1,12}".prop_filter("reserved", |id| !id.starts_with("__"))
    ];
    let statuses = prop_oneof![Just(Status::Running), Just(Status::Completed), Just(Status::Sleeping)];
    let payloads = prop::collection::vec(any::<u8>(), 0..200);
    (
        ids,
        0..5_u32,
        0..4_u64,
        statuses,
        any::<Option<u32>>(),
        any::<u32>(),
        payloads,
    )
        .prop_map(|(id, entries, messages, status, alarm, created, payload)| Plan {
            id: id.replace('\\', "-"),
            entries,
            messages,
            status,
            alarm_at_ms: alarm.map(u64::from),
            created_at_ms: created.into(),
            payload,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_store_comes_back(plans in prop::collection::vec(plan(), 0..8), shards in 1..5_u16, others in 1..5_u16) {
        let mut plans = plans;
        plans.sort_by(|one, two| one.id.cmp(&two.id));
        plans.dedup_by(|one, two| one.id == two.id);
        let (_source, file) = source(&plans, shards);
        let same = Reachable::new(shards);
        let store = imported(&same, &file).unwrap();
        prop_assert!(export(&store) == file);
        let report = store.verify().unwrap();
        prop_assert!(report.is_clean(), "{}", report);
        prop_assert_eq!(report.instances, plans.len() as u64);
        let other = Reachable::new(others);
        let store = imported(&other, &file).unwrap();
        let again = export(&store);
        prop_assert_eq!(rows(&again), rows(&file));
        prop_assert!(store.verify().unwrap().is_clean());
    }
}

#[test]
fn the_format_is_the_documented_one() {
    let mut plan = Plan::new("order-1");
    (plan.entries, plan.messages) = (2, 1);
    let (_source, file) = source(&[plan], 1);
    let text = std::str::from_utf8(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[0],
        r#"{"everstep_export":1,"format":1,"scope":"store","shards":1}"#
    );
    assert_eq!(
        lines[1],
        r#"{"key":{"family":"name","instance":"order-1","index":0},"record":"name","type":3,"schema":1,"bare":"06737465702030"}"#
    );
    let keys: Vec<_> = lines[1..lines.len() - 1]
        .iter()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].to_string())
        .map(|key| {
            key.replace(r#""instance":"order-1","#, "")
                .replace(r#","instance":"order-1""#, "")
        })
        .collect();
    assert_eq!(
        keys,
        [
            r#"{"family":"name","index":0}"#,
            r#"{"family":"name","index":1}"#,
            r#"{"family":"history","location":[[1,300]]}"#,
            r#"{"family":"history","location":[0]}"#,
            r#"{"epoch":1,"family":"inbox","number":1}"#,
            r#"{"fact":"origin","family":"meta"}"#,
            r#"{"fact":"input","family":"meta"}"#,
            r#"{"entry":0,"family":"attempts"}"#,
            r#"{"family":"dedup","message":"message 0"}"#,
            r#"{"fact":"state","family":"meta"}"#,
            r#"{"at_ms":5000,"family":"alarm"}"#,
            r#"{"created_at_ms":1000,"family":"index"}"#,
            r#"{"family":"runnable"}"#,
        ]
    );
    let last = lines.last().unwrap();
    assert!(
        last.starts_with(r#"{"everstep_export_end":1,"instances":1,"rows":13,"hash":""#),
        "{last}"
    );
}

#[test]
fn one_instance_moves_alone_and_overwrites_nobody() {
    let (source, _) = source(&[Plan::new("a"), Plan::new("b"), Plan::new("c")], 2);
    let store = source.open();
    let b = InstanceId::new("b").unwrap();
    let mut file = Vec::new();
    let exported = store.export_instance(&b, &mut file).unwrap();
    assert_eq!(exported.instances, 1);
    assert!(file.starts_with(br#"{"everstep_export":1,"format":1,"scope":{"instance":"b"},"shards":2}"#));
    let nobody = InstanceId::new("nobody").unwrap();
    assert_eq!(
        store.export_instance(&nobody, &mut Vec::new()).unwrap_err().code(),
        "ES0214"
    );

    let target = Reachable::new(3);
    Plan::new("x").make(&target.open());
    let store = imported(&target, &file).unwrap();
    assert_eq!(store.verify().unwrap().instances, 2);
    let mut again = Vec::new();
    store.export_instance(&b, &mut again).unwrap();
    assert_eq!(rows(&again), rows(&file));
    let before = export(&store);
    drop(store);
    assert_eq!(imported(&target, &file).unwrap_err().code(), "ES0214");
    let store = target.open();
    assert_eq!(export(&store), before, "it was refused, and nothing happened");
    // A row of somebody else does not slip in.
    let smuggled =
        String::from_utf8(file)
            .unwrap()
            .replacen(r#""instance":"b","index":1"#, r#""instance":"x","index":1"#, 1);
    assert_eq!(refused(smuggled.as_bytes()).0, 3);
}

#[test]
fn a_store_that_is_not_empty_takes_no_other() {
    let (_source, file) = source(&[Plan::new("a")], 1);
    let target = Reachable::new(2);
    let store = target.open();
    Plan::new("x").make(&store);
    let before = export(&store);
    drop(store);
    assert_eq!(imported(&target, &file).unwrap_err().code(), "ES0234");
    assert_eq!(export(&target.open()), before);
}

#[test]
fn a_file_cut_anywhere_is_noticed() {
    let mut plan = Plan::new("a");
    (plan.entries, plan.messages) = (1, 0);
    let (_source, file) = source(&[plan], 1);
    let ends: Vec<_> = (0..file.len()).filter(|at| file[*at] == b'\n').collect();
    let cuts = ends
        .iter()
        .flat_map(|end| [end - 1, *end, end + 1])
        .chain([0, 1, file.len() - 40]);
    for cut in cuts.filter(|cut| *cut < file.len() - 1) {
        refused(&file[..cut]);
    }
    // Without the last line feed the last line is still whole.
    assert!(imported(&Reachable::new(1), &file[..file.len() - 1]).is_ok());
}

#[test]
fn a_changed_file_is_noticed() {
    let mut plan = Plan::new("a");
    (plan.entries, plan.messages) = (1, 0);
    let (_source, file) = source(&[plan.clone(), Plan { id: "b".into(), ..plan }], 1);
    for at in (0..file.len()).step_by(23).chain([10, file.len() - 5]) {
        let mut changed = file.clone();
        changed[at] ^= 1;
        refused(&changed);
    }
    let text = String::from_utf8(file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let without = |left_out: usize| {
        let kept: Vec<_> = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out)
            .map(|(_, line)| *line)
            .collect();
        kept.join("\n") + "\n"
    };
    for left_out in 1..lines.len() {
        refused(without(left_out).as_bytes());
    }
    refused((text.clone() + "\n").as_bytes());
    refused((text.clone() + lines[1]).as_bytes());
    refused((text.clone() + &text).as_bytes());
}

#[test]
fn a_bad_line_is_named() {
    let (_source, file) = source(&[Plan::new("a")], 1);
    let text = String::from_utf8(file).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at - 1] = line.to_owned();
        refused((lines.join("\n") + "\n").as_bytes())
    };
    let deep = vec!["0"; 65].join(",");
    let cases = [
        (1, "{}".to_owned(), "first line"),
        (
            1,
            lines[0].replace("\"everstep_export\":1", "\"everstep_export\":9"),
            "version 9",
        ),
        (1, lines[0].replace("\"format\":1", "\"format\":2"), "format 2"),
        (2, String::new(), "neither"),
        (2, "[".repeat(100_000), "neither"),
        (2, lines[1].replace("\"index\":0", "\"index\":-1"), "neither"),
        (2, lines[1].replace("\"a\"", "\"../a\""), "neither"),
        (2, lines[1].replace("\"bare\"", "\"more\":1,\"bare\""), "unknown field"),
        (2, lines[1].replace("\"type\":3", "\"type\":4"), "belongs under"),
        (
            2,
            lines[1].replace("\"record\":\"name\"", "\"record\":\"entry\""),
            "belongs under",
        ),
        (2, lines[1].replace("\"schema\":1", "\"schema\":2"), "schema version 2"),
        (2, lines[1].replace("\"bare\":\"06", "\"bare\":\"ff"), "can't be read"),
        (2, lines[1].replace("\"bare\":\"06", "\"bare\":\"6"), "hexadecimal"),
        (2, lines[1].replace("\"bare\":\"06", "\"bare\":\"0G"), "hexadecimal"),
        (2, lines[1].replace("\"bare\":\"06", "\"bare\":\"05"), "follow the end"),
        (3, lines[1].clone(), "order"),
        (
            6,
            lines[5].replace("\"location\":[0]", &format!("\"location\":[{deep}]")),
            "deep",
        ),
        (
            8,
            lines[7].replace("\"epoch\":1", "\"epoch\":18446744073709551615"),
            "too large",
        ),
        (
            8,
            lines[7].replace("\"epoch\":1", "\"epoch\":1099511627776000"),
            "epoch",
        ),
        (16, lines[15].replace("5000", "5001"), "alarm"),
        (17, lines[16].replace("1000", "1001"), "listing"),
    ];
    for (at, line, reason) in cases {
        assert_ne!(lines[at - 1], line, "the case changes its line: {reason}");
        let (found, said) = with(at, &line);
        assert_eq!(found, at as u64, "{said}");
        assert!(said.contains(reason), "{said} is not about {reason}");
    }
}

/// Counts what is read from it.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
fn an_endless_line_is_not_read_to_its_end() {
    let (_source, file) = source(&[], 1);
    let header: Vec<_> = file.split_inclusive(|byte| *byte == b'\n').next().unwrap().to_vec();
    for (begin, line) in [(&[][..], 1), (&header[..], 2)] {
        let count = Arc::new(AtomicU64::new(0));
        let endless = Counted(begin.chain(std::io::repeat(b'a')), Arc::clone(&count));
        let target = Reachable::new(1);
        let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
        let mut reader: Box<dyn BufRead> = Box::new(BufReader::new(endless));
        let error = target.options.import_engine(engine, &mut *reader).unwrap_err();
        assert!(
            matches!(&error, Error::Import { line: found, .. } if *found == line),
            "{error}"
        );
        let read = count.load(Ordering::Relaxed);
        assert!(
            read < IMPORT_LINE_BYTES_MAX as u64 + 64 * 1024,
            "{read} bytes were read"
        );
    }
}

/// A value of the largest size there is makes a line that an import takes.
#[test]
fn the_largest_value_comes_back() {
    let mut plan = Plan::new("large");
    plan.entries = 0;
    plan.messages = 0;
    plan.payload = vec![7; everstep::limits::VALUE_BYTES_MAX - 100];
    let (_source, file) = source(&[plan], 1);
    let target = Reachable::new(1);
    assert!(export(&imported(&target, &file).unwrap()) == file);
}

/// However far an import got when the process was killed: the store does not open, or it is whole, or empty if it was
/// one instance. Importing again makes it whole.
#[test]
fn an_import_that_is_cut_short_does_not_pass_for_a_whole_store() {
    let plans: Vec<_> = (0..3)
        .map(|number| Plan {
            payload: vec![number; 150_000],
            ..Plan::new(&format!("instance {number}"))
        })
        .collect();
    let (source, file) = source(&plans, 2);
    let mut one = Vec::new();
    source.open().export_instance(&plans[2].id(), &mut one).unwrap();
    let (probe, mut whole) = (source.open(), 0);
    for file in [&file, &one] {
        for commits in 0.. {
            let target = Reachable::new(2);
            drop(target.open());
            let mortal = Mortal::new(&target.engine, commits, u32::MAX);
            let cut = target.options.import_engine(mortal, &mut &file[..]);
            if cut.is_ok() {
                assert!(commits > 2);
                break;
            }
            whole += whole_instances(&target, &plans, &probe);
            let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
            match target.options.open_engine(engine) {
                Err(error) => assert_eq!((error.code(), file == &one), ("ES0232", false)),
                // Killed before it had begun, or one instance, which is taken back.
                Ok(store) => {
                    assert!(commits == 0 || file == &one);
                    assert_eq!(store.verify().unwrap().instances, 0);
                }
            }
            let store = imported(&target, file).unwrap();
            assert!(
                rows(&like(file, &store)).join("\n") == rows(file).join("\n"),
                "{commits}"
            );
            let report = store.verify().unwrap();
            assert!(report.is_clean(), "{report}");
        }
    }
    assert!(whole > 0, "some instances were whole when the import was cut");
}

/// Instances of a store whose import was cut; asserts that those with a state have everything.
fn whole_instances(target: &Reachable, plans: &[Plan], probe: &Store) -> usize {
    let mut whole = 0;
    for plan in plans {
        let namespace = probe.namespace(&plan.id());
        let snapshot = target.engine.snapshot(namespace.shard()).unwrap();
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap();
        if state.is_some() {
            let mut found = 0;
            namespace
                .list(&*snapshot, Rows::All, &mut |_, _| {
                    found += 1;
                    Ok(())
                })
                .unwrap();
            assert_eq!(found, 3 + 3 + 2 + 1 + 3, "an instance with a state is whole");
            whole += 1;
        }
    }
    whole
}

/// The epochs of a new store begin at one, below those of messages that came with the import: without care the next
/// message would overtake them, or take the very place of one.
#[test]
fn messages_sent_after_an_import_come_after_those_that_came_with_it() {
    let source = Reachable::new(1);
    for _ in 0..5 {
        drop(source.open());
    }
    let plan = Plan::new("a");
    let store = source.open();
    plan.make(&store);
    let last = plan.send(&store, "the last one");
    let target = Reachable::new(1);
    let store = imported(&target, &export(&store)).unwrap();
    for restart in 0..3 {
        let next = plan.send(&store, &format!("after {restart}"));
        assert!(next > last, "{next:?} is not behind {last:?}");
    }
    drop(store);
    let store = target.open();
    let next = plan.send(&store, "after a restart");
    assert!(
        next > last && next.epoch > last.epoch + 1,
        "{next:?} is not behind {last:?}"
    );
    let namespace = store.namespace(&plan.id());
    let mut inbox = 0;
    namespace
        .list(&*store.snapshot(Shard(0)).unwrap(), Rows::Inbox, &mut |_, _| {
            inbox += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(inbox, 2 + 1 + 3 + 1, "none took the place of another");
}

#[test]
fn a_directory_is_imported_into_and_opened() {
    let (_source, file) = source(&[Plan::new("a")], 1);
    let directory = tempfile::tempdir().unwrap();
    let path = url(directory.path(), "data");
    let (store, imported) = OpenOptions::new().import(&path, &mut file.as_slice()).unwrap();
    assert_eq!(imported.instances, 1);
    store.close().unwrap();
    let store = OpenOptions::new().open(&path).unwrap();
    assert_eq!(export(&store), file);
    store.close().unwrap();
    assert!(OpenOptions::new().verify(&path).unwrap().is_clean());
}

/// An export never leaves out what it can't read.
#[test]
fn what_cannot_be_read_is_not_left_out() {
    let (source, _) = source(&[Plan::new("a"), Plan::new("b")], 1);
    let key = everstep::storage::key::Key::Instance(Shard(0), "b".into(), stores::history(1));
    source.tamper(Shard(0), |batch| batch.set(&key.pack(), b"damaged"));
    let store = source.open();
    assert_eq!(store.export(&mut Vec::new()).unwrap_err().code(), "ES0222");
    let a = InstanceId::new("a").unwrap();
    assert!(
        store.export_instance(&a, &mut Vec::new()).is_ok(),
        "the others are not affected"
    );
}

/// A key among the instances that nobody can read was passed over in silence, and the export had its last line: a row
/// that was some instance's before it was damaged was left out of a file that said it was whole.
#[test]
fn a_key_that_cannot_be_read_is_not_left_out() {
    let (source, _) = source(&[Plan::new("a"), Plan::new("c")], 1);
    // Before the first of them, between two, and behind the last.
    for id in ["A", "b", "z"] {
        let mut key = everstep::storage::key::Key::Instance(Shard(0), id.into(), stores::history(0)).pack();
        key.push(0xfe);
        assert!(everstep::storage::key::Key::unpack(&key).is_err());
        source.tamper(Shard(0), |batch| batch.set(&key, b"whose"));
        let mut file = Vec::new();
        let error = source.open().export(&mut file).unwrap_err();
        assert!(error.to_string().contains("can't be read"), "{error}");
        assert!(imported(&Reachable::new(1), &file).is_err());
        source.tamper(Shard(0), |batch| batch.delete(&key));
        assert!(source.open().export(&mut file).is_ok());
    }
}

/// FAULTS 69: this is how a store moves to another engine, and how one is compacted whose files do not shrink.
#[test]
#[cfg(all(feature = "fjall", feature = "sled"))]
fn a_store_moves_from_engine_to_engine() {
    let plans: Vec<_> = (0..20).map(|number| Plan::new(&format!("instance {number}"))).collect();
    let (_source, file) = source(&plans, 2);
    let directory = tempfile::tempdir().unwrap();
    let (fjall, sled) = (
        url(directory.path(), "one"),
        format!("sled:{}", url(directory.path(), "two")),
    );
    for target in [&fjall, &sled, "memory:"] {
        let (store, _) = OpenOptions::new()
            .shards(2)
            .import(target, &mut file.as_slice())
            .unwrap();
        assert!(export(&store) == file, "{target}");
        let report = store.verify().unwrap();
        assert!(report.is_clean(), "{target}: {report}");
        store.close().unwrap();
    }
    // And by way of a backup, which is a store of whatever kind its URL says.
    let back = url(directory.path(), "three");
    OpenOptions::new().open(&sled).unwrap().backup(&back).unwrap();
    assert!(export(&OpenOptions::new().open(&back).unwrap()) == file);
    for closed in [&fjall, &sled, &back] {
        let report = OpenOptions::new().verify(closed).unwrap();
        assert!(report.is_clean(), "{closed}: {report}");
    }
}

/// The second try need not be with the same file: nothing of the first may be left in between.
#[test]
fn importing_again_leaves_nothing_of_the_first_try() {
    let (first, longer) = source(&[Plan::new("a"), Plan::new("b")], 2);
    let mut short = Plan::new("b");
    (short.entries, short.messages, short.alarm_at_ms, short.created_at_ms) = (1, 0, None, 77);
    let (second, shorter) = source(&[short], 2);
    let b = InstanceId::new("b").unwrap();
    let (mut longer_b, mut shorter_b) = (Vec::new(), Vec::new());
    first.open().export_instance(&b, &mut longer_b).unwrap();
    second.open().export_instance(&b, &mut shorter_b).unwrap();
    for (longer, shorter) in [(longer, shorter), (longer_b, shorter_b)] {
        for commits in 1.. {
            let target = Reachable::new(2);
            drop(target.open());
            let mortal = Mortal::new(&target.engine, commits, u32::MAX);
            if target.options.import_engine(mortal, &mut &longer[..]).is_ok() {
                // The mark, the rows, the end of the mark: between the last two everything of the first try is there.
                assert!(commits > 2);
                break;
            }
            let store = imported(&target, &shorter).unwrap();
            assert_eq!(rows(&like(&shorter, &store)), rows(&shorter), "{commits}");
            let report = store.verify().unwrap();
            assert!(report.is_clean(), "{commits}: {report}");
            assert_eq!(report.instances, 1);
        }
    }
}

//! What is no instance's moves with a store too: messages that could not be delivered, what is left of deleted instances,
//! and who stands where at which gate. FAULTS 69.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::sync::Arc;

use everstep::storage::engine::Engine;
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::record::{
    AtGate, DeadLetter, Flow, Gate, Message, Outgoing, Parcel, Runnable, Stand, Tombstone,
};
use everstep::storage::value::{self, Record};
use everstep::storage::{Error, LeftOut, Store};
use everstep::{InstanceId, MessageId, Shard};
use stores::{Plan, Reachable, export};

/// Who stands at the gate, in order; the last one is on its way to it. `alone` is at another gate.
const AT_GATE: [&str; 3] = ["zoe", "ada", "mia"];
const COMES: &str = "eve";

fn at(number: u64) -> Arrival {
    Arrival { epoch: 7, number }
}

fn shard_of(id: &str, shards: u16) -> Shard {
    let store = Reachable::new(shards).open();
    store.shard_of(&InstanceId::new(id).unwrap())
}

fn flow(stand: Stand) -> Flow {
    Flow {
        gate: Some(Gate {
            key: "customer".into(),
            limit: 1,
            stand,
        }),
        ..Flow::default()
    }
}

fn letter(sender: &str) -> DeadLetter {
    let id = MessageId::new(format!("from {sender}")).unwrap();
    let mut message = Message::told("hello", id, Plan::new(sender).payload(), 3_000);
    message.from = Some(sender.into());
    DeadLetter {
        to: "nobody".into(),
        reason: "there is no such instance".into(),
        message,
    }
}

fn put<R: Record>(store: &Reachable, shard: Shard, key: &Key<'_>, record: &R) {
    let key = key.pack();
    store.tamper(shard, |batch| batch.set(&key, &value::encode(&key, record)));
}

/// A store with a queue at a gate, letters, and traces of deleted instances.
fn source(shards: u16) -> Reachable {
    let store = Reachable::new(shards);
    let open = store.open();
    let everyone = AT_GATE.iter().chain([&COMES]);
    everyone.for_each(|id| Plan::new(id).make(&open));
    open.close().unwrap();
    let gate = shard_of("customer", shards);
    for (number, id) in (1..).zip(AT_GATE) {
        let home = shard_of(id, shards);
        let place = (home == gate).then(|| at(number));
        let stand = if number == 1 {
            Stand::Inside { place }
        } else {
            Stand::Waits { place }
        };
        let key = Key::Instance(home, id.into(), Local::Meta(Meta::Flow));
        put(&store, home, &key, &flow(stand));
        let key = Key::Gate(gate, "customer".into(), at(number), id.into());
        put(&store, gate, &key, &AtGate { limit: 1 });
        put(
            &store,
            home,
            &Key::Dead(home, 9 - number, letter(id).message.id.as_str().into()),
            &letter(id),
        );
        let gone = format!("gone {number}");
        let home = shard_of(&gone, shards);
        let tombstone = Tombstone { deleted_at_ms: number };
        put(&store, home, &Key::Tombstone(home, gone.into()), &tombstone);
    }
    let home = shard_of(COMES, shards);
    let key = Key::Instance(home, COMES.into(), Local::Meta(Meta::Flow));
    put(&store, home, &key, &flow(Stand::Waits { place: None }));
    let comes = Outgoing {
        to: "customer".into(),
        parcel: Parcel::Enter {
            key: "customer".into(),
            limit: 1,
            place: None,
        },
    };
    put(&store, home, &Key::Outbox(home, COMES.into(), 7, u32::MAX), &comes);
    store
}

fn imported(target: &Reachable, file: &[u8]) -> Result<Store, Error> {
    let engine = Arc::clone(&target.engine) as Arc<dyn Engine>;
    let imported = target.options.import_engine(engine, &mut &file[..]);
    imported.map(|(store, _)| store)
}

/// The rows of a file, which do not depend on the shards.
fn rows(file: &[u8]) -> Vec<&str> {
    let lines: Vec<_> = std::str::from_utf8(file).unwrap().lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

#[track_caller]
fn is_there(store: &Reachable, shard: Shard, key: &Key<'_>) {
    assert!(store.engine.get(shard, &key.pack()).unwrap().is_some(), "{key:?}");
}

fn stand(store: &Reachable, shards: u16, id: &str) -> Stand {
    let home = shard_of(id, shards);
    let key = Key::Instance(home, id.into(), Local::Meta(Meta::Flow)).pack();
    let flow: Flow = value::decode(&key, &store.engine.get(home, &key).unwrap().unwrap()).unwrap();
    flow.gate.unwrap().stand
}

/// Found in review: dead letters, what was left of deleted instances and places at gates were left out of the export of a
/// whole store without a word. Whoever had waited at a gate came to it anew, in another order.
#[test]
fn what_is_no_instances_is_not_left_out() {
    for shards in [1, 2, 5] {
        let file = export(&source(shards).open());
        for others in [1, 2, 3, 5] {
            let target = Reachable::new(others);
            let store = imported(&target, &file).unwrap();
            let again = export(&store);
            assert_eq!(rows(&again), rows(&file), "from {shards} to {others} shards");
            assert!(shards != others || again == file);
            let report = store.verify().unwrap();
            assert!(report.is_clean(), "{report}");
            let gate = shard_of("customer", others);
            for (number, id) in (1..).zip(AT_GATE) {
                let home = shard_of(id, others);
                is_there(
                    &target,
                    gate,
                    &Key::Gate(gate, "customer".into(), at(number), id.into()),
                );
                // What is in no export is made anew.
                is_there(&target, gate, &Key::Placed(gate, "customer".into(), id.into()));
                let letter = letter(id).message.id;
                is_there(&target, home, &Key::Dead(home, 9 - number, letter.as_str().into()));
                let gone = InstanceId::new(format!("gone {number}")).unwrap();
                assert_eq!(store.tombstone(&gone).unwrap().unwrap().deleted_at_ms, number);
                assert_ne!(stand(&target, others, id), Stand::Outside);
            }
            assert_eq!(stand(&target, others, COMES), Stand::Waits { place: None });
            // Whoever comes now stands behind them.
            let arrival = Plan::new("ada").send(&store, "a message");
            assert!(arrival > at(3), "{arrival:?}");
        }
    }
}

/// Nobody waits for ever at a gate that has no place for it.
#[test]
fn who_has_no_place_at_its_gate_comes_to_it_anew() {
    let store = source(2);
    let gate = shard_of("customer", 2);
    let key = Key::Gate(gate, "customer".into(), at(2), "ada".into()).pack();
    store.tamper(gate, |batch| batch.set(&key, b"damaged"));
    let error = store.open().export(&mut Vec::new()).unwrap_err();
    assert_eq!(error.code(), "ES0222", "an export leaves nothing out");
    let (mut file, mut left_out) = (Vec::new(), Vec::new());
    let mut tell = |LeftOut { instance, .. }| left_out.push(instance);
    store.open().salvage(&mut file, &mut tell).unwrap();
    assert_eq!(left_out, [Some("ada".to_owned())]);
    let target = Reachable::new(3);
    let open = imported(&target, &file).unwrap();
    assert_eq!(stand(&target, 3, "ada"), Stand::Outside);
    let home = shard_of("ada", 3);
    let key = Key::Runnable(home, "ada".into()).pack();
    let runnable: Runnable = value::decode(&key, &target.engine.get(home, &key).unwrap().unwrap()).unwrap();
    assert_eq!(runnable, Runnable::new("payment", 0));
    assert!(matches!(stand(&target, 3, "zoe"), Stand::Inside { .. }));
    assert!(matches!(stand(&target, 3, "mia"), Stand::Waits { .. }));
    assert_eq!(stand(&target, 3, COMES), Stand::Waits { place: None });
    assert!(open.verify().unwrap().is_clean());
}

/// What is not saved keeps nobody else waiting.
#[test]
fn who_is_not_saved_stands_at_no_gate() {
    let store = source(2);
    let home = shard_of("zoe", 2);
    let key = Key::Instance(home, "zoe".into(), Local::Meta(Meta::Input)).pack();
    store.tamper(home, |batch| batch.set(&key, b"damaged"));
    let (mut file, mut left_out) = (Vec::new(), Vec::new());
    let mut tell = |LeftOut { instance, .. }| left_out.push(instance);
    store.open().salvage(&mut file, &mut tell).unwrap();
    assert_eq!(left_out, [Some("zoe".to_owned())]);
    let places: Vec<_> = rows(&file)
        .into_iter()
        .filter(|row| row.contains(r#""family":"gate""#))
        .collect();
    assert_eq!(places.len(), 2);
    assert!(places[0].contains("ada") && places[1].contains("mia"), "{places:?}");
}

/// The file of one instance is of that instance alone.
#[test]
fn one_instance_takes_no_place_with_it() {
    let store = source(2).open();
    let mut file = Vec::new();
    store.export_instance(&Plan::new("ada").id(), &mut file).unwrap();
    let families = ["dead", "tombstone", "gate"].map(|family| format!("\"family\":\"{family}\""));
    let text = String::from_utf8(file).unwrap();
    assert!(families.iter().all(|family| !text.contains(family)), "{text}");
    let target = Reachable::new(1);
    imported(&target, text.as_bytes()).unwrap();
    assert_eq!(stand(&target, 1, "ada"), Stand::Outside);
}

#[test]
fn rows_of_the_store_have_their_place_in_a_file() {
    let store = source(2).open();
    let (whole, mut one) = (export(&store), Vec::new());
    store.export_instance(&Plan::new("ada").id(), &mut one).unwrap();
    let lines = |file: &[u8]| -> Vec<String> {
        String::from_utf8(file.to_vec())
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (whole, one) = (lines(&whole), lines(&one));
    let first = whole
        .iter()
        .position(|line| line.contains("\"family\":\"dead\""))
        .unwrap();
    let says = |lines: &[String]| match imported(&Reachable::new(2), (lines.join("\n") + "\n").as_bytes()) {
        Err(Error::Import { line, reason }) => (line, reason),
        other => panic!("{other:?}"),
    };
    let mut changed = one.clone();
    changed.insert(1, whole[first].clone());
    let (line, reason) = says(&changed);
    assert!(line == 2 && reason.contains("belongs to the store"), "{line}: {reason}");
    let mut changed = whole.clone();
    changed.insert(first + 1, whole[first].clone());
    let (line, reason) = says(&changed);
    assert!(line == first as u64 + 2 && reason.contains("twice"), "{line}: {reason}");
    let mut changed = whole.clone();
    changed.swap(first, first - 1);
    let (line, reason) = says(&changed);
    assert!(
        line == first as u64 + 1 && reason.contains("behind those of the store"),
        "{line}: {reason}"
    );
    let mut changed = whole;
    changed.swap(first, first + 1);
    let (line, reason) = says(&changed);
    assert!(line == first as u64 + 2 && reason.contains("order"), "{line}: {reason}");
}

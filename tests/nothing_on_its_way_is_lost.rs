//! What one instance has on its way to another is part of a store: an import leaves none of another one behind, and an
//! export leaves none out.

#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping it, in its helpers too"
)]

mod stores;

use std::sync::Arc;

use everstep::InstanceId;
use everstep::storage::engines::Memory;
use everstep::storage::key::Key;
use everstep::storage::record::{Outgoing, Parcel};
use everstep::storage::{Error, Store, value};
use stores::{Mortal, Plan, Reachable, export};

fn imported(target: &Reachable, file: &[u8]) -> Result<Store, Error> {
    let imported = target.options.import_engine(target.engine.clone(), &mut &file[..]);
    imported.map(|(store, _)| store)
}

fn source(plans: &[Plan], shards: u16) -> (Reachable, Vec<u8>) {
    let source = Reachable::new(shards);
    let store = source.open();
    plans.iter().for_each(|plan| plan.make(&store));
    let file = export(&store);
    (source, file)
}

/// Puts something on its way from an instance, behind the store's back.
fn send(store: &Reachable, from: &str) {
    let shard = store.open().shard_of(&InstanceId::new(from).unwrap());
    let key = Key::Outbox(shard, from.into(), 3, 0).pack();
    let parcel = Parcel::Close {
        reason: "over".into(),
        children: Vec::new(),
    };
    let outgoing = Outgoing { to: "x".into(), parcel };
    store.tamper(shard, |batch| batch.set(&key, &value::encode(&key, &outgoing)));
}

/// Found in review: what the first try had put on its way was left, and the courier delivered it.
#[test]
fn importing_again_leaves_nothing_on_its_way() {
    let (first, _) = source(&[Plan::new("a"), Plan::new("b")], 1);
    send(&first, "a");
    let longer = export(&first.open());
    let (_second, shorter) = source(&[Plan::new("b")], 1);
    let target = Reachable::new(2);
    // Killed behind the rows, when only the end of the mark is missing.
    let killed = (1..).find(|commits| {
        let (engine, options) = (Arc::<Memory>::default(), &target.options);
        drop(options.open_engine(engine.clone()).unwrap());
        options
            .import_engine(Mortal::new(&engine, *commits, u32::MAX), &mut &longer[..])
            .is_ok()
    });
    drop(target.open());
    let mortal = Mortal::new(&target.engine, killed.unwrap() - 1, u32::MAX);
    target.options.import_engine(mortal, &mut &longer[..]).unwrap_err();
    let store = imported(&target, &shorter).unwrap();
    let (imported, expected) = (
        store.verify().unwrap().rows,
        shorter.iter().filter(|byte| **byte == b'\n').count() as u64 - 2,
    );
    assert_eq!(imported, expected + 3, "its rows, the header, two positions");
}

/// Found in review: such a store counted as empty, and such an instance as missing.
#[test]
fn what_is_on_its_way_is_not_nothing() {
    let (source, file) = source(&[Plan::new("a")], 1);
    let mut alone = Vec::new();
    let a = InstanceId::new("a").unwrap();
    source.open().export_instance(&a, &mut alone).unwrap();
    for (from, file) in [("gone", &file), ("a", &alone)] {
        let target = Reachable::new(2);
        drop(target.open());
        send(&target, from);
        assert_eq!(imported(&target, file).unwrap_err().code(), "ES0234", "{from}");
    }
}

/// Found in review: it was left out without a word.
#[test]
fn what_a_deleted_instance_has_on_its_way_is_not_left_out() {
    let (source, _) = source(&[Plan::new("a")], 2);
    send(&source, "a");
    source.open().export(&mut Vec::new()).unwrap();
    send(&source, "gone");
    let error = source.open().export(&mut Vec::new()).unwrap_err();
    assert_eq!(error.code(), "ES0235", "{error}");
}

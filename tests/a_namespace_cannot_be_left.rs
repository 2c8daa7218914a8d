//! The promise: what is done through the namespace of one instance never shows in, changes or removes anything of
//! another (FAULTS 76), whatever their ids look like (FAULTS 75).
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

mod kit;

use std::borrow::Cow;
use std::collections::BTreeMap;

use everstep::location::{Location, Segment};
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::{Name, Runnable, Status};
use everstep::storage::{Commit, Namespace, OpenOptions, Rows, Store};
use everstep::{InstanceId, Shard};
use proptest::prelude::*;

/// What is done through a namespace.
#[derive(Debug, Clone)]
enum Act {
    Set(Local<'static>, String),
    Delete(Local<'static>),
    DeleteBelow(Location),
    Deliver(u64),
    Begin,
    Purge,
}

/// What an instance is expected to list: its keys, and what lies there if it is a name.
#[derive(Debug, Clone, Default)]
struct Model(Vec<(Local<'static>, Option<String>)>);

impl Model {
    fn set(&mut self, local: &Local<'static>, text: Option<String>) {
        self.0.retain(|(other, _)| other != local);
        self.0.push((local.clone(), text));
    }

    fn get(&self, local: &Local<'static>) -> Option<String> {
        let row = self.0.iter().find(|(other, _)| other == local);
        row.and_then(|(_, text)| text.clone())
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().all(|row| other.0.contains(row))
    }
}

/// Ids that are easily taken for one another: each other's beginnings, ends, and what they turn into when packed.
fn ids() -> impl Strategy<Value = Vec<InstanceId>> {
    let id = prop_oneof![
        "[ab]{1,3}",
        "a[\u{1}-\u{ff}]{0,3}b?",
        "(a|ab|a |a:|a.|aÿ|ÿ|ÿÿ|日本|日|𝕊|a%00|a_)(b|1|ÿ)?",
        prop::collection::vec(any::<char>(), 1..6).prop_map(String::from_iter),
        "a{199,200}",
    ];
    let valid = id.prop_filter_map("an id that is refused", |text| InstanceId::new(text).ok());
    prop::collection::btree_set(valid.prop_map(String::from), 2..6)
        .prop_map(|ids| ids.into_iter().map(|id| InstanceId::new(id).unwrap()).collect())
}

fn location() -> impl Strategy<Value = Location> {
    let segment = prop_oneof![
        small().prop_map(Segment::Name),
        (small(), 0..4_u64).prop_map(|(name, number)| Segment::Iteration { name, number }),
    ];
    prop::collection::vec(segment, 0..4).prop_map(|segments| {
        let below = |location: Location, segment| location.child(segment).unwrap();
        segments.into_iter().fold(Location::root(), below)
    })
}

/// Few, so that things meet; and those at the ends of what a tuple packs into one more byte.
fn small() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0, 1, 2, 254, 255, 256, 65_535, 65_536, u32::MAX])
}

fn local() -> impl Strategy<Value = Local<'static>> {
    prop_oneof![
        small().prop_map(Local::Name),
        location().prop_map(|location| Local::History(Cow::Owned(location))),
        small().prop_map(|number| Local::Inbox(kit::arrival(number.into()))),
        prop::sample::select(vec![Meta::Output, Meta::Failure, Meta::Origin, Meta::Input]).prop_map(Local::Meta),
        small().prop_map(|entry| Local::Attempts(entry.into())),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (local(), "[a-z]{0,3}").prop_map(|(local, text)| Act::Set(local, text)),
        2 => local().prop_map(Act::Delete),
        1 => location().prop_map(Act::DeleteBelow),
        3 => (0..3_u64).prop_map(Act::Deliver),
        1 => Just(Act::Begin),
        1 => Just(Act::Purge),
    ]
}

/// The commit for an act, and what the instance lists afterwards.
fn perform(namespace: &Namespace, act: &Act, model: &mut Model) -> Commit {
    let mut commit = Commit::new(namespace.shard());
    match act {
        Act::Set(local, text) => {
            commit.set(namespace, local, &Name(text.clone()));
            model.set(local, Some(text.clone()));
        }
        Act::Delete(local) => {
            commit.delete(namespace, local);
            model.0.retain(|(other, _)| other != local);
        }
        Act::DeleteBelow(location) => {
            commit.delete_below(namespace, location);
            model.0.retain(|(local, _)| match local {
                Local::History(found) => !found.segments().starts_with(location.segments()),
                _ => true,
            });
        }
        Act::Deliver(number) => {
            // Without its conditions: two rows, one of them beside the namespace.
            commit.deliver(
                namespace,
                kit::arrival(100 + number),
                &kit::message(&format!("m{number}")),
            );
        }
        Act::Begin => {
            commit
                .set_index(namespace, &kit::origin(), &kit::state(1, Status::Running))
                .set_runnable(namespace, Some(&Runnable::new("w", 0)))
                .set_state(namespace, None, &kit::state(1, Status::Running));
            model.set(&Local::Meta(Meta::State), None);
        }
        Act::Purge => {
            commit.purge(namespace, &kit::origin(), &kit::state(1, Status::Running));
            model.0.clear();
        }
    }
    commit
}

/// All rows of the store that belong to other instances.
fn of_others(store: &Store, instance: &InstanceId) -> kit::Rows {
    let mut rows = kit::rows(store).unwrap();
    rows.retain(|key, _| match Key::unpack(key).unwrap() {
        Key::Instance(_, of, _)
        | Key::Alarm(_, _, of)
        | Key::Index(_, _, of)
        | Key::Dedup(_, of, _)
        | Key::Runnable(_, of)
        | Key::Outbox(_, of, ..)
        | Key::Tombstone(_, of)
        | Key::Gate(.., of)
        | Key::Placed(.., of) => of != instance.as_str(),
        Key::Store | Key::Position(_) | Key::Dead(..) => true,
    });
    rows
}

fn listed(store: &Store, namespace: &Namespace) -> Model {
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let mut found = Model::default();
    let outcome = namespace.list(&*snapshot, Rows::All, &mut |local, row| {
        let text = row.decode::<Name>().ok().map(|Name(text)| text);
        found.0.push((local, text));
        Ok(())
    });
    outcome.unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_done_to_another(
        ids in ids(),
        acts in prop::collection::vec((any::<prop::sample::Index>(), act()), 1..40),
    ) {
        let store = OpenOptions::new().open("memory:").unwrap();
        let mut models: BTreeMap<InstanceId, Model> = BTreeMap::new();
        for id in &ids {
            let mut model = Model::default();
            kit::commit(&store, perform(&store.namespace(id), &Act::Begin, &mut model)).unwrap();
            models.insert(id.clone(), model);
        }
        for (who, act) in acts {
            let id = who.get(&ids);
            let namespace = store.namespace(id);
            let before = of_others(&store, id);
            let mut expected = models[id].clone();
            let commit = perform(&namespace, &act, &mut expected);
            let delivers = matches!(act, Act::Deliver(_));
            let done = kit::commit(&store, commit);
            // A message is refused if the instance has not begun or has seen it; everything else is done.
            prop_assert!(done.is_ok() || delivers, "{act:?}: {done:?}");
            if let (Act::Deliver(number), Ok(_)) = (&act, &done) {
                expected.set(&Local::Inbox(kit::arrival(100 + number)), None);
            }
            models.insert(id.clone(), expected);
            prop_assert_eq!(of_others(&store, id), before, "{:?} of {:?} reached others", act, id);
            for (id, model) in &models {
                let namespace = store.namespace(id);
                prop_assert_eq!(&listed(&store, &namespace), model, "after {:?}, in {:?}", act, id);
            }
            // What is read one by one is what is listed.
            let snapshot = store.snapshot(Shard(0)).unwrap();
            if let Act::Set(local, text) = &act {
                for id in &ids {
                    let found: Option<Name> = store.namespace(id).get(&*snapshot, local).unwrap_or(None);
                    prop_assert_eq!(found.map(|Name(text)| text), models[id].get(local), "{:?} of {:?}", local, id);
                }
                prop_assert_eq!(models[id].get(local), Some(text.clone()));
            }
        }
    }
}

/// FAULTS 75: what could be taken for the end of another id is no id.
#[test]
fn ids_that_look_like_a_prefix_are_refused() {
    for id in ["a\u{0}", "a\u{0}b", "\u{0}", "a\u{0}\u{ff}", "", "a/b", "..\\", "a\nb"] {
        assert!(InstanceId::new(id).is_err(), "{id:?}");
    }
}

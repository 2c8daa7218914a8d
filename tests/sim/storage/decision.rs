//! Decisions as commits, and rows as the model sees them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    Completed, Decided, Entry, EntryKind, Input, Message, Origin, Runnable, State, Status,
};
use everstep::storage::{Activation, Commit, Condition, Error, Refusal, Rows, Store};
use everstep::{InstanceId, MessageId};

use super::model::{Answer, Decision, Instance, Model, alarm};

pub(crate) fn id(name: &str) -> InstanceId {
    InstanceId::new(name).unwrap()
}

fn origin() -> Origin {
    Origin {
        workflow: "sim".into(),
        version: 1,
        created_at_ms: 1,
        ..Origin::new("", 0, 0, 0)
    }
}

fn payload(number: u64) -> Payload {
    Payload {
        key_id: KeyId::PLAIN,
        bytes: number.to_le_bytes().repeat(1 + (number % 40) as usize),
    }
}

fn location(slot: u32) -> Location {
    Location::root().child(Segment::Name(slot)).unwrap()
}

fn state(instance: &Instance) -> State {
    State {
        status: if instance.ended {
            Status::Completed
        } else {
            Status::Running
        },
        run: 1,
        revision: instance.revision,
        alarm_at_ms: instance.alarm_at_ms,
        entries: instance.entries.len() as u64,
        completions: instance.revision,
        updated_at_ms: instance.revision,
        ..State::begun(0)
    }
}

fn message(number: u64) -> Message {
    Message::told(
        "news",
        MessageId::new(number.to_string()).unwrap(),
        payload(number),
        number,
    )
}

/// The commit of a decision. `before` and `after` are what the model says of the instance; when the decision is going
/// to be refused they don't matter.
pub(crate) fn commit(
    store: &Store,
    name: &str,
    decision: Decision,
    before: Option<&Instance>,
    after: Option<&Instance>,
    stale: &Activation,
) -> Commit {
    let namespace = store.namespace(&id(name));
    let mut commit = Commit::new(namespace.shard());
    let after = after.map(state);
    let alarm_before = before.and_then(|before| before.alarm_at_ms);
    let guess = State {
        alarm_at_ms: alarm(1),
        ..guess()
    };
    let next = after.as_ref().unwrap_or(&guess);
    match decision {
        Decision::Start => {
            commit
                .require(Condition::Missing(id(name)))
                .set(&namespace, &Local::Meta(Meta::Origin), &origin())
                .set(&namespace, &Local::Meta(Meta::Input), &Input(payload(1)))
                .set_state(&namespace, None, next)
                .set_index(&namespace, &origin(), next)
                .set_runnable(&namespace, Some(&Runnable::new("w", 0)));
        }
        Decision::Step { revision, slot } => {
            commit.require(Condition::Revision(id(name), revision));
            commit.set(
                &namespace,
                &Local::History(Cow::Owned(location(slot))),
                &entry(revision + 1),
            );
            commit.set_state(&namespace, alarm_before, next);
        }
        Decision::Take {
            revision,
            arrival,
            slot,
        } => {
            commit.require(Condition::Revision(id(name), revision));
            if let Some(number) = arrival {
                commit.delete(&namespace, &Local::Inbox(Arrival { epoch: 1, number }));
            }
            commit.set(
                &namespace,
                &Local::History(Cow::Owned(location(slot))),
                &entry(revision + 1),
            );
            commit.set_state(&namespace, alarm_before, next);
        }
        Decision::Deliver {
            message: number,
            arrival,
        } => {
            commit.deliver(
                &namespace,
                Arrival {
                    epoch: 1,
                    number: arrival,
                },
                &message(number),
            );
        }
        Decision::End { revision } => {
            commit.require(Condition::Revision(id(name), revision));
            commit
                .set_state(&namespace, alarm_before, next)
                .set_index(&namespace, &origin(), next)
                .set_runnable(&namespace, None);
        }
        Decision::Purge => {
            let last = before.map_or_else(self::guess, state);
            commit
                .require(Condition::Exists(id(name)))
                .purge(&namespace, &origin(), &last);
        }
        Decision::Stale => {
            commit.require(Condition::Current(stale.clone()));
            commit.set(&namespace, &Local::History(Cow::Owned(location(99))), &entry(1));
        }
    }
    commit
}

fn guess() -> State {
    State {
        status: Status::Running,
        run: 1,
        revision: 1,
        alarm_at_ms: None,
        entries: 0,
        completions: 0,
        updated_at_ms: 1,
        ..State::begun(0)
    }
}

fn entry(revision: u64) -> Entry {
    let outcome = Decided::Completed(payload(revision));
    Entry {
        id: revision,
        completed: Some(Completed {
            order: revision,
            at_ms: revision,
        }),
        kind: EntryKind::Step(Some(outcome)),
        ran: None,
    }
}

/// An answer of the store in the words of the model; anything else is a failure of the group.
pub(crate) fn answer(result: &Result<everstep::storage::Receipt, Error>) -> Result<Answer, Error> {
    match result {
        Ok(_) => Ok(Answer::Done),
        Err(Error::Refused(refusal)) => Ok(match refusal {
            Refusal::Exists => Answer::Exists,
            Refusal::Missing => Answer::Missing,
            Refusal::Ended(_) => Answer::Ended,
            Refusal::Revision { .. } => Answer::Revision,
            Refusal::Duplicate(_) => Answer::Duplicate,
            Refusal::StaleActivation => Answer::Stale,
            other => panic!("an unknown refusal: {other}"),
        }),
        Err(other) => Err(other.clone()),
    }
}

/// Reads the whole store back and compares it with the model.
pub(crate) fn compare(store: &Store, model: &Model, names: &[&'static str]) {
    let mut alarms = BTreeSet::new();
    let mut runnable = BTreeSet::new();
    for name in names {
        let found = read(store, name);
        let expected = model.instances.get(name).cloned().map(|mut instance| {
            instance.seen.clear();
            instance
        });
        assert_eq!(found, expected, "instance {name}");
        if let Some(instance) = &expected {
            alarms.extend(instance.alarm_at_ms.map(|at| (at, id(name))));
            runnable.extend((!instance.ended).then(|| id(name)));
        }
    }
    let shard = store.shard_of(&id(names[0]));
    let rows = store.alarms(shard, None).unwrap().rows;
    assert_eq!(
        rows.into_iter().map(|(at, id, _)| (at, id)).collect::<BTreeSet<_>>(),
        alarms,
        "alarms"
    );
    let rows = store.runnable(shard, None).unwrap().rows;
    assert_eq!(
        rows.into_iter().map(|(id, _)| id).collect::<BTreeSet<_>>(),
        runnable,
        "runnable"
    );
}

/// An instance as it is stored. Which messages it has seen shows only when they are sent again.
fn read(store: &Store, name: &str) -> Option<Instance> {
    let namespace = store.namespace(&id(name));
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let mut stored: Option<State> = None;
    let mut entries = BTreeMap::new();
    let mut inbox = Vec::new();
    namespace
        .list(&*snapshot, Rows::All, &mut |local, row| {
            match local {
                Local::History(location) => {
                    let Some(Segment::Name(slot)) = location.segments().first().copied() else {
                        panic!("an entry where none was written: {location:?}");
                    };
                    let found: Entry = row.decode()?;
                    assert_eq!(found, entry(found.id), "entry {slot} of {name}");
                    entries.insert(slot, found.id);
                }
                Local::Inbox(arrival) => {
                    let found: Message = row.decode()?;
                    let number = found.id.as_str().parse().unwrap();
                    assert_eq!(found, message(number));
                    inbox.push((arrival.number, number));
                }
                Local::Meta(Meta::State) => stored = Some(row.decode()?),
                Local::Meta(Meta::Origin) => assert_eq!(row.decode::<Origin>()?, origin()),
                Local::Meta(Meta::Input) => assert_eq!(row.decode::<Input>()?, Input(payload(1))),
                other => panic!("a row that nobody wrote: {other:?}"),
            }
            Ok(())
        })
        .unwrap();
    let Some(stored) = stored else {
        assert!(entries.is_empty() && inbox.is_empty(), "rows of {name} without a state");
        return None;
    };
    assert_eq!(stored.entries, entries.len() as u64, "entries of {name}");
    Some(Instance {
        revision: stored.revision,
        ended: stored.status == Status::Completed,
        alarm_at_ms: stored.alarm_at_ms,
        entries,
        inbox,
        seen: BTreeSet::new(),
    })
}

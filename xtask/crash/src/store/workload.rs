//! What a writer commits, and what the rows of its instance must be afterwards.
//!
//! Each writer has one instance and commits revision after revision. The content of every revision follows from the
//! writer and the revision alone, so the parent knows every byte without having been told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    Completed, Decided, Entry, EntryKind, Input, Message, Origin, Runnable, State, Status,
};
use everstep::storage::{Commit, Condition, Namespace, Store};
use everstep::{InstanceId, MessageId};

use crate::chance::Chance;

/// How many writers commit at once.
pub(crate) const WRITERS: u64 = 24;

/// Entries that an instance has at most.
const ENTRIES: u64 = 40;

/// Every so many revisions the whole history is removed, as a range.
const SWEEP_EVERY: u64 = 97;

/// What the rows of one writer's instance are after a revision.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    number: u64,
    /// The last revision that is part of this.
    pub(crate) revision: u64,
    /// For every entry the revision that wrote it.
    entries: BTreeMap<u32, u64>,
    /// The revision whose message is in the inbox.
    inbox: Option<u64>,
    alarm_at_ms: Option<u64>,
}

impl Writer {
    /// Before its first revision.
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            revision: 0,
            entries: BTreeMap::new(),
            inbox: None,
            alarm_at_ms: None,
        }
    }

    pub(crate) fn namespace(&self, store: &Store) -> Namespace {
        let id = InstanceId::new(format!("writer-{}", self.number)).expect("a number and a word are an id");
        store.namespace(&id)
    }

    /// Goes to the next revision without building its commit.
    pub(crate) fn advance(&mut self) {
        self.revision += 1;
        if self.revision.is_multiple_of(SWEEP_EVERY) {
            self.entries.clear();
        } else if self.revision > 1 {
            self.entries.insert(self.slot(), self.revision);
        }
        if self.revision.is_multiple_of(7) {
            self.inbox = Some(self.revision);
        }
        self.alarm_at_ms = self.revision.is_multiple_of(3).then_some(1_000_000 + self.revision);
    }

    /// Goes to the next revision; the commit is what brings the store there.
    pub(crate) fn commit(&mut self, namespace: &Namespace) -> Commit {
        let before = self.clone();
        self.advance();
        let mut commit = Commit::new(namespace.shard());
        if self.revision == 1 {
            commit
                .require(Condition::Missing(namespace.instance().clone()))
                .set(namespace, &Local::Meta(Meta::Origin), &origin())
                .set(namespace, &Local::Meta(Meta::Input), &Input(self.payload(1)))
                .set_index(namespace, &origin(), &self.state())
                .set_runnable(namespace, Some(&Runnable::new("w", 0)));
        } else {
            commit.require(Condition::Revision(namespace.instance().clone(), before.revision));
        }
        if self.revision.is_multiple_of(SWEEP_EVERY) {
            commit.delete_below(namespace, &Location::root());
        } else if self.revision > 1 {
            let location = location(self.slot());
            commit.set(
                namespace,
                &Local::History(Cow::Borrowed(&location)),
                &self.entry(self.revision),
            );
        }
        if self.inbox != before.inbox {
            if let Some(old) = before.inbox {
                commit.delete(namespace, &Local::Inbox(arrival(old)));
            }
            let local = Local::Inbox(arrival(self.revision));
            commit.set(namespace, &local, &self.message(self.revision));
        }
        commit.set_state(namespace, before.alarm_at_ms, &self.state());
        commit
    }

    /// Says what is wrong with the rows of the instance, if anything is.
    pub(crate) fn check(&self, store: &Store) -> Result<(), String> {
        let namespace = self.namespace(store);
        let snapshot = store.snapshot(namespace.shard()).map_err(|error| error.to_string())?;
        let mut expected = self.rows();
        let mut wrong = Vec::new();
        let listed = namespace.list(&*snapshot, everstep::storage::Rows::All, &mut |local, row| {
            let found = match &local {
                Local::History(_) => format!("{:?}", row.decode::<Entry>()?),
                Local::Inbox(_) => format!("{:?}", row.decode::<Message>()?),
                Local::Meta(Meta::State) => format!("{:?}", row.decode::<State>()?),
                Local::Meta(Meta::Origin) => format!("{:?}", row.decode::<Origin>()?),
                Local::Meta(Meta::Input) => format!("{:?}", row.decode::<Input>()?),
                _ => String::from("unexpected"),
            };
            if expected.remove(&format!("{local:?}")) != Some(found) {
                wrong.push(format!("{local:?}"));
            }
            Ok(())
        });
        listed.map_err(|error| format!("writer {}: {error}", self.number))?;
        wrong.extend(expected.into_keys().map(|key| format!("{key} is missing")));
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!(
            "writer {} at revision {}: {}",
            self.number,
            self.revision,
            wrong.join(", ")
        ))
    }

    fn rows(&self) -> BTreeMap<String, String> {
        let mut rows = BTreeMap::new();
        if self.revision == 0 {
            return rows;
        }
        let mut put = |local: Local<'_>, text: String| rows.insert(format!("{local:?}"), text);
        put(Local::Meta(Meta::Origin), format!("{:?}", origin()));
        put(Local::Meta(Meta::Input), format!("{:?}", Input(self.payload(1))));
        put(Local::Meta(Meta::State), format!("{:?}", self.state()));
        for (slot, revision) in &self.entries {
            put(
                Local::History(Cow::Owned(location(*slot))),
                format!("{:?}", self.entry(*revision)),
            );
        }
        if let Some(revision) = self.inbox {
            put(Local::Inbox(arrival(revision)), format!("{:?}", self.message(revision)));
        }
        rows
    }

    fn slot(&self) -> u32 {
        u32::try_from(self.revision % ENTRIES).expect("a slot is small")
    }

    fn state(&self) -> State {
        State {
            status: Status::Running,
            run: 1,
            revision: self.revision,
            alarm_at_ms: self.alarm_at_ms,
            entries: self.entries.len() as u64,
            completions: self.revision,
            updated_at_ms: self.revision,
            ..State::begun(0)
        }
    }

    fn entry(&self, revision: u64) -> Entry {
        let outcome = Decided::Completed(self.payload(revision));
        Entry {
            id: revision,
            completed: Some(Completed {
                order: revision - 1,
                at_ms: revision,
            }),
            kind: EntryKind::Step(Some(outcome)),
        }
    }

    fn message(&self, revision: u64) -> Message {
        Message::told(
            "news",
            MessageId::new(format!("{revision}")).expect("a number is an id"),
            self.payload(revision),
            revision,
        )
    }

    /// Mostly small; every fifth over many pages, so that a power cut tears batches in the middle; seldom large enough
    /// to be cut into chunks or to fill a journal.
    fn payload(&self, revision: u64) -> Payload {
        let mut chance = Chance::new(self.number << 40 | revision);
        let length = match chance.below(500) {
            0 => 1_200_000,
            1..5 => 150_000,
            5..105 => 4 * 1024 + chance.below(60 * 1024),
            _ => 50 + chance.below(500),
        };
        let words = (0..length.div_ceil(8)).flat_map(|_| chance.next().to_le_bytes());
        Payload {
            key_id: KeyId::PLAIN,
            bytes: words.collect(),
        }
    }
}

fn origin() -> Origin {
    Origin {
        workflow: "crash".into(),
        version: 1,
        created_at_ms: 1,
        ..Origin::new("", 0, 0, 0)
    }
}

fn location(slot: u32) -> Location {
    Location::root()
        .child(Segment::Name(slot))
        .expect("one segment is not too deep")
}

fn arrival(revision: u64) -> Arrival {
    Arrival {
        epoch: 1,
        number: revision,
    }
}

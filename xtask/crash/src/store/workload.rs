//! What a writer commits, and which rows of it must be there afterwards.
//!
//! Each writer has one instance and commits revision after revision: rows of its namespace, and with them alarms, listing
//! rows, messages with the rows that recognise their duplicates, things on their way to others, and who has to run. The
//! content of every revision follows from the writer and the revision alone, so the parent knows every byte without
//! having been told.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    Alarm, Completed, Decided, Entry, EntryKind, IndexRow, Input, Message, Origin, Outgoing, Parcel, Runnable, Seen,
    State, Status,
};
use everstep::storage::{Commit, Condition, Namespace, Store};
use everstep::{InstanceId, MessageId};

use super::rows::Expected;
use crate::chance::Chance;

/// How many writers commit at once.
pub(crate) const WRITERS: u64 = 24;

/// Entries that an instance has at most.
const ENTRIES: u64 = 40;

/// Every so many revisions the whole history is removed, as a range.
const SWEEP_EVERY: u64 = 97;

/// Every so many revisions a message is put into the inbox, and the one before is taken out.
const MESSAGE_EVERY: u64 = 7;

/// Every so many revisions something is put on its way; half as many later it has got there.
const POST_EVERY: u64 = 10;

/// Every so many revisions the instance says that it has to run, or that it rests.
const RUN_EVERY: u64 = 13;
const REST_EVERY: u64 = 11;

/// Every so many revisions the listing row is written anew.
const INDEX_EVERY: u64 = 5;

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
    /// The revision that wrote the listing row.
    listed: u64,
    /// The revision whose parcel is on its way.
    posted: Option<u64>,
    runnable: Option<Runnable>,
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
            listed: 0,
            posted: None,
            runnable: None,
        }
    }

    pub(crate) fn namespace(&self, store: &Store) -> Namespace {
        store.namespace(&self.instance())
    }

    /// Goes to the next revision without building its commit.
    pub(crate) fn advance(&mut self) {
        self.revision += 1;
        let every = |number: u64| self.revision.is_multiple_of(number);
        if every(SWEEP_EVERY) {
            self.entries.clear();
        } else if self.revision > 1 {
            self.entries.insert(self.slot(), self.revision);
        }
        if every(MESSAGE_EVERY) {
            self.inbox = Some(self.revision);
            // Whoever gets a message has to run; a row that says so is left as it is.
            self.runnable.get_or_insert_with(|| Runnable::new("", 0));
        }
        self.alarm_at_ms = every(3).then_some(1_000_000 + self.revision);
        if self.revision == 1 || every(INDEX_EVERY) {
            self.listed = self.revision;
        }
        match self.revision % POST_EVERY {
            0 => self.posted = Some(self.revision),
            half if half == POST_EVERY / 2 => self.posted = None,
            _ => {}
        }
        if self.says_whether_it_runs() {
            let activations = u32::try_from(self.revision % 1_000).expect("it is small");
            self.runnable = (!every(REST_EVERY)).then(|| Runnable::new("crash", activations));
        }
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
                .set(namespace, &Local::Meta(Meta::Input), &Input(self.payload(1)));
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
            commit.deliver(namespace, arrival(self.revision), &self.message(self.revision));
        }
        match (before.posted, self.posted) {
            (Some(old), None) => commit.posted(namespace, old, 0),
            (None, Some(new)) => commit.post(namespace, new, 0, &self.outgoing(new)),
            _ => &mut commit,
        };
        if self.listed != before.listed {
            commit.set_index(namespace, &origin(), &self.state());
        }
        if self.says_whether_it_runs() {
            commit.set_runnable(namespace, self.runnable.as_ref());
        }
        commit.set_state(namespace, before.alarm_at_ms, &self.state());
        commit
    }

    /// Adds every row that the store must hold of this writer.
    pub(crate) fn expect(&self, store: &Store, expected: &mut Expected) {
        if self.revision == 0 {
            return;
        }
        let (instance, shard) = (self.instance(), self.namespace(store).shard());
        let id = || Cow::Borrowed(instance.as_str());
        let local = |local| Key::Instance(shard, id(), local);
        expected.add(&local(Local::Meta(Meta::Origin)), &origin());
        expected.add(&local(Local::Meta(Meta::Input)), &Input(self.payload(1)));
        expected.add(&local(Local::Meta(Meta::State)), &self.state());
        for (slot, revision) in &self.entries {
            let location = Cow::Owned(location(*slot));
            expected.add(&local(Local::History(location)), &self.entry(*revision));
        }
        if let Some(revision) = self.inbox {
            expected.add(&local(Local::Inbox(arrival(revision))), &self.message(revision));
        }
        for revision in (MESSAGE_EVERY..=self.revision).step_by(MESSAGE_EVERY as usize) {
            let message = message_id(revision);
            let key = Key::Dedup(shard, id(), message.as_str().into());
            expected.add(&key, &Seen::from(arrival(revision)));
        }
        if let Some(at_ms) = self.alarm_at_ms {
            let revision = self.revision;
            expected.add(&Key::Alarm(shard, at_ms, id()), &Alarm { revision });
        }
        let listing = Key::Index(shard, origin().created_at_ms, id());
        expected.add(&listing, &listing_row(self.listed));
        if let Some(revision) = self.posted {
            expected.add(&Key::Outbox(shard, id(), revision, 0), &self.outgoing(revision));
        }
        if let Some(runnable) = &self.runnable {
            expected.add(&Key::Runnable(shard, id()), runnable);
        }
    }

    fn instance(&self) -> InstanceId {
        InstanceId::new(format!("writer-{}", self.number)).expect("a number and a word are an id")
    }

    fn says_whether_it_runs(&self) -> bool {
        let every = |number: u64| self.revision.is_multiple_of(number);
        self.revision == 1 || every(RUN_EVERY) || every(REST_EVERY)
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
            ran: None,
        }
    }

    fn message(&self, revision: u64) -> Message {
        Message::told("news", message_id(revision), self.payload(revision), revision)
    }

    fn outgoing(&self, revision: u64) -> Outgoing {
        let parcel = Parcel::Start {
            origin: origin(),
            input: self.payload(revision),
        };
        let to = format!("child-{revision}");
        Outgoing { to, parcel }
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

/// The listing row that a revision writes.
fn listing_row(revision: u64) -> IndexRow {
    IndexRow {
        workflow: origin().workflow,
        status: Status::Running,
        updated_at_ms: revision,
        parent: None,
        tags: Vec::new(),
    }
}

fn message_id(revision: u64) -> MessageId {
    MessageId::new(format!("{revision}")).expect("a number is an id")
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

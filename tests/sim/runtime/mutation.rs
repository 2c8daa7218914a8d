//! Bugs that are put in on purpose, to see that the simulation finds them.
//!
//! They sit in the disk and bend what is written on its way there. So the product has no switch for them, and what
//! they do to it is what a bug of its own would: a row that is missing, wrong, or in another place.

use everstep::storage::batch::{Batch, Operation};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::record::{Content, Entry, EntryKind, Message, Origin, Outgoing, State, Status};
use everstep::storage::value;

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// Commits are acknowledged, and then lost by a crash.
    AcknowledgesBeforeSync,
    /// A commit is applied but for its last row.
    TearsCommits,
    /// That a message was accepted is not remembered.
    ForgetsMessageIds,
    /// An alarm is not written.
    ForgetsAlarms,
    /// Who has to go on after a restart is not written.
    ForgetsRunnable,
    /// What a step returned is not written.
    ForgetsResults,
    /// A message leaves the inbox, and is not in what took it.
    DropsConsumedMessages,
    /// Later messages lie before earlier ones.
    DeliversOutOfOrder,
    /// A message lies in another instance's inbox.
    Misdelivers,
    /// A sleep ends before its time.
    WakesEarly,
    /// An alarm that has rung stays, and rings again.
    RingsTwice,
    /// What was decided about a promise leaves the inbox, and is not in its entry.
    DropsDecisions,
    /// The answer to a question is not written.
    ForgetsAnswers,
    /// What one instance has for another is not written.
    ForgetsOutbox,
    /// An event leaves the inbox, and is not in what took it.
    DropsEvents,
    /// Which version of the code an instance follows is not written.
    ForgetsVersions,
    /// That an instance was deleted is not written.
    ForgetsTombstones,
    /// What a listing shows is not written.
    ForgetsIndex,
    /// A commit of an epoch that is over is accepted.
    AcceptsStaleEpochs,
    /// That an instance is asked to end is taken for something else.
    ForgetsCancels,
    /// How long an instance may take is not written.
    ForgetsDeadlines,
    /// What a schedule begins is begun under another id as well.
    BeginsSlotsTwice,
    /// Of starts that wait for the last of several, the first is kept.
    DebouncesFirst,
    /// That an instance is put aside is not written.
    ForgetsQuarantines,
}

impl Mutation {
    pub(crate) const ALL: [Self; 24] = [
        Self::AcknowledgesBeforeSync,
        Self::TearsCommits,
        Self::ForgetsMessageIds,
        Self::ForgetsAlarms,
        Self::ForgetsRunnable,
        Self::ForgetsResults,
        Self::DropsConsumedMessages,
        Self::DeliversOutOfOrder,
        Self::Misdelivers,
        Self::WakesEarly,
        Self::RingsTwice,
        Self::DropsDecisions,
        Self::ForgetsAnswers,
        Self::ForgetsOutbox,
        Self::DropsEvents,
        Self::ForgetsVersions,
        Self::ForgetsTombstones,
        Self::ForgetsIndex,
        Self::AcceptsStaleEpochs,
        Self::ForgetsCancels,
        Self::ForgetsDeadlines,
        Self::BeginsSlotsTwice,
        Self::DebouncesFirst,
        Self::ForgetsQuarantines,
    ];

    /// What is written in the place of a batch.
    pub(crate) fn bend(self, batch: &Batch) -> Batch {
        let count = match self {
            // The header of the store is a batch of one row.
            Self::TearsCommits => batch.len().saturating_sub(1).max(1),
            _ => batch.len(),
        };
        let mut bent = Batch::new();
        let is_new = batch.operations().any(|operation| match operation {
            Operation::Set { key, .. } => is_of_debounce(key, &Meta::Origin),
            _ => false,
        });
        for operation in batch.operations().take(count) {
            match operation {
                Operation::Set { key, .. }
                    if self == Self::DebouncesFirst && !is_new && is_of_debounce(key, &Meta::Input) => {}
                Operation::Set { key, value } => self.bend_row(key, value, &mut bent),
                Operation::Delete { key } if self == Self::RingsTwice && is_alarm(key) => {}
                Operation::Delete { key } => bent.delete(key),
                Operation::DeleteRange { start, end } => bent.delete_range(start, end),
            }
        }
        bent
    }

    fn bend_row(self, bytes: &[u8], value: &[u8], bent: &mut Batch) {
        let key = Key::unpack(bytes).unwrap();
        match (self, &key) {
            (Self::ForgetsMessageIds, Key::Dedup(..))
            | (Self::ForgetsAlarms, Key::Alarm(..))
            | (Self::ForgetsRunnable, Key::Runnable(..))
            | (Self::ForgetsAnswers, Key::Instance(_, _, Local::Answer(_)))
            | (Self::ForgetsOutbox, Key::Outbox(..))
            | (Self::ForgetsTombstones, Key::Tombstone(..))
            | (Self::ForgetsIndex, Key::Index(..)) => {}
            (
                Self::ForgetsResults
                | Self::DropsConsumedMessages
                | Self::WakesEarly
                | Self::DropsDecisions
                | Self::DropsEvents
                | Self::ForgetsVersions,
                Key::Instance(_, _, Local::History(_)),
            ) => {
                let mut entry: Entry = value::decode(bytes, value).unwrap();
                if self == Self::ForgetsVersions && matches!(entry.kind, EntryKind::Version { .. }) {
                    return;
                }
                self.bend_entry(&mut entry);
                bent.set(bytes, &value::encode(bytes, &entry));
            }
            (Self::ForgetsCancels, Key::Instance(_, _, Local::Inbox(_))) => {
                let mut message: Message = value::decode(bytes, value).unwrap();
                if matches!(message.content, Content::Cancel { .. }) {
                    message.content = Content::Resume;
                }
                bent.set(bytes, &value::encode(bytes, &message));
            }
            (Self::ForgetsDeadlines, Key::Instance(_, _, Local::Meta(Meta::Origin))) => {
                let mut origin: Origin = value::decode(bytes, value).unwrap();
                origin.deadline_at_ms = None;
                bent.set(bytes, &value::encode(bytes, &origin));
            }
            (Self::ForgetsQuarantines, Key::Instance(_, _, Local::Meta(Meta::State))) => {
                let mut state: State = value::decode(bytes, value).unwrap();
                if state.status == Status::Quarantined {
                    state.status = Status::Running;
                }
                bent.set(bytes, &value::encode(bytes, &state));
            }
            (Self::BeginsSlotsTwice, Key::Outbox(shard, from, revision, index)) if from.starts_with("__schedule ") => {
                let mut outgoing: Outgoing = value::decode(bytes, value).unwrap();
                bent.set(bytes, value);
                outgoing.to.push_str("-again");
                let again = Key::Outbox(*shard, from.clone(), *revision, index + 1_000).pack();
                bent.set(&again, &value::encode(&again, &outgoing));
            }
            (Self::DeliversOutOfOrder, Key::Instance(shard, instance, Local::Inbox(arrival))) => {
                let arrival = Arrival {
                    number: (1 << 20) - arrival.number,
                    ..*arrival
                };
                let key = Key::Instance(*shard, instance.clone(), Local::Inbox(arrival));
                move_row(bytes, value, &key, bent);
            }
            (Self::Misdelivers, Key::Instance(shard, instance, Local::Inbox(arrival))) if instance == "i1" => {
                move_row(
                    bytes,
                    value,
                    &Key::Instance(*shard, "i0".into(), Local::Inbox(*arrival)),
                    bent,
                );
            }
            _ => bent.set(bytes, value),
        }
    }

    fn bend_entry(self, entry: &mut Entry) {
        match (self, &mut entry.kind) {
            (Self::ForgetsResults, EntryKind::Step(decided)) => {
                *decided = None;
                entry.completed = None;
            }
            (Self::DropsConsumedMessages, EntryKind::Receive { taken, .. }) => taken.clear(),
            (Self::WakesEarly, EntryKind::Sleep { wake_at_ms }) => *wake_at_ms -= 700,
            (Self::DropsDecisions, EntryKind::Promise { decided, .. }) => *decided = None,
            (Self::DropsEvents, EntryKind::Event { decided, .. }) => *decided = None,
            _ => {}
        }
    }
}

/// Whether it is this row of what waits for the last of several starts.
fn is_of_debounce(key: &[u8], row: &Meta) -> bool {
    match Key::unpack(key) {
        Ok(Key::Instance(_, instance, Local::Meta(meta))) => instance.starts_with("__debounce ") && meta == *row,
        _ => false,
    }
}

fn is_alarm(key: &[u8]) -> bool {
    matches!(Key::unpack(key), Ok(Key::Alarm(..)))
}

fn move_row(from: &[u8], value: &[u8], to: &Key<'_>, bent: &mut Batch) {
    let message: Message = value::decode(from, value).unwrap();
    let to = to.pack();
    bent.set(&to, &value::encode(&to, &message));
}

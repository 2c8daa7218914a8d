//! Which record belongs under which key.

use crate::storage::key::{Key, Local, Meta};
use crate::storage::record::{
    Alarm, Answer, AtGate, Attempts, DeadLetter, Emitted, Entry, Failure, Flow, Held, Hold, IndexRow, Input, Message,
    Name, Origin, Outgoing, Output, Published, Runnable, Seen, State, StoreHeader, Tombstone,
};
use crate::storage::value::{self, DecodeError, Record};

/// The record that a family of keys holds.
#[derive(Clone, Copy)]
pub(super) struct Schema {
    pub(super) record_type: u8,
    pub(super) name: &'static str,
    check: fn(&[u8], &[u8]) -> Result<(), DecodeError>,
}

impl Schema {
    /// Whether a value is that record, and whole.
    pub(super) fn check(&self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        (self.check)(key, value)
    }

    fn of<R: Record>() -> Self {
        Self {
            record_type: R::TYPE,
            name: R::NAME,
            check: |key, value| value::decode::<R>(key, value).map(drop),
        }
    }
}

/// What belongs under a key.
pub(super) fn schema(key: &Key<'_>) -> Schema {
    match key {
        Key::Store => Schema::of::<StoreHeader>(),
        Key::Position(_) => Schema::of::<Held>(),
        Key::Instance(_, _, local) => local_schema(local),
        Key::Alarm(..) => Schema::of::<Alarm>(),
        Key::Index(..) => Schema::of::<IndexRow>(),
        Key::Dedup(..) => Schema::of::<Seen>(),
        Key::Runnable(..) => Schema::of::<Runnable>(),
        Key::Outbox(..) => Schema::of::<Outgoing>(),
        Key::Dead(..) => Schema::of::<DeadLetter>(),
        Key::Tombstone(..) => Schema::of::<Tombstone>(),
        Key::Gate(..) => Schema::of::<AtGate>(),
        Key::Placed(..) => Schema::of::<Seen>(),
    }
}

fn local_schema(local: &Local<'_>) -> Schema {
    match local {
        Local::Name(_) => Schema::of::<Name>(),
        Local::History(_) => Schema::of::<Entry>(),
        Local::Inbox(_) => Schema::of::<Message>(),
        Local::Meta(Meta::State) => Schema::of::<State>(),
        Local::Meta(Meta::Output) => Schema::of::<Output>(),
        Local::Meta(Meta::Failure) => Schema::of::<Failure>(),
        Local::Meta(Meta::Origin) => Schema::of::<Origin>(),
        Local::Meta(Meta::Input) => Schema::of::<Input>(),
        Local::Meta(Meta::Hold) => Schema::of::<Hold>(),
        Local::Meta(Meta::Flow) => Schema::of::<Flow>(),
        Local::Attempts(_) => Schema::of::<Attempts>(),
        Local::Emitted(_) => Schema::of::<Emitted>(),
        Local::Published(_) => Schema::of::<Published>(),
        Local::Answer(_) => Schema::of::<Answer>(),
    }
}

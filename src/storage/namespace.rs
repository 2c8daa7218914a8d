//! The isolated key space of one instance.
//!
//! A namespace reads and names rows of exactly one instance. Its methods have no instance parameter, and the keys
//! they take ([`Local`]) have no instance in them: there is no way to write down a row of somebody else.

use std::ops::ControlFlow;

use crate::ids::{InstanceId, MessageId, Shard};
use crate::location::Location;
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Arrival, Key, Local};
use crate::storage::value::{self, Record};

/// Which rows of a namespace to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows<'a> {
    /// All of them.
    All,
    /// The name registry, by index.
    Names,
    /// The entries at a location and below it, depth first.
    History(&'a Location),
    /// The inbox, oldest message first.
    Inbox,
    /// What came into the inbox behind this one.
    InboxBehind(Arrival),
    /// The facts.
    Meta,
    /// The attempts, by entry.
    Attempts,
    /// What the code emitted, in order.
    Emitted,
    /// What the code published, by name.
    Published,
    /// The answers to questions, by the id of the message.
    Answers,
}

/// The key space of one instance.
#[derive(Debug, Clone)]
pub struct Namespace {
    shard: Shard,
    instance: InstanceId,
    prefix: Vec<u8>,
}

impl Namespace {
    pub(crate) fn new(shard: Shard, instance: InstanceId) -> Self {
        let prefix = key::namespace(shard, instance.as_str());
        Self {
            shard,
            instance,
            prefix,
        }
    }

    /// Whose key space this is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// The shard it lies in.
    pub fn shard(&self) -> Shard {
        self.shard
    }

    /// Reads one row.
    pub fn get<R: Record>(&self, snapshot: &dyn Snapshot, local: &Local<'_>) -> Result<Option<R>> {
        let mut key = Vec::with_capacity(self.prefix.len() + 16);
        self.key_into(local, &mut key);
        let Some(value) = snapshot.get(&key)? else {
            return Ok(None);
        };
        self.decode(&key, &value).map(Some)
    }

    /// Whether a message was accepted, or will never be.
    pub(crate) fn has_seen(&self, snapshot: &dyn Snapshot, message: &MessageId) -> Result<bool> {
        let key = Key::Dedup(self.shard, self.instance.as_str().into(), message.as_str().into());
        Ok(snapshot.get(&key.pack())?.is_some())
    }

    /// Shows rows to `visit` in key order, each as its key and a [`Row`] that can be decoded.
    pub fn list(
        &self,
        snapshot: &dyn Snapshot,
        rows: Rows<'_>,
        visit: &mut dyn FnMut(Local<'static>, Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let (start, end) = self.range(rows);
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: usize::MAX,
        };
        let mut outcome = Ok(());
        snapshot.scan(&scan, &mut |key, value| {
            outcome = self.local(key).and_then(|local| {
                visit(
                    local,
                    Row {
                        namespace: self,
                        key,
                        value,
                    },
                )
            });
            if outcome.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        outcome
    }

    /// Appends the whole key of a row to `out`.
    pub(crate) fn key_into(&self, local: &Local<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        local.pack_into(out);
    }

    /// What every key of the namespace begins with, and no other.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    fn range(&self, rows: Rows<'_>) -> (Vec<u8>, Vec<u8>) {
        let mut prefix = self.prefix.clone();
        match rows {
            Rows::InboxBehind(arrival) => {
                let mut start = prefix.clone();
                Local::Inbox(arrival).pack_into(&mut start);
                start.push(0);
                let (_, end) = self.range(Rows::Inbox);
                return (start, end);
            }
            Rows::All => {}
            Rows::Names => key::names_into(&mut prefix),
            Rows::History(location) => Local::History(std::borrow::Cow::Borrowed(location)).pack_into(&mut prefix),
            Rows::Inbox => key::inbox_into(&mut prefix),
            Rows::Meta => key::meta_into(&mut prefix),
            Rows::Attempts => key::attempts_into(&mut prefix),
            Rows::Emitted => key::emitted_into(&mut prefix),
            Rows::Published => key::published_into(&mut prefix),
            Rows::Answers => key::answers_into(&mut prefix),
        }
        key::below(&prefix)
    }

    fn local(&self, key: &[u8]) -> Result<Local<'static>> {
        match Key::unpack(key)? {
            Key::Instance(shard, instance, local) if shard == self.shard && instance == self.instance.as_str() => {
                Ok(local)
            }
            other => Err(Error::Corrupt(format!(
                "{other:?} lies in the namespace of {}",
                self.instance
            ))),
        }
    }

    fn decode<R: Record>(&self, key: &[u8], value: &[u8]) -> Result<R> {
        value::decode(key, value).map_err(|source| Error::Decode {
            key: key::describe(key),
            source,
        })
    }
}

/// A row that a listing shows.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    namespace: &'a Namespace,
    key: &'a [u8],
    value: &'a [u8],
}

impl Row<'_> {
    /// Reads the record.
    pub fn decode<R: Record>(&self) -> Result<R> {
        self.namespace.decode(self.key, self.value)
    }
}

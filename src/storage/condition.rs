//! Whether a commit may be done: its conditions, checked against the store and against the commits before it in the
//! same group, which are not in the store yet.

use std::collections::HashMap;

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::ids::{InstanceId, Shard};
use crate::storage::activation::Activations;
use crate::storage::batch::{Batch, Operation};
use crate::storage::commit::{Commit, Condition};
use crate::storage::engine::Engine;
use crate::storage::error::{Error, Refusal, Result};
use crate::storage::key::{self, Key, Local, Meta};
use crate::storage::record::{Seen, State};
use crate::storage::value::{self, Record};

/// Where operations on one key are: in which batch of the group, and which of its operations. Mostly one.
type Places = SmallVec<[(usize, u32); 1]>;

/// Checks conditions for one group after the other.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// Rows that the group wrote or removed and that conditions may be about: hash of the key, then where the operation is.
    staged: HashMap<u64, Places>,
    key: Vec<u8>,
}

impl Checker {
    /// Checks every condition of a commit.
    pub(crate) fn check(
        &mut self,
        commit: &Commit,
        engine: &dyn Engine,
        activations: &Activations,
        batches: &[Batch],
    ) -> Result<()> {
        for condition in &commit.conditions {
            let mut view = View {
                checker: self,
                engine,
                batches,
                shard: commit.shard,
            };
            match condition {
                Condition::Current(activation) if activations.is_current(activation) => {}
                Condition::Current(_) => return Err(Refusal::StaleActivation.into()),
                Condition::Unseen(instance, message) => {
                    if let Some(seen) = view.seen(instance, message.as_str())? {
                        return Err(Refusal::Duplicate(seen).into());
                    }
                }
                Condition::Missing(instance) => {
                    if view.state(instance)?.is_some() {
                        return Err(Refusal::Exists.into());
                    }
                }
                Condition::Exists(instance) => {
                    view.existing(instance)?;
                }
                Condition::Posted(instance, revision, index) => {
                    if !view.is_posted(instance, *revision, *index)? {
                        return Err(Refusal::NotPosted.into());
                    }
                }
                Condition::Open(instance) => {
                    let status = view.existing(instance)?.status;
                    if status.is_terminal() {
                        return Err(Refusal::Ended(status).into());
                    }
                }
                Condition::Revision(instance, expected) => {
                    let (expected, found) = (*expected, view.existing(instance)?.revision);
                    if found != expected {
                        return Err(Refusal::Revision { expected, found }.into());
                    }
                }
            }
        }
        Ok(())
    }

    /// Remembers what an accepted commit wrote; it is the batch at `index` of its group.
    pub(crate) fn remember(&mut self, commit: &Commit, index: usize) {
        for operation in &commit.watched {
            let operation_at = commit.batch.operations().nth(*operation as usize);
            if let Some(Operation::Set { key, .. } | Operation::Delete { key }) = operation_at {
                self.staged.entry(xxh3_64(key)).or_default().push((index, *operation));
            }
        }
    }

    /// Forgets the group: it is in the store now, or never will be.
    pub(crate) fn forget(&mut self) {
        self.staged.clear();
    }
}

/// What a condition sees: the group so far, above the store.
struct View<'a> {
    checker: &'a mut Checker,
    engine: &'a dyn Engine,
    batches: &'a [Batch],
    shard: Shard,
}

impl View<'_> {
    fn existing(&mut self, instance: &InstanceId) -> Result<State> {
        self.state(instance)?.ok_or_else(|| Refusal::Missing.into())
    }

    fn state(&mut self, instance: &InstanceId) -> Result<Option<State>> {
        self.read(&Key::Instance(
            self.shard,
            instance.as_str().into(),
            Local::Meta(Meta::State),
        ))
    }

    fn seen(&mut self, instance: &InstanceId, message: &str) -> Result<Option<Seen>> {
        self.read(&Key::Dedup(self.shard, instance.as_str().into(), message.into()))
    }

    /// Whether a row is in the outbox. Nobody asks about one that the group has put there: it is not in the store yet.
    fn is_posted(&self, instance: &InstanceId, revision: u64, index: u32) -> Result<bool> {
        let key = Key::Outbox(self.shard, instance.as_str().into(), revision, index).pack();
        if is_removed(&self.checker.staged, self.batches, &key) {
            return Ok(false);
        }
        Ok(self.engine.get(self.shard, &key)?.is_some())
    }

    fn read<R: Record>(&mut self, key: &Key<'_>) -> Result<Option<R>> {
        let bytes = &mut self.checker.key;
        bytes.clear();
        key.pack_into(bytes);
        let decode = |value: &[u8]| {
            value::decode(bytes, value).map_err(|source| Error::Decode {
                key: key::describe(bytes),
                source,
            })
        };
        if let Some(value) = staged(&self.checker.staged, self.batches, bytes) {
            return decode(value).map(Some);
        }
        match self.engine.get(self.shard, bytes)? {
            Some(value) => decode(&value).map(Some),
            None => Ok(None),
        }
    }
}

/// The value that the group so far gives a key.
fn staged<'a>(staged: &HashMap<u64, Places>, batches: &'a [Batch], wanted: &[u8]) -> Option<&'a [u8]> {
    let places = staged.get(&xxh3_64(wanted))?;
    places.iter().rev().find_map(
        |(index, operation)| match batches[*index].operations().nth(*operation as usize) {
            Some(Operation::Set { key, value }) if key == wanted => Some(value),
            _ => None,
        },
    )
}

/// Whether the group so far removes a key.
fn is_removed(staged: &HashMap<u64, Places>, batches: &[Batch], wanted: &[u8]) -> bool {
    let places = staged.get(&xxh3_64(wanted)).into_iter().flatten();
    let mut operations = places.map(|(index, operation)| batches[*index].operations().nth(*operation as usize));
    operations.any(|operation| matches!(operation, Some(Operation::Delete { key }) if key == wanted))
}

//! Writing the listing index anew from what the instances say.
//!
//! The index is the one part of a store that holds nothing of its own: each row follows from the origin and the
//! state of its instance. So it can be mended while everything goes on. Each change is a commit under the condition
//! that the instance is still as it was read: a change that comes in between wins, and the instance is read again.

use crate::ids::{InstanceId, Shard};
use crate::storage::commit::{Commit, Condition};
use crate::storage::committer::Pending;
use crate::storage::engine::Snapshot;
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key, Local, Meta};
use crate::storage::operations::wait::wait;
use crate::storage::operations::walk::{Instances, Look, Walk, look};
use crate::storage::record::{IndexRow, Origin, State};
use crate::storage::store::Store;

/// Changes that are on their way at once.
const SLICE: usize = 256;

/// How often an instance that keeps changing is read again before it is left to its own commits, which write the
/// row anyway.
const TRIES_MAX: u32 = 16;

/// What was changed in the index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Rebuilt {
    /// Rows that were missing or wrong, and are right now.
    pub written: u64,
    /// Rows that belonged to no instance, or lay at another time than theirs.
    pub removed: u64,
    /// Instances whose origin or state can't be read: their rows were left as they are.
    pub skipped: u64,
}

/// A change that is on its way, and what to look at again if it was refused.
struct Change {
    pending: Pending,
    what: What,
}

enum What {
    Row(InstanceId),
    Stale { at: u64, instance: InstanceId },
}

impl Store {
    /// Writes the listing index anew where it does not say what the instances say. Everything may go on meanwhile.
    pub fn rebuild_index(&self) -> Result<Rebuilt> {
        let mut rebuilt = Rebuilt::default();
        for shard in self.shards() {
            let snapshot = self.snapshot(shard)?;
            self.write_rows(&*snapshot, shard, &mut rebuilt)?;
            self.remove_rows(&*snapshot, shard, &mut rebuilt)?;
        }
        Ok(rebuilt)
    }

    fn write_rows(&self, snapshot: &dyn Snapshot, shard: Shard, rebuilt: &mut Rebuilt) -> Result<()> {
        let mut changes = Vec::new();
        let mut instances = Instances::new(snapshot, shard);
        while let Some(id) = instances.next()? {
            let Ok(instance) = InstanceId::internal(id) else {
                rebuilt.skipped += 1;
                continue;
            };
            match right_row(snapshot, shard, &instance)? {
                Wanted::Unknown => rebuilt.skipped += 1,
                Wanted::Right => {}
                Wanted::Write(commit) => self.send(commit, What::Row(instance), &mut changes, rebuilt)?,
            }
        }
        self.settle_all(&mut changes, rebuilt)
    }

    fn remove_rows(&self, snapshot: &dyn Snapshot, shard: Shard, rebuilt: &mut Rebuilt) -> Result<()> {
        let mut changes = Vec::new();
        let mut rows = Walk::new(snapshot, key::index(shard));
        while let Some(row) = rows.next()? {
            let Ok(Key::Index(_, at, id)) = Key::unpack(&row.key) else {
                continue;
            };
            let Ok(instance) = InstanceId::internal(id) else {
                // No commit can name it, so none can compete.
                let mut commit = Commit::new(shard);
                commit.delete_raw(&row.key);
                wait(self.commit(commit))?;
                rebuilt.removed += 1;
                continue;
            };
            if let Some(commit) = removal(snapshot, shard, at, &instance)? {
                self.send(commit, What::Stale { at, instance }, &mut changes, rebuilt)?;
            }
        }
        self.settle_all(&mut changes, rebuilt)
    }

    fn send(&self, commit: Commit, what: What, changes: &mut Vec<Change>, rebuilt: &mut Rebuilt) -> Result<()> {
        let pending = wait(self.submit(commit))?;
        changes.push(Change { pending, what });
        if changes.len() < SLICE {
            Ok(())
        } else {
            self.settle_all(changes, rebuilt)
        }
    }

    /// Waits for all changes; those that somebody was faster than are tried again from what is there now.
    fn settle_all(&self, changes: &mut Vec<Change>, rebuilt: &mut Rebuilt) -> Result<()> {
        for Change { pending, what } in changes.drain(..) {
            let mut outcome = wait(pending.durable());
            for _ in 0..TRIES_MAX {
                if !matches!(outcome, Err(Error::Refused(_))) {
                    break;
                }
                match self.again(&what)? {
                    Some(commit) => outcome = wait(self.commit(commit)),
                    None => break,
                }
            }
            match (outcome, &what) {
                (Ok(_), What::Row(_)) => rebuilt.written += 1,
                (Ok(_), What::Stale { .. }) => rebuilt.removed += 1,
                // Its own commits have brought it in order, or do so at this pace.
                (Err(Error::Refused(_)), _) => {}
                (Err(error), _) => return Err(error),
            }
        }
        Ok(())
    }

    fn again(&self, what: &What) -> Result<Option<Commit>> {
        let (What::Row(instance) | What::Stale { instance, .. }) = what;
        let shard = self.shard_of(instance);
        let snapshot = self.snapshot(shard)?;
        match what {
            What::Row(instance) => Ok(match right_row(&*snapshot, shard, instance)? {
                Wanted::Write(commit) => Some(commit),
                Wanted::Right | Wanted::Unknown => None,
            }),
            What::Stale { at, instance } => removal(&*snapshot, shard, *at, instance),
        }
    }
}

/// What should become of the listing row of an instance.
enum Wanted {
    Right,
    Write(Commit),
    /// What it should be can't be told.
    Unknown,
}

fn right_row(snapshot: &dyn Snapshot, shard: Shard, instance: &InstanceId) -> Result<Wanted> {
    let (Look::Found(origin), Look::Found(state)) = facts(snapshot, shard, instance)? else {
        return Ok(Wanted::Unknown);
    };
    let key = Key::Index(shard, origin.created_at_ms, instance.as_str().into());
    if let Look::Found(row) = look::<IndexRow>(snapshot, &key)?
        && row.is_of(&origin, &state)
    {
        return Ok(Wanted::Right);
    }
    let mut commit = Commit::new(shard);
    commit.require(Condition::Revision(instance.clone(), state.revision));
    let namespace = crate::storage::namespace::Namespace::new(shard, instance.clone());
    commit.set_index(&namespace, &origin, &state);
    Ok(Wanted::Write(commit))
}

/// The commit that removes the listing row at `at`, if that is not where the instance's row belongs.
fn removal(snapshot: &dyn Snapshot, shard: Shard, at: u64, instance: &InstanceId) -> Result<Option<Commit>> {
    let condition = match facts(snapshot, shard, instance)? {
        (_, Look::Missing) => Condition::Missing(instance.clone()),
        (Look::Found(origin), Look::Found(state)) if origin.created_at_ms != at => {
            Condition::Revision(instance.clone(), state.revision)
        }
        _ => return Ok(None),
    };
    let mut commit = Commit::new(shard);
    commit.require(condition);
    commit.delete_raw(&Key::Index(shard, at, instance.as_str().into()).pack());
    Ok(Some(commit))
}

fn facts(snapshot: &dyn Snapshot, shard: Shard, instance: &InstanceId) -> Result<(Look<Origin>, Look<State>)> {
    let key = |fact| Key::Instance(shard, instance.as_str().into(), Local::Meta(fact));
    let origin = look(snapshot, &key(Meta::Origin))?;
    Ok((origin, look(snapshot, &key(Meta::State))?))
}

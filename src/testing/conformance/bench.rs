//! What every case works with: a writer that holds a shard, rows to compare, and words for what differs.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::ids::Shard;
use crate::storage::batch::Batch;
use crate::storage::engine::{
    CommitError, Direction, Engine, Group, Lease, Owner, Position, ReadError, Scan, Snapshot,
};
use crate::storage::key::Key;
use crate::testing::conformance::Verdict;

/// The shard that cases use when they need only one.
pub(super) const SHARD: Shard = Shard(7);

/// Rows in key order.
pub(super) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// What all keys of the suite in one shard begin with: inside the shard, and away from the rows that an engine may
/// keep for itself.
pub fn room(shard: Shard) -> Vec<u8> {
    Key::Runnable(shard, "".into()).pack()
}

/// The key with that end in the room of [`SHARD`].
pub(super) fn key(end: impl AsRef<[u8]>) -> Vec<u8> {
    key_in(SHARD, end)
}

/// The key with that end in the room of a shard.
pub(super) fn key_in(shard: Shard, end: impl AsRef<[u8]>) -> Vec<u8> {
    let mut key = room(shard);
    key.extend_from_slice(end.as_ref());
    key
}

/// The bounds of a shard's room. The suite's keys go on with any bytes, ff included, so the room ends where the next
/// prefix begins.
pub(super) fn whole(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    let mut end = room(shard);
    *end.last_mut().expect("a room has a name") += 1;
    (room(shard), end)
}

/// One batch, filled by `fill`.
pub(super) fn batch(fill: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::new();
    fill(&mut batch);
    batch
}

/// Holds a shard and knows where it stands.
#[derive(Clone)]
pub(super) struct Writer {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) lease: Lease,
    pub(super) position: Position,
}

impl Writer {
    /// Takes [`SHARD`] for the first owner.
    pub(super) fn new(engine: &Arc<dyn Engine>) -> Result<Self, String> {
        Self::acquire(engine, SHARD, 1)
    }

    /// Takes a shard.
    pub(super) fn acquire(engine: &Arc<dyn Engine>, shard: Shard, owner: u64) -> Result<Self, String> {
        let lease = engine
            .acquire(shard, Owner(owner))
            .map_err(|error| told("acquire", &error))?;
        same("the shard of the lease", &lease.shard, &shard)?;
        same("the owner of the lease", &lease.owner, &Owner(owner))?;
        Ok(Self {
            engine: Arc::clone(engine),
            lease,
            position: lease.position,
        })
    }

    /// Where the shard stands after that many more commits. The chain is a number without meaning to the engine.
    pub(super) fn after(&self, commits: usize) -> Position {
        let sequence = self.position.sequence + commits as u64;
        Position {
            sequence,
            chain: sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.lease.epoch,
        }
    }

    /// Hands a group over, and leaves the writer where it was.
    pub(super) fn offer(&self, batches: &[Batch]) -> Result<(), CommitError> {
        let next = self.after(batches.len());
        self.engine.commit(&Group {
            lease: self.lease,
            expected: self.position,
            next,
            batches,
        })
    }

    /// Commits a group, and moves on.
    pub(super) fn group(&mut self, batches: &[Batch]) -> Verdict {
        self.offer(batches).map_err(|error| told("commit", &error))?;
        self.position = self.after(batches.len());
        Ok(())
    }

    /// Commits one batch, and moves on.
    pub(super) fn commit(&mut self, fill: impl FnOnce(&mut Batch)) -> Verdict {
        self.group(&[batch(fill)])
    }

    /// Checks that the engine stands where the writer does.
    pub(super) fn stands(&self) -> Verdict {
        let found = self
            .engine
            .position(&self.lease)
            .map_err(|error| told("position", &error))?;
        same("the position", &found, &self.position)
    }
}

/// The value of a key in [`SHARD`].
pub(super) fn get(engine: &dyn Engine, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    get_in(engine, SHARD, key)
}

/// The value of a key.
pub(super) fn get_in(engine: &dyn Engine, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    engine.get(shard, key).map_err(|error| unread("get", &error))
}

/// A view of a shard.
pub(super) fn snapshot(engine: &dyn Engine, shard: Shard) -> Result<Box<dyn Snapshot>, String> {
    engine.snapshot(shard).map_err(|error| unread("snapshot", &error))
}

/// The rows that a scan shows.
pub(super) fn scan(
    snapshot: &dyn Snapshot,
    bounds: (&[u8], &[u8]),
    direction: Direction,
    limit: usize,
) -> Result<Rows, String> {
    let mut rows = Rows::new();
    let scan = Scan {
        start: bounds.0,
        end: bounds.1,
        direction,
        limit,
    };
    let visited = snapshot.scan(&scan, &mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    });
    visited.map_err(|error| unread("scan", &error))?;
    Ok(rows)
}

/// Everything in a shard's room, smallest key first.
pub(super) fn all_of(snapshot: &dyn Snapshot, shard: Shard) -> Result<Rows, String> {
    let (start, end) = whole(shard);
    scan(snapshot, (&start, &end), Direction::Forward, usize::MAX)
}

/// Everything in a shard's room as it is now, smallest key first.
pub(super) fn rows(engine: &dyn Engine, shard: Shard) -> Result<Rows, String> {
    all_of(snapshot(engine, shard)?.as_ref(), shard)
}

/// Checks that the room of [`SHARD`] holds exactly these rows, by every way to read them.
pub(super) fn holds(engine: &dyn Engine, expected: &[(&[u8], &[u8])]) -> Verdict {
    let expected: Rows = expected.iter().map(|(end, value)| (key(end), value.to_vec())).collect();
    holds_rows(engine, SHARD, &expected)
}

/// The same for any shard and whole keys.
pub(super) fn holds_rows(engine: &dyn Engine, shard: Shard, expected: &Rows) -> Verdict {
    let view = snapshot(engine, shard)?;
    equal("a scan of everything", &all_of(view.as_ref(), shard)?, expected)?;
    for (key, value) in expected {
        let found = view.get(key).map_err(|error| unread("get of the snapshot", &error))?;
        has("the snapshot", key, found.as_deref(), Some(value))?;
        has("the engine", key, get_in(engine, shard, key)?.as_deref(), Some(value))?;
    }
    Ok(())
}

/// Checks what a key holds.
pub(super) fn has(place: &str, key: &[u8], found: Option<&[u8]>, expected: Option<&[u8]>) -> Verdict {
    if found == expected {
        return Ok(());
    }
    let word = |value: Option<&[u8]>| value.map_or_else(|| "nothing".into(), hex);
    Err(format!(
        "{place} holds {} at key {}, expected {}",
        word(found),
        hex(key),
        word(expected)
    ))
}

/// Checks that two lists of rows are the same, and names the first that differs.
pub(super) fn equal(what: &str, found: &Rows, expected: &Rows) -> Verdict {
    let differ = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    if differ.is_none() && found.len() == expected.len() {
        return Ok(());
    }
    let at = differ.unwrap_or(found.len().min(expected.len()));
    let word = |row: Option<&(Vec<u8>, Vec<u8>)>| {
        row.map_or_else(
            || "the end".into(),
            |(key, value)| format!("{} = {}", hex(key), hex(value)),
        )
    };
    let (seen, wanted) = (word(found.get(at)), word(expected.get(at)));
    Err(format!(
        "{what} gave {} rows, expected {}; row {at} is {seen}, expected {wanted}",
        found.len(),
        expected.len()
    ))
}

/// Checks that two facts are the same.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Verdict {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what} is {found:?}, expected {expected:?}"))
    }
}

/// Checks that something was refused in the expected way, which `right` decides.
pub(super) fn refused<T>(
    what: &str,
    answer: Result<T, CommitError>,
    expected: &str,
    right: impl FnOnce(&CommitError) -> bool,
) -> Verdict {
    match answer {
        Ok(_) => Err(format!("{what} was done, expected {expected}")),
        Err(error) if right(&error) => Ok(()),
        Err(error) => Err(format!("{what} gave {error:?}, expected {expected}")),
    }
}

/// Checks that something was fenced, and that the error tells both epochs.
pub(super) fn fenced<T>(what: &str, answer: Result<T, CommitError>, held: u64, carried: u64) -> Verdict {
    let wanted = (held, carried);
    refused(
        what,
        answer,
        &format!("fenced by epoch {held} under {carried}"),
        |error| matches!(error, CommitError::Fenced { held, carried } if (*held, *carried) == wanted),
    )
}

/// Checks that something was a conflict, and that the error tells both sequences.
pub(super) fn conflict<T>(what: &str, answer: Result<T, CommitError>, expected: u64, found: u64) -> Verdict {
    let wanted = (expected, found);
    refused(
        what,
        answer,
        &format!("a conflict of {expected} with {found}"),
        |error| matches!(error, CommitError::Conflict { expected, found } if (*expected, *found) == wanted),
    )
}

/// Checks that something was too large, and that the error says so with its numbers.
pub(super) fn too_large<T>(what: &str, answer: Result<T, CommitError>) -> Verdict {
    refused(
        what,
        answer,
        "too large",
        |error| matches!(error, CommitError::TooLarge { bytes, max } if bytes > max),
    )
}

/// Says that a call which had to be done was refused.
pub(super) fn told(what: &str, error: &CommitError) -> String {
    format!("{what} gave {error:?}")
}

/// Says that a read failed.
pub(super) fn unread(what: &str, error: &ReadError) -> String {
    format!("{what} gave {error:?}")
}

/// Bytes for a person: the first ones, and how many there are.
pub(super) fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(24).map(|byte| format!("{byte:02x}")).collect();
    match bytes.len() {
        0 => "(empty)".into(),
        1..=24 => shown,
        more => format!("{shown}... ({more} bytes)"),
    }
}

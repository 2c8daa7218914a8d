//! Snapshots for engines that have none.
//!
//! A plain ordered map knows only its latest state, and so does sled 0.34. The snapshots here are made by the one
//! who changes that state: before the committer writes, it saves the old value (or the absence) of every key it is
//! about to change into the *overlay* of each live snapshot, unless that overlay has the key already. Tree and
//! overlay together are then the state at the moment of the snapshot, for as long as it lives.
//!
//! # Why no snapshot sees half a commit
//!
//! Say snapshot S was taken at moment s.
//!
//! 1. **s lies between two commits.** A commit holds the gate for writing from before it saves the first old value
//!    until its last write is done (and, on disk, durable); [`Preimages::snapshot`] holds it for reading while it
//!    registers the overlay. So for each commit either all its writes come before s, or all its saves come after s
//!    and go to the overlay of S.
//! 2. **A key in the overlay has its value at s.** Only the first save of a key after s counts, and at that time no
//!    write after s has touched the key.
//! 3. **A reader asks the tree first and the overlay second, and the overlay wins.** If the tree gave the reader
//!    something that was written after s, the save came before that write, so the overlay has the key by the time it
//!    is asked. If it did not, the tree's answer is the value at s, and so is the overlay's if it has one. In the
//!    other order a commit could slip in between: the overlay is asked and has nothing, the commit saves and writes,
//!    the tree shows the new value.
//! 4. **A scan is 3 for every key of a range at once.** It reads a page of rows from the tree, then all overlay rows
//!    of exactly the range of keys which that page answers for: from where it began to its last key when the page is
//!    full, to the end of the range when the tree had no more. In that range keys deleted since s come back, and keys
//!    inserted since s (absent in the overlay) vanish. Behind the page nothing is claimed yet; the next page begins
//!    there. Rows may be read at different times, even by an iterator that keeps an old page of the tree in its
//!    hand: 3 holds for each by itself.
//! 5. **A value that lies in several rows of the tree** (chunks) may be found torn while a commit replaces it. The
//!    tree then gives any bytes, or an error. By 3 the overlay has the key, and neither is looked at.
//!
//! # What it costs
//!
//! Nothing to speak of while no snapshot is alive: one uncontended lock a commit. With live snapshots every first
//! change of a key costs a read, and **the overlays hold the old values in memory** until their snapshot is dropped
//! (a value is shared between overlays, a key is not). A snapshot is meant to live for one read of a namespace or one
//! page of a listing; one that is kept for an export of a busy store costs as much memory as is rewritten meanwhile.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use crate::storage::engine::{Direction, ReadError, Scan, Snapshot, Visit};

/// Rows that are taken from the tree at once: enough to make the overlay's lock cheap, few enough to hold.
const READ_ROWS_MAX: usize = 128;

/// A value, or why it can't be read. Kept until the overlay has spoken, which may know better.
pub(super) type Value = Result<Vec<u8>, ReadError>;

/// The latest state of an engine, as its snapshots read it. Commits may run meanwhile.
pub(super) trait Tree: Send + Sync + 'static {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError>;

    /// The first rows of a range in the scan's direction; `limit` at most, fewer when they are large.
    fn page(&self, scan: &Scan<'_>) -> Result<Page, ReadError>;
}

/// Rows from the tree.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// In the direction of the scan.
    pub(super) rows: Vec<(Vec<u8>, Value)>,
    /// Whether the page ended before the range did. Only then does it answer for less than the whole range.
    pub(super) more: bool,
}

/// The old value of a key, or `None` when there was none.
type Old = Option<Arc<[u8]>>;

/// What has changed since a snapshot.
#[derive(Debug, Default)]
struct Overlay {
    rows: RwLock<BTreeMap<Vec<u8>, Old>>,
}

/// All live snapshots of an engine, and the gate between them and the commits.
#[derive(Debug, Default)]
pub(super) struct Preimages {
    gate: RwLock<()>,
    live: Mutex<Vec<Weak<Overlay>>>,
}

impl Preimages {
    /// Waits until no commit is running, and keeps new ones out while the guard lives.
    pub(super) fn between_commits(&self) -> Result<RwLockReadGuard<'_, ()>, ReadError> {
        self.gate.read().map_err(|_| ReadError::Unavailable(panicked()))
    }

    /// A view of `tree` as it is while `_between` is held.
    pub(super) fn snapshot<T: Tree>(&self, _between: &RwLockReadGuard<'_, ()>, tree: Arc<T>) -> View<T> {
        let overlay = Arc::new(Overlay::default());
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.retain(|overlay| overlay.strong_count() > 0);
        live.push(Arc::downgrade(&overlay));
        View { tree, overlay }
    }

    #[cfg(test)]
    pub(super) fn is_committing(&self) -> bool {
        self.gate.try_read().is_err()
    }

    /// Begins a commit: from here until the guard is dropped no snapshot begins.
    pub(super) fn commit(&self) -> io::Result<Commit<'_>> {
        let gate = self.gate.write().map_err(|_| panicked())?;
        Ok(Commit {
            preimages: self,
            _gate: gate,
        })
    }
}

/// A running commit.
pub(super) struct Commit<'p> {
    preimages: &'p Preimages,
    _gate: RwLockWriteGuard<'p, ()>,
}

impl Commit<'_> {
    /// Saves what `keys` hold for the live snapshots. Has to be done before the first of them is written.
    pub(super) fn save<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        mut read: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, ReadError>,
    ) -> Result<(), ReadError> {
        let overlays = self.overlays();
        if overlays.is_empty() {
            return Ok(());
        }
        for key in keys {
            let mut old: Option<Old> = None;
            for overlay in &overlays {
                let mut rows = overlay.rows.write().unwrap_or_else(PoisonError::into_inner);
                if rows.contains_key(key) {
                    continue;
                }
                let known = match &old {
                    Some(known) => known.clone(),
                    None => old.insert(read(key)?.map(Arc::from)).clone(),
                };
                rows.insert(key.to_vec(), known);
            }
        }
        Ok(())
    }

    fn overlays(&self) -> Vec<Arc<Overlay>> {
        let mut live = self.preimages.live.lock().unwrap_or_else(PoisonError::into_inner);
        let overlays: Vec<_> = live.iter().filter_map(Weak::upgrade).collect();
        if overlays.len() < live.len() {
            live.retain(|overlay| overlay.strong_count() > 0);
        }
        overlays
    }
}

/// A tree as it was.
pub(super) struct View<T> {
    tree: Arc<T>,
    overlay: Arc<Overlay>,
}

impl<T: Tree> Snapshot for View<T> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let latest = self.tree.get(key);
        let rows = self.overlay.rows.read().unwrap_or_else(PoisonError::into_inner);
        match rows.get(key) {
            Some(old) => Ok(old.as_deref().map(<[u8]>::to_vec)),
            None => latest,
        }
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let mut rest = Rest {
            start: scan.start.to_vec(),
            end: scan.end.to_vec(),
            rows: scan.limit,
        };
        while rest.rows > 0 && rest.start < rest.end {
            let limit = rest.rows.min(READ_ROWS_MAX);
            let part = Scan {
                start: &rest.start,
                end: &rest.end,
                direction: scan.direction,
                limit,
            };
            let page = self.tree.page(&part)?;
            let behind = rest.behind(&page, scan.direction);
            let covered = behind
                .as_ref()
                .map_or((&rest.start, &rest.end), |behind| match scan.direction {
                    Direction::Forward => (&rest.start, &behind.start),
                    Direction::Backward => (&behind.end, &rest.end),
                });
            let old = self.overlay.between(covered.0, covered.1, scan.direction);
            let Some(shown) = show(page.rows, old, scan.direction, rest.rows, visit)? else {
                return Ok(());
            };
            let Some(behind) = behind else { return Ok(()) };
            rest = Rest {
                rows: rest.rows - shown,
                ..behind
            };
        }
        Ok(())
    }
}

impl Overlay {
    /// The rows of a range, in the direction of the scan.
    fn between(&self, start: &[u8], end: &[u8], direction: Direction) -> Vec<(Vec<u8>, Old)> {
        let range = (Bound::Included(start), Bound::Excluded(end));
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        let between = rows
            .range::<[u8], _>(range)
            .map(|(key, old)| (key.clone(), old.clone()));
        match direction {
            Direction::Forward => between.collect(),
            Direction::Backward => between.rev().collect(),
        }
    }
}

/// What a scan still has to do.
struct Rest {
    start: Vec<u8>,
    end: Vec<u8>,
    rows: usize,
}

impl Rest {
    /// What lies behind a page, or `None` when the page answers for all of it.
    fn behind(&self, page: &Page, direction: Direction) -> Option<Self> {
        let (last, _) = page.rows.last().filter(|_| page.more)?;
        Some(match direction {
            Direction::Forward => Self {
                start: [last, [0].as_slice()].concat(),
                end: self.end.clone(),
                rows: 0,
            },
            Direction::Backward => Self {
                start: self.start.clone(),
                end: last.clone(),
                rows: 0,
            },
        })
    }
}

/// Shows the rows of a page, corrected by the overlay. Gives how many were shown, or `None` when `visit` broke off.
fn show(
    rows: Vec<(Vec<u8>, Value)>,
    old: Vec<(Vec<u8>, Old)>,
    direction: Direction,
    limit: usize,
    visit: &mut Visit<'_>,
) -> Result<Option<usize>, ReadError> {
    let (mut rows, mut old) = (rows.into_iter().peekable(), old.into_iter().peekable());
    let mut shown = 0;
    while shown < limit {
        let order = match (rows.peek(), old.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((key, _)), Some((old_key, _))) => match direction {
                Direction::Forward => key.cmp(old_key),
                Direction::Backward => old_key.cmp(key),
            },
        };
        let latest = if order == Ordering::Greater { None } else { rows.next() };
        let saved = if order == Ordering::Less { None } else { old.next() };
        let flow = match (latest, saved) {
            (_, Some((_, None))) => continue,
            (_, Some((key, Some(value)))) => visit(&key, &value),
            (Some((key, value)), None) => visit(&key, &value?),
            (None, None) => break,
        };
        shown += 1;
        if flow.is_break() {
            return Ok(None);
        }
    }
    Ok(Some(shown))
}

fn panicked() -> io::Error {
    io::Error::other("an earlier commit panicked: what is in memory may be half of it, reopen the store")
}

#[cfg(test)]
pub(super) mod tests;

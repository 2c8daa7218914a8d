//! Defects of an engine that writes well and reads badly.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bent::{Defect, Inner, Twist, behind, defect, let_others_run};
use crate::ids::Shard;
use crate::storage::engine::{CommitError, Direction, Group, ReadError, Scan, Snapshot, Visit};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        defect::<Reversed>(&[
            "scans::both_directions",
            "order::bytes_decide",
            "model::equals_a_sorted_map",
        ]),
        defect::<SignedOrder>(&["order::bytes_decide", "order::what_is_written_is_read"]),
        defect::<OneTooMany>(&["scans::limits_are_kept"]),
        defect::<OneTooFew>(&["scans::limits_are_kept", "snapshots::pages_join_to_the_whole"]),
        defect::<ZeroIsAll>(&["scans::limits_are_kept"]),
        defect::<EndIncluded>(&["scans::bounds_are_half_open", "scans::prefixes_are_isolated"]),
        defect::<StartExcluded>(&["scans::bounds_are_half_open", "scans::prefixes_are_isolated"]),
        defect::<BoundsSwapped>(&["scans::empty_ranges_show_nothing"]),
        defect::<DeafToBreak>(&["scans::a_break_ends_the_scan"]),
        defect::<StaleGet>(&["operations::get_sees_the_latest_commit"]),
        defect::<EmptySkipped>(&["operations::an_empty_value_is_present"]),
        defect::<Live>(&[
            "snapshots::later_commits_do_not_show",
            "snapshots::each_keeps_its_own_moment",
            "snapshots::pages_join_to_the_whole",
            "concurrency::pages_hold_still_under_writes",
        ]),
        defect::<Late>(&["snapshots::a_new_one_shows_the_latest_commit"]),
    ]
}

/// Scans run from the wrong end.
#[derive(Default)]
struct Reversed;

impl Twist for Reversed {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let direction = match scan.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        view.scan(&Scan { direction, ..*scan }, visit)
    }
}

/// Bytes past 7f come before the others.
#[derive(Default)]
struct SignedOrder;

impl Twist for SignedOrder {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let mut rows = Vec::new();
        view.scan(
            &Scan {
                limit: usize::MAX,
                ..*scan
            },
            &mut |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            },
        )?;
        rows.sort_by_key(|(key, _)| key.iter().map(|byte| byte.cast_signed()).collect::<Vec<_>>());
        if scan.direction == Direction::Backward {
            rows.reverse();
        }
        let _ = rows
            .iter()
            .take(scan.limit)
            .try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// The limit counts from zero.
#[derive(Default)]
struct OneTooMany;

impl Twist for OneTooMany {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(
            &Scan {
                limit: scan.limit.saturating_add(1),
                ..*scan
            },
            visit,
        )
    }
}

/// The limit is kept for a row that is never shown.
#[derive(Default)]
struct OneTooFew;

impl Twist for OneTooFew {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(
            &Scan {
                limit: scan.limit.saturating_sub(1),
                ..*scan
            },
            visit,
        )
    }
}

/// No rows are taken for no limit.
#[derive(Default)]
struct ZeroIsAll;

impl Twist for ZeroIsAll {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let limit = if scan.limit == 0 { usize::MAX } else { scan.limit };
        view.scan(&Scan { limit, ..*scan }, visit)
    }
}

/// The end is shown.
#[derive(Default)]
struct EndIncluded;

impl Twist for EndIncluded {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(
            &Scan {
                end: &behind(scan.end),
                ..*scan
            },
            visit,
        )
    }
}

/// The start is not shown.
#[derive(Default)]
struct StartExcluded;

impl Twist for StartExcluded {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(
            &Scan {
                start: &behind(scan.start),
                ..*scan
            },
            visit,
        )
    }
}

/// A range that ends before it starts is turned around.
#[derive(Default)]
struct BoundsSwapped;

impl Twist for BoundsSwapped {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let (start, end) = (scan.start.min(scan.end), scan.start.max(scan.end));
        view.scan(&Scan { start, end, ..*scan }, visit)
    }
}

/// The visitor may break as it likes.
#[derive(Default)]
struct DeafToBreak;

impl Twist for DeafToBreak {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(scan, &mut |key, value| {
            let _ = visit(key, value);
            ControlFlow::Continue(())
        })
    }
}

/// A cache that is never told.
#[derive(Default)]
struct StaleGet(Mutex<HashMap<Vec<u8>, Option<Vec<u8>>>>);

impl Twist for StaleGet {
    fn get(&self, inner: &Inner, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let value = inner.get(shard, key)?;
        Ok(self.0.lock().unwrap().entry(key.to_vec()).or_insert(value).clone())
    }
}

/// A row without a value is no row to a scan.
#[derive(Default)]
struct EmptySkipped;

impl Twist for EmptySkipped {
    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        view.scan(scan, &mut |key, value| {
            if value.is_empty() {
                ControlFlow::Continue(())
            } else {
                visit(key, value)
            }
        })
    }
}

/// A snapshot reads what is there when it is asked.
#[derive(Default)]
struct Live(std::sync::Arc<AtomicU64>);

impl Twist for Live {
    fn commit(&self, inner: &Inner, group: &Group<'_>) -> Result<(), CommitError> {
        inner.commit(group)?;
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn snapshot(&self, inner: &Inner, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        Ok(Box::new(Now(inner.clone(), shard)))
    }

    fn scan(&self, view: &dyn Snapshot, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        // So that the defect shows whichever way the threads are scheduled.
        let before = self.0.load(Ordering::SeqCst);
        if scan.limit < usize::MAX {
            let_others_run(|| self.0.load(Ordering::SeqCst) > before);
        }
        view.scan(scan, visit)
    }
}

struct Now(Inner, Shard);

impl Snapshot for Now {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.get(self.1, key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        self.0.snapshot(self.1)?.scan(scan, visit)
    }
}

/// A snapshot is prepared when the one before is asked for.
#[derive(Default)]
struct Late(Mutex<HashMap<Shard, Box<dyn Snapshot>>>);

impl Twist for Late {
    fn snapshot(&self, inner: &Inner, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        let prepared = self.0.lock().unwrap().insert(shard, inner.snapshot(shard)?);
        prepared.map_or_else(|| inner.snapshot(shard), Ok)
    }
}

//! A scan shows what its bounds, its limit and its visitor ask for, and nothing else.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::storage::engine::{Direction, Engine, Scan, Snapshot};
use crate::testing::conformance::bench::{Rows, SHARD, Writer, equal, key, same, scan, snapshot, unread, whole};
use crate::testing::conformance::{Subject, Verdict};

const BOTH: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Ten rows, `k0` to `k9`.
fn ten(engine: &Arc<dyn Engine>) -> Result<(Rows, Box<dyn Snapshot>), String> {
    let rows: Rows = (b'0'..=b'9').map(|digit| (key([b'k', digit]), vec![digit])).collect();
    Writer::new(engine)?.commit(|batch| rows.iter().for_each(|(key, value)| batch.set(key, value)))?;
    Ok((rows, snapshot(engine.as_ref(), SHARD)?))
}

/// The first rows as seen from the end at which the direction begins.
fn first(rows: &[(Vec<u8>, Vec<u8>)], direction: Direction, count: usize) -> Rows {
    match direction {
        Direction::Forward => rows.iter().take(count).cloned().collect(),
        Direction::Backward => rows.iter().rev().take(count).cloned().collect(),
    }
}

/// Smallest first and largest first.
pub(super) fn both_directions(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let (rows, view) = ten(&engine)?;
    let (start, end) = whole(SHARD);
    for direction in BOTH {
        let found = scan(view.as_ref(), (&start, &end), direction, usize::MAX)?;
        equal(
            &format!("a scan {direction:?}"),
            &found,
            &first(&rows, direction, usize::MAX),
        )?;
    }
    Ok(())
}

/// A limit of none, one, some, exactly all, and more than all.
pub(super) fn limits_are_kept(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let (rows, view) = ten(&engine)?;
    let (start, end) = whole(SHARD);
    for direction in BOTH {
        for limit in [0, 1, 2, 9, 10, 11, usize::MAX] {
            let found = scan(view.as_ref(), (&start, &end), direction, limit)?;
            equal(
                &format!("a scan {direction:?} with limit {limit}"),
                &found,
                &first(&rows, direction, limit),
            )?;
        }
    }
    Ok(())
}

/// The start is shown and the end is not, whether or not a row lies there, in both directions.
pub(super) fn bounds_are_half_open(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let (rows, view) = ten(&engine)?;
    let bounds: [(&[u8], &[u8], &[_]); 6] = [
        (b"k3", b"k6", &rows[3..6]),
        (b"k3", b"k4", &rows[3..4]),
        (b"k3\x00", b"k6\x00", &rows[4..7]),
        (b"k2\xff", b"k5\xff", &rows[3..6]),
        (b"", b"k1", &rows[..1]),
        (b"k9", b"\xff", &rows[9..]),
    ];
    for (start, end, expected) in bounds {
        for direction in BOTH {
            let found = scan(view.as_ref(), (&key(start), &key(end)), direction, usize::MAX)?;
            let what = format!("a scan {direction:?} of {start:?} to {end:?}");
            equal(&what, &found, &first(expected, direction, usize::MAX))?;
        }
    }
    Ok(())
}

/// A range that ends where or before it starts, or that has no rows, shows nothing and is no error.
pub(super) fn empty_ranges_show_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let (_, view) = ten(&engine)?;
    let bounds: [(&[u8], &[u8]); 6] = [
        (b"k3", b"k3"),
        (b"k6", b"k3"),
        (b"k3\x00", b"k3"),
        (b"l", b"k"),
        (b"k3\x00", b"k4"),
        (b"x", b"y"),
    ];
    for (start, end) in bounds {
        for direction in BOTH {
            let found = scan(view.as_ref(), (&key(start), &key(end)), direction, usize::MAX)?;
            equal(
                &format!("a scan {direction:?} of {start:?} to {end:?}"),
                &found,
                &Rows::new(),
            )?;
        }
    }
    Ok(())
}

/// A visitor that breaks is not called again, and the scan is done without an error.
pub(super) fn a_break_ends_the_scan(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let (_, view) = ten(&engine)?;
    let (start, end) = whole(SHARD);
    for direction in BOTH {
        for wanted in [1, 4, 10] {
            let mut calls = 0;
            let scan = Scan {
                start: &start,
                end: &end,
                direction,
                limit: usize::MAX,
            };
            let visited = view.scan(&scan, &mut |_, _| {
                calls += 1;
                if calls == wanted {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            visited.map_err(|error| unread("a scan that was broken off", &error))?;
            same(
                &format!("the number of visits {direction:?} when visit {wanted} breaks"),
                &calls,
                &wanted,
            )?;
        }
    }
    Ok(())
}

/// The range below a prefix holds what begins with it, and not its neighbours.
pub(super) fn prefixes_are_isolated(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let inside: [&[u8]; 4] = [b"pb", b"pb\x00", b"pba", b"pb\xff\xff"];
    let outside: [&[u8]; 5] = [b"p", b"pa", b"pa\xff\xff\xff", b"pc", b"q"];
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| inside.iter().chain(&outside).for_each(|end| batch.set(&key(end), end)))?;
    let expected: Rows = inside.iter().map(|end| (key(end), end.to_vec())).collect();
    let view = snapshot(engine.as_ref(), SHARD)?;
    for direction in BOTH {
        let found = scan(view.as_ref(), (&key(b"pb"), &key(b"pc")), direction, usize::MAX)?;
        equal(
            &format!("a scan {direction:?} of a prefix"),
            &found,
            &first(&expected, direction, usize::MAX),
        )?;
    }
    Ok(())
}

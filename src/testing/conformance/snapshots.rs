//! A snapshot is a moment: nothing that is committed later shows in it.

use crate::storage::engine::{Direction, Snapshot};
use crate::testing::conformance::bench::{
    Rows, SHARD, Writer, all_of, equal, has, key, rows, same, scan, snapshot, unread, whole,
};
use crate::testing::conformance::{Subject, Verdict};

/// What was set, overwritten and deleted later is as it was, by get and by scan.
pub(super) fn later_commits_do_not_show(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| {
        ["a", "b", "c", "d"]
            .iter()
            .for_each(|end| batch.set(&key(end), b"before"));
    })?;
    let before = rows(engine.as_ref(), SHARD)?;
    let view = snapshot(engine.as_ref(), SHARD)?;
    writer.commit(|batch| {
        batch.set(&key("a"), b"after");
        batch.delete(&key("b"));
        batch.delete_range(&key("c"), &key("e"));
        batch.set(&key("new"), b"after");
    })?;
    for end in ["a", "b", "c", "d"] {
        let found = view
            .get(&key(end))
            .map_err(|error| unread("get of the snapshot", &error))?;
        has("the snapshot", &key(end), found.as_deref(), Some(b"before"))?;
    }
    let found = view
        .get(&key("new"))
        .map_err(|error| unread("get of the snapshot", &error))?;
    has("the snapshot", &key("new"), found.as_deref(), None)?;
    equal("a scan of the snapshot", &all_of(view.as_ref(), SHARD)?, &before)
}

/// Several snapshots live side by side, each with the commits before it, and a takeover changes none of them.
pub(super) fn each_keeps_its_own_moment(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut views: Vec<Box<dyn Snapshot>> = vec![snapshot(engine.as_ref(), SHARD)?];
    let mut writer = Writer::new(&engine)?;
    for number in 0..8_u8 {
        writer.commit(|batch| batch.set(&key([number]), &[number]))?;
        views.push(snapshot(engine.as_ref(), SHARD)?);
        if number == 4 {
            writer = Writer::acquire(&engine, SHARD, 2)?;
        }
    }
    for (count, view) in views.iter().enumerate() {
        let expected: Rows = (0..8_u8)
            .take(count)
            .map(|number| (key([number]), vec![number]))
            .collect();
        equal(
            &format!("the snapshot after {count} commits"),
            &all_of(view.as_ref(), SHARD)?,
            &expected,
        )?;
    }
    Ok(())
}

/// A snapshot that is taken after a commit returned shows it.
pub(super) fn a_new_one_shows_the_latest_commit(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    for number in 0..20_u8 {
        writer.commit(|batch| batch.set(&key("a"), &[number]))?;
        let expected = vec![(key("a"), vec![number])];
        equal("a new snapshot", &rows(engine.as_ref(), SHARD)?, &expected)?;
    }
    Ok(())
}

/// Pages of every size, each beginning where the one before ended, are together the whole, in both directions, while
/// rows are set and deleted between two pages.
pub(super) fn pages_join_to_the_whole(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let all: Vec<[u8; 2]> = (0..40_u8).map(|number| [number / 8, number % 8 * 32]).collect();
    writer.commit(|batch| all.iter().for_each(|end| batch.set(&key(end), end)))?;
    for rows_max in [1, 3, 40, 41] {
        let view = snapshot(engine.as_ref(), SHARD)?;
        let mut expected = all_of(view.as_ref(), SHARD)?;
        for direction in [Direction::Forward, Direction::Backward] {
            let mut turn = 0_u8;
            let found = pages(view.as_ref(), direction, rows_max, || {
                turn = turn.wrapping_add(1);
                writer.commit(|batch| {
                    batch.delete(&key([turn % 5, 32]));
                    batch.set(&key([turn % 5, 33, turn]), b"new");
                })
            })?;
            equal(&format!("pages of {rows_max} {direction:?}"), &found, &expected)?;
            expected.reverse();
        }
    }
    Ok(())
}

/// Reads everything page by page, and calls `between` behind each of them.
pub(super) fn pages(
    view: &dyn Snapshot,
    direction: Direction,
    rows_max: usize,
    mut between: impl FnMut() -> Verdict,
) -> Result<Rows, String> {
    let (mut start, mut end) = whole(SHARD);
    let mut found = Rows::new();
    loop {
        let page = scan(view, (&start, &end), direction, rows_max)?;
        let Some((last, _)) = page.last() else {
            return Ok(found);
        };
        same("whether the page is within its limit", &(page.len() <= rows_max), &true)?;
        match direction {
            Direction::Forward => start = [last.as_slice(), &[0]].concat(),
            Direction::Backward => end.clone_from(last),
        }
        found.extend(page);
        between()?;
    }
}

//! A group that is refused leaves nothing behind: no row, no deletion, no step forward.

use crate::storage::batch::Batch;
use crate::storage::engine::{CommitError, Engine};
use crate::testing::conformance::bench::{SHARD, Writer, batch, conflict, equal, fenced, key, rows, too_large};
use crate::testing::conformance::bounds::{group_of, key_of};
use crate::testing::conformance::{Subject, Verdict};

/// Rows that a refused group would have changed, deleted and hidden.
fn filled(engine: &std::sync::Arc<dyn Engine>) -> Result<Writer, String> {
    let mut writer = Writer::new(engine)?;
    writer.commit(|batch| {
        ["a", "b", "c", "d"]
            .iter()
            .for_each(|end| batch.set(&key(end), b"before"));
    })?;
    Ok(writer)
}

/// Batches that touch all of those rows, and then `last`.
fn touching(last: impl FnOnce(&mut Batch)) -> Vec<Batch> {
    let first = batch(|batch| {
        batch.set(&key("a"), b"after");
        batch.delete(&key("b"));
        batch.set(&key("new"), b"after");
    });
    vec![
        first,
        batch(|batch| batch.delete_range(&key("c"), &key("d"))),
        batch(last),
    ]
}

/// Offers the batches, lets `judge` look at the refusal, and checks that all is as it was and goes on.
fn untouched(
    mut writer: Writer,
    offered: impl FnOnce(&Writer) -> Result<(), CommitError>,
    judge: impl FnOnce(Result<(), CommitError>) -> Verdict,
) -> Verdict {
    let engine = writer.engine.clone();
    let before = rows(engine.as_ref(), SHARD)?;
    judge(offered(&writer))?;
    equal("a scan after the refusal", &rows(engine.as_ref(), SHARD)?, &before)?;
    writer.stands()?;
    writer.commit(|batch| batch.set(&key("e"), b"next"))?;
    let mut after = before;
    after.push((key("e"), b"next".to_vec()));
    equal("a scan after the next commit", &rows(engine.as_ref(), SHARD)?, &after)
}

/// A conflict in front of three batches.
pub(super) fn a_conflict_writes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let writer = filled(&engine)?;
    let mut astray = writer.clone();
    astray.position.sequence = 9;
    untouched(
        writer,
        |_| astray.offer(&touching(|_| {})),
        |answer| conflict("a group at commit 9", answer, 9, 1),
    )
}

/// A fence in front of three batches.
pub(super) fn a_fenced_group_writes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let stale = filled(&engine)?;
    let writer = Writer::acquire(&engine, SHARD, 2)?;
    let (held, carried) = (writer.lease.epoch, stale.lease.epoch);
    untouched(
        writer,
        |_| stale.offer(&touching(|_| {})),
        |answer| fenced("a stale group", answer, held, carried),
    )
}

/// The last operation of the last batch has a key that is too long.
pub(super) fn a_group_with_a_large_key_writes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let long = key_of(engine.limits().key_bytes_max + 1);
    let group = touching(|batch| batch.set(&long, b"after"));
    untouched(
        filled(&engine)?,
        |writer| writer.offer(&group),
        |answer| too_large("a group with a long key", answer),
    )
}

/// The last operation of the last batch has a value that is too large.
pub(super) fn a_group_with_a_large_value_writes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let large = vec![0; engine.limits().value_bytes_max + 1];
    let group = touching(|batch| batch.set(&key("z"), &large));
    untouched(
        filled(&engine)?,
        |writer| writer.offer(&group),
        |answer| too_large("a group with a large value", answer),
    )
}

/// Every operation is small enough, and all together are not.
pub(super) fn a_group_that_is_too_large_writes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut group = touching(|_| {});
    group.extend(group_of(engine.limits().group_bytes_max, &engine));
    untouched(
        filled(&engine)?,
        |writer| writer.offer(&group),
        |answer| too_large("a large group", answer),
    )
}

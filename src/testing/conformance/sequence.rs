//! A group is applied exactly where it says it belongs, and once.

use crate::storage::batch::Batch;
use crate::storage::engine::{Group, Position};
use crate::testing::conformance::bench::{SHARD, Writer, batch, conflict, holds, key, same, told};
use crate::testing::conformance::{Subject, Verdict};

/// An empty shard stands at the beginning; a commit moves it to where the group says, however many batches it has.
pub(super) fn commits_move_the_position(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    same("the position of an empty shard", &writer.position, &Position::default())?;
    writer.stands()?;
    for batches in [1, 3, 1, 20] {
        let group: Vec<Batch> = (0..batches)
            .map(|_| batch(|batch| batch.set(&key("a"), b"1")))
            .collect();
        writer.group(&group)?;
        writer.stands()?;
    }
    same("the sequence", &writer.position.sequence, &25)?;
    // The chain is a hash: any number may come up.
    for chain in [u64::MAX, 0, 1 << 63] {
        let next = Position {
            sequence: writer.position.sequence + 1,
            chain,
        };
        let group = Group {
            lease: writer.lease,
            expected: writer.position,
            next,
            batches: &[Batch::new()],
        };
        engine
            .commit(&group)
            .map_err(|error| told(&format!("a commit with chain {chain}"), &error))?;
        writer.position = next;
        writer.stands()?;
    }
    same(
        "the position of the next lease",
        &Writer::acquire(&engine, SHARD, 2)?.position,
        &writer.position,
    )
}

/// A group that expects another sequence, before or behind, is a conflict and writes nothing.
pub(super) fn a_wrong_sequence_is_a_conflict(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    writer.commit(|batch| batch.set(&key("a"), b"2"))?;
    for wrong in [0, 1, 3, u64::MAX - 1] {
        let mut astray = writer.clone();
        astray.position.sequence = wrong;
        let answer = astray.offer(&[batch(|batch| batch.set(&key("a"), b"wrong"))]);
        conflict(&format!("a commit that expects sequence {wrong}"), answer, wrong, 2)?;
        writer.stands()?;
    }
    holds(engine.as_ref(), &[(b"a", b"2")])?;
    writer.commit(|batch| batch.set(&key("a"), b"3"))?;
    holds(engine.as_ref(), &[(b"a", b"3")])
}

/// A group that expects the right sequence of another past is a conflict.
pub(super) fn a_wrong_chain_is_a_conflict(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    let mut astray = writer.clone();
    astray.position.chain ^= 1;
    let answer = astray.offer(&[batch(|batch| batch.set(&key("a"), b"wrong"))]);
    conflict("a commit that expects another chain", answer, 1, 1)?;
    holds(engine.as_ref(), &[(b"a", b"1")])?;
    writer.stands()
}

/// A group that is handed over again, because its outcome was not known, is a conflict: it is never applied twice.
pub(super) fn a_group_is_not_applied_twice(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let first = [batch(|batch| batch.set(&key("a"), b"1"))];
    let before = writer.clone();
    writer.group(&first)?;
    conflict("the same group again", before.offer(&first), 0, 1)?;
    writer.commit(|batch| batch.delete(&key("a")))?;
    conflict("the same group after another", before.offer(&first), 0, 2)?;
    holds(engine.as_ref(), &[])?;
    writer.stands()
}

/// A commit without operations is a commit.
pub(super) fn an_empty_batch_moves_the_position(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let before = writer.clone();
    writer.commit(|_| {})?;
    writer.stands()?;
    conflict("a commit from before", before.offer(&[Batch::new()]), 0, 1)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    holds(engine.as_ref(), &[(b"a", b"1")])
}

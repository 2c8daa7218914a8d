//! Shards share a store and nothing else.

use crate::ids::Shard;
use crate::limits::SHARDS_MAX;
use crate::testing::conformance::bench::{
    Rows, Writer, batch, conflict, fenced, get_in, has, holds_rows, key_in, same, whole,
};
use crate::testing::conformance::{Subject, Verdict};

const LEFT: Shard = Shard(1);
const RIGHT: Shard = Shard(2);

/// The same end of a key in two shards is two rows; deleting all of one shard leaves the other.
pub(super) fn rows_are_apart(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut left = Writer::acquire(&engine, LEFT, 1)?;
    let mut right = Writer::acquire(&engine, RIGHT, 1)?;
    let ends: [&[u8]; 3] = [b"", b"a", b"\xff\xff"];
    left.commit(|batch| ends.iter().for_each(|end| batch.set(&key_in(LEFT, end), b"left")))?;
    right.commit(|batch| ends.iter().for_each(|end| batch.set(&key_in(RIGHT, end), b"right")))?;
    let rows = |shard, value: &[u8]| -> Rows { ends.map(|end| (key_in(shard, end), value.to_vec())).to_vec() };
    holds_rows(engine.as_ref(), LEFT, &rows(LEFT, b"left"))?;
    holds_rows(engine.as_ref(), RIGHT, &rows(RIGHT, b"right"))?;
    let (start, end) = whole(LEFT);
    left.commit(|batch| batch.delete_range(&start, &end))?;
    holds_rows(engine.as_ref(), LEFT, &Rows::new())?;
    holds_rows(engine.as_ref(), RIGHT, &rows(RIGHT, b"right"))
}

/// A commit in one shard does not move another.
pub(super) fn positions_are_apart(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut left = Writer::acquire(&engine, LEFT, 1)?;
    let mut right = Writer::acquire(&engine, RIGHT, 1)?;
    for number in 0..3_u8 {
        left.commit(|batch| batch.set(&key_in(LEFT, "a"), &[number]))?;
    }
    right.stands()?;
    right.commit(|batch| batch.set(&key_in(RIGHT, "a"), b"1"))?;
    left.stands()?;
    right.stands()?;
    let mut astray = right.clone();
    astray.position = left.position;
    let answer = astray.offer(&[batch(|batch| batch.set(&key_in(RIGHT, "a"), b"2"))]);
    conflict("a commit at the position of another shard", answer, 3, 1)
}

/// Taking one shard does not fence another, and a lease is good for its own shard only.
pub(super) fn fences_are_apart(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut left = Writer::acquire(&engine, LEFT, 1)?;
    let mut right = Writer::acquire(&engine, RIGHT, 1)?;
    let takeover = Writer::acquire(&engine, LEFT, 2)?;
    let answer = left.offer(&[batch(|batch| batch.set(&key_in(LEFT, "a"), b"late"))]);
    fenced(
        "a commit of the old owner",
        answer,
        takeover.lease.epoch,
        left.lease.epoch,
    )?;
    right.commit(|batch| batch.set(&key_in(RIGHT, "a"), b"1"))?;
    right.stands()?;
    left = Writer::acquire(&engine, LEFT, 3)?;
    let mut strange = left.clone();
    strange.lease.shard = RIGHT;
    let answer = strange.offer(&[batch(|batch| batch.set(&key_in(RIGHT, "a"), b"strange"))]);
    fenced(
        "a commit with the lease of another shard",
        answer,
        right.lease.epoch,
        left.lease.epoch,
    )
}

/// The first and the last shard, and those where the packed number grows by a byte.
pub(super) fn every_number_works(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let shards = [0, 1, 255, 256, 257, SHARDS_MAX - 1].map(Shard);
    let mut writers = Vec::new();
    for shard in shards {
        let mut writer = Writer::acquire(&engine, shard, 1)?;
        writer.commit(|batch| batch.set(&key_in(shard, "a"), &shard.0.to_be_bytes()))?;
        writers.push(writer);
    }
    for writer in &writers {
        let shard = writer.lease.shard;
        writer.stands()?;
        let key = key_in(shard, "a");
        has(
            "the engine",
            &key,
            get_in(engine.as_ref(), shard, &key)?.as_deref(),
            Some(&shard.0.to_be_bytes()),
        )?;
        holds_rows(engine.as_ref(), shard, &vec![(key, shard.0.to_be_bytes().to_vec())])?;
        same("the sequence", &writer.position.sequence, &1)?;
    }
    Ok(())
}

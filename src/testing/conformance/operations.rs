//! What set, delete and delete range do, and which of them wins.

use crate::testing::conformance::bench::{SHARD, Writer, batch, get, has, holds, key, rows, same};
use crate::testing::conformance::{Subject, Verdict};

/// A read after a commit sees it; a key that was never set holds nothing, also in a shard that nobody took.
pub(super) fn get_sees_the_latest_commit(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    has(
        "an empty store",
        &key("a"),
        get(engine.as_ref(), &key("a"))?.as_deref(),
        None,
    )?;
    same("the rows of an empty store", &rows(engine.as_ref(), SHARD)?.len(), &0)?;
    let mut writer = Writer::new(&engine)?;
    for value in 0..20_u8 {
        writer.commit(|batch| batch.set(&key("a"), &[value]))?;
        has(
            "the engine",
            &key("a"),
            get(engine.as_ref(), &key("a"))?.as_deref(),
            Some(&[value]),
        )?;
    }
    has(
        "the engine",
        &key("b"),
        get(engine.as_ref(), &key("b"))?.as_deref(),
        None,
    )
}

/// An empty value is a value: present, and shown by scans.
pub(super) fn an_empty_value_is_present(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| {
        batch.set(&key("a"), b"");
        batch.set(&key("b"), b"full");
    })?;
    holds(engine.as_ref(), &[(b"a", b""), (b"b", b"full")])?;
    writer.commit(|batch| {
        batch.set(&key("a"), b"full");
        batch.set(&key("b"), b"");
    })?;
    holds(engine.as_ref(), &[(b"a", b"full"), (b"b", b"")])
}

/// A delete removes its key and no other; to delete what is not there is no error.
pub(super) fn delete_removes_one_key(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| ["a", "aa", "b"].iter().for_each(|end| batch.set(&key(end), b"1")))?;
    writer.commit(|batch| batch.delete(&key("a")))?;
    writer.commit(|batch| batch.delete(&key("nothing")))?;
    has(
        "the engine",
        &key("a"),
        get(engine.as_ref(), &key("a"))?.as_deref(),
        None,
    )?;
    holds(engine.as_ref(), &[(b"aa", b"1"), (b"b", b"1")])
}

/// A deleted range takes its start with it and leaves its end.
pub(super) fn delete_range_is_half_open(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let ends: [&[u8]; 7] = [b"a", b"b", b"b\x00", b"b\xff", b"c", b"c\x00", b"d"];
    writer.commit(|batch| ends.iter().for_each(|end| batch.set(&key(end), b"1")))?;
    writer.commit(|batch| batch.delete_range(&key("b"), &key("c")))?;
    for gone in &ends[1..4] {
        has(
            "the engine",
            &key(gone),
            get(engine.as_ref(), &key(gone))?.as_deref(),
            None,
        )?;
    }
    holds(
        engine.as_ref(),
        &[(b"a", b"1"), (b"c", b"1"), (b"c\x00", b"1"), (b"d", b"1")],
    )
}

/// A range that ends where or before it starts deletes nothing, and the rest of its commit counts.
pub(super) fn an_empty_range_deletes_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| ["a", "b", "c"].iter().for_each(|end| batch.set(&key(end), b"1")))?;
    writer.commit(|batch| {
        batch.delete_range(&key("b"), &key("b"));
        batch.delete_range(&key("c"), &key("a"));
        batch.set(&key("d"), b"2");
    })?;
    holds(
        engine.as_ref(),
        &[(b"a", b"1"), (b"b", b"1"), (b"c", b"1"), (b"d", b"2")],
    )
}

/// What is set behind a deleted range in the same commit stays: old rows go, new ones come.
pub(super) fn set_after_delete_range_stays(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| ["a", "b", "c"].iter().for_each(|end| batch.set(&key(end), b"old")))?;
    writer.commit(|batch| {
        batch.delete_range(&key("a"), &key("z"));
        batch.set(&key("b"), b"new");
        batch.set(&key("d"), b"new");
    })?;
    holds(engine.as_ref(), &[(b"b", b"new"), (b"d", b"new")])
}

/// What is set in front of a deleted range in the same group goes with it, also from an earlier batch.
pub(super) fn delete_range_after_set_removes(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| {
        batch.set(&key("b"), b"1");
        batch.set(&key("z"), b"1");
        batch.delete_range(&key("a"), &key("c"));
    })?;
    holds(engine.as_ref(), &[(b"z", b"1")])?;
    let earlier = batch(|batch| ["b", "bb", "y"].iter().for_each(|end| batch.set(&key(end), b"2")));
    let later = batch(|batch| {
        batch.delete_range(&key("a"), &key("c"));
        batch.set(&key("bb"), b"3");
    });
    writer.group(&[earlier, later])?;
    holds(engine.as_ref(), &[(b"bb", b"3"), (b"y", b"2"), (b"z", b"1")])
}

/// Of several operations on one key in a batch the last one counts.
pub(super) fn the_last_operation_wins(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| {
        batch.set(&key("a"), b"1");
        batch.set(&key("a"), b"2");
        batch.set(&key("b"), b"1");
        batch.delete(&key("b"));
        batch.delete(&key("c"));
        batch.set(&key("c"), b"3");
        batch.set(&key("d"), b"1");
        batch.delete_range(&key("d"), &key("e"));
        batch.set(&key("d"), b"4");
        batch.delete_range(&key("e"), &key("f"));
        batch.set(&key("e"), b"1");
        batch.delete(&key("e"));
    })?;
    holds(engine.as_ref(), &[(b"a", b"2"), (b"c", b"3"), (b"d", b"4")])
}

/// Of several batches of one group with the same key the last one counts.
pub(super) fn the_last_batch_wins(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let first = batch(|batch| ["a", "b", "c"].iter().for_each(|end| batch.set(&key(end), b"first")));
    let second = batch(|batch| {
        batch.set(&key("a"), b"second");
        batch.delete(&key("b"));
        batch.delete(&key("d"));
    });
    let third = batch(|batch| {
        batch.set(&key("b"), b"third");
        batch.set(&key("d"), b"third");
        batch.delete(&key("c"));
    });
    writer.group(&[first, second, third])?;
    holds(
        engine.as_ref(),
        &[(b"a", b"second"), (b"b", b"third"), (b"d", b"third")],
    )?;
    writer.stands()
}

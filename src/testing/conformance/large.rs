//! Values up to the largest, whichever way an engine stores them: an engine that cuts them into pieces must not show
//! a piece, leave one behind, or confuse one with a neighbour.

use crate::limits::VALUE_BYTES_MAX;
use crate::storage::engines::faulty::Splitmix;
use crate::testing::conformance::bench::{Rows, SHARD, Writer, get, has, holds_rows, key};
use crate::testing::conformance::{Subject, Verdict};

/// Sizes around the places where an engine may begin to store a value in another way.
const SIZES: [usize; 12] = [
    1, 4_095, 4_096, 65_535, 65_536, 65_537, 99_999, 100_000, 131_071, 131_073, 262_145, 1_048_577,
];

/// Bytes without a period, so that a piece in the wrong place shows.
pub(super) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = Splitmix::new(seed);
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// Many sizes side by side in one store.
pub(super) fn values_of_every_size(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let max = engine.limits().value_bytes_max;
    let sizes = SIZES.into_iter().filter(|size| *size <= max);
    let rows: Rows = sizes
        .map(|size| (key((size as u64).to_be_bytes()), pattern(size, size as u64)))
        .collect();
    for (key, value) in &rows {
        writer.commit(|batch| batch.set(key, value))?;
    }
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    let (start, end) = (&rows[2].0, &rows[rows.len() - 2].0);
    writer.commit(|batch| batch.delete_range(start, end))?;
    let left: Rows = rows[..2].iter().chain(&rows[rows.len() - 2..]).cloned().collect();
    holds_rows(engine.as_ref(), SHARD, &left)
}

/// One key goes from small to large and back, over deletion and in one commit too.
pub(super) fn large_and_small_take_turns(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let max = engine.limits().value_bytes_max.min(VALUE_BYTES_MAX);
    let key = key("turns");
    for (turn, size) in [3, max, 0, max / 2, 200_000.min(max), max, 1].into_iter().enumerate() {
        let value = pattern(size, turn as u64);
        writer.commit(|batch| batch.set(&key, &value))?;
        holds_rows(engine.as_ref(), SHARD, &vec![(key.clone(), value)])?;
    }
    let (large, larger) = (pattern(max / 4, 97), pattern(max / 3, 98));
    writer.commit(|batch| {
        batch.set(&key, &larger);
        batch.delete(&key);
        batch.set(&key, &large);
    })?;
    holds_rows(engine.as_ref(), SHARD, &vec![(key.clone(), large)])?;
    writer.commit(|batch| batch.delete(&key))?;
    has("the engine", &key, get(engine.as_ref(), &key)?.as_deref(), None)?;
    holds_rows(engine.as_ref(), SHARD, &Rows::new())
}

/// Keys that begin with the key of a large value are rows of their own, before, while and after it is there.
pub(super) fn neighbours_of_a_large_value_stay(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let max = engine.limits().value_bytes_max.min(VALUE_BYTES_MAX);
    let ends: [&[u8]; 9] = [
        b"l",
        b"large\x00",
        b"large\x00\x00",
        b"large\x00\x00\x00\x00",
        b"large\x00\x00\x00\x01",
        b"large\x01",
        b"large\xff",
        b"large\xff\xff\xff\xff",
        b"largf",
    ];
    let mut rows: Rows = ends.iter().map(|end| (key(end), end.to_vec())).collect();
    writer.commit(|batch| rows.iter().for_each(|(key, value)| batch.set(key, value)))?;
    for (turn, size) in [max / 2, 5, max / 4].into_iter().enumerate() {
        let large = (key("large"), pattern(size, turn as u64));
        writer.commit(|batch| batch.set(&large.0, &large.1))?;
        rows.insert(1, large);
        holds_rows(engine.as_ref(), SHARD, &rows)?;
        rows.remove(1);
    }
    writer.commit(|batch| batch.delete(&key("large")))?;
    holds_rows(engine.as_ref(), SHARD, &rows)
}

/// Both bounds at once.
pub(super) fn the_largest_value_behind_the_longest_key(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let limits = engine.limits();
    let mut end = key("");
    end.resize(limits.key_bytes_max, 0xff);
    let value = pattern(limits.value_bytes_max.min(limits.group_bytes_max - end.len()), 5);
    Writer::new(&engine)?.commit(|batch| batch.set(&end, &value))?;
    holds_rows(engine.as_ref(), SHARD, &vec![(end, value)])
}

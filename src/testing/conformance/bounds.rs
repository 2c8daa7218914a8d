//! What an engine says it takes, it takes; one byte more it refuses, and writes nothing.

use std::sync::Arc;

use crate::limits::{GROUP_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::storage::batch::Batch;
use crate::storage::engine::Engine;
use crate::testing::conformance::bench::{Rows, SHARD, Writer, batch, holds_rows, key, key_in, same, too_large};
use crate::testing::conformance::large::pattern;
use crate::testing::conformance::{Subject, Verdict};

/// Bytes past which a group is no bound any more, and can't be tried.
const GROUP_BYTES_TRIED_MAX: usize = 256 * 1024 * 1024;

/// A key of exactly that many bytes.
pub(super) fn key_of(bytes: usize) -> Vec<u8> {
    let mut long = key("long");
    long.resize(bytes, 0x5a);
    long
}

/// Two batches of exactly that many bytes, keys and values together, with rows that are not over their own limits.
pub(super) fn group_of(bytes: usize, engine: &Arc<dyn Engine>) -> Vec<Batch> {
    let value_max = engine.limits().value_bytes_max;
    let value = pattern(value_max.min(bytes), 11);
    let mut batches = vec![Batch::new(), Batch::new()];
    let (mut left, mut number) = (bytes, 0_u32);
    let key_bytes = key_in(SHARD, number.to_be_bytes()).len();
    while left > 0 {
        // The last row must have room for its key, so the one before leaves it some.
        let room = if left <= key_bytes + value_max {
            left
        } else {
            left - key_bytes
        };
        let size = (room - key_bytes).min(value_max);
        batches[number as usize % 2].set(&key_in(SHARD, number.to_be_bytes()), &value[..size]);
        left -= key_bytes + size;
        number += 1;
    }
    batches
}

/// What the layer above hands over fits: the longest key, the largest value and the largest group of this crate.
pub(super) fn limits_are_enough(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let limits = engine.limits();
    let bounds = [
        ("key", limits.key_bytes_max, KEY_BYTES_MAX),
        ("value", limits.value_bytes_max, VALUE_BYTES_MAX),
        ("group", limits.group_bytes_max, GROUP_BYTES_MAX),
    ];
    for (what, found, least) in bounds {
        if found < least {
            return Err(format!("a {what} may have {found} bytes, at least {least} are needed"));
        }
    }
    if limits.group_bytes_max > GROUP_BYTES_TRIED_MAX {
        return Err(format!(
            "a group of {} bytes is no bound, expected one that can be tried",
            limits.group_bytes_max
        ));
    }
    if limits.key_bytes_max.saturating_add(limits.value_bytes_max) > limits.group_bytes_max {
        return Err("the longest key with the largest value does not fit into a group".into());
    }
    same("the limits when asked again", &engine.limits(), &limits)
}

/// A key at the limit is written and read; a longer one is too large in every operation.
pub(super) fn the_longest_key_fits(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let (longest, longer) = (
        key_of(engine.limits().key_bytes_max),
        key_of(engine.limits().key_bytes_max + 1),
    );
    writer.commit(|batch| batch.set(&longest, b"1"))?;
    let rows: Rows = vec![(longest.clone(), b"1".to_vec())];
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    too_large(
        "a set of a longer key",
        writer.offer(&[batch(|batch| batch.set(&longer, b"2"))]),
    )?;
    too_large(
        "a delete of a longer key",
        writer.offer(&[batch(|batch| batch.delete(&longer))]),
    )?;
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    writer.stands()?;
    writer.commit(|batch| batch.delete(&longest))?;
    holds_rows(engine.as_ref(), SHARD, &Rows::new())
}

/// A value at the limit is written and read; a larger one is too large.
pub(super) fn the_largest_value_fits(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let mut value = pattern(engine.limits().value_bytes_max, 3);
    writer.commit(|batch| batch.set(&key("v"), &value))?;
    let rows: Rows = vec![(key("v"), value.clone())];
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    value.push(0);
    too_large(
        "a larger value",
        writer.offer(&[batch(|batch| batch.set(&key("v"), &value))]),
    )?;
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    writer.stands()
}

/// A group at the limit is written and read; a larger one is too large. What counts is the bytes of all its batches.
pub(super) fn the_largest_group_fits(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let max = engine.limits().group_bytes_max;
    let larger = group_of(max + 1, &engine);
    same(
        "the bytes of the larger group",
        &larger.iter().map(Batch::bytes).sum(),
        &(max + 1),
    )?;
    too_large("a larger group", writer.offer(&larger))?;
    holds_rows(engine.as_ref(), SHARD, &Rows::new())?;
    writer.stands()?;
    drop(larger);
    let largest = group_of(max, &engine);
    let mut rows: Rows = largest.iter().flat_map(rows_of).collect();
    rows.sort();
    writer.group(&largest)?;
    holds_rows(engine.as_ref(), SHARD, &rows)?;
    writer.stands()
}

fn rows_of(batch: &Batch) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    use crate::storage::batch::Operation;
    batch.operations().filter_map(|operation| match operation {
        Operation::Set { key, value } => Some((key.to_vec(), value.to_vec())),
        Operation::Delete { .. } | Operation::DeleteRange { .. } => None,
    })
}

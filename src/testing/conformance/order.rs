//! Keys are ordered by their bytes, and by nothing else.

use crate::storage::engine::Direction;
use crate::testing::conformance::bench::{Rows, SHARD, Writer, equal, holds_rows, key, scan, snapshot, whole};
use crate::testing::conformance::{Subject, Verdict};

/// Ends of keys in the order that an engine must keep. The first one is empty: the bare room.
const ENDS: &[&[u8]] = &[
    b"",
    &[0x00],
    &[0x00, 0x00],
    &[0x00, 0x00, 0x00],
    &[0x00, 0x01],
    &[0x00, 0xff],
    &[0x01],
    b"A",
    b"a",
    &[b'a', 0x00],
    &[b'a', 0x00, b'b'],
    b"aa",
    b"ab",
    &[b'a', 0xff],
    b"b",
    &[0x7f],
    &[0x7f, 0xff],
    &[0x80],
    &[0xc3, 0x28],
    &[0xfe, 0xff],
    &[0xff],
    &[0xff, 0x00],
    &[0xff, 0xfe],
    &[0xff, 0xff],
    &[0xff, 0xff, 0xff],
];

/// Writes the ends in an order far from their own, each with its number as the value; gives the rows in order.
fn scattered(writer: &mut Writer, ends: &[&[u8]]) -> Result<Rows, String> {
    let ordered: Rows = ends
        .iter()
        .enumerate()
        .map(|(at, end)| (key(end), vec![u8_of(at)]))
        .collect();
    // Seven shares no factor with the length of any list here, so this visits every row once.
    for step in 0..ordered.len() {
        let (key, value) = &ordered[(step * 7 + 3) % ordered.len()];
        writer.commit(|batch| batch.set(key, value))?;
    }
    Ok(ordered)
}

fn u8_of(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(u8::MAX)
}

/// Bytes compare as unsigned numbers, 00 first and ff last, text or not.
pub(super) fn bytes_decide(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let ordered = scattered(&mut Writer::new(&engine)?, ENDS)?;
    let (start, end) = whole(SHARD);
    let view = snapshot(engine.as_ref(), SHARD)?;
    let found = scan(view.as_ref(), (&start, &end), Direction::Forward, usize::MAX)?;
    equal("a forward scan", &found, &ordered)?;
    let found = scan(view.as_ref(), (&start, &end), Direction::Backward, usize::MAX)?;
    equal("a backward scan", &found, &ordered.into_iter().rev().collect())
}

/// A key that is the beginning of another one is a key of its own, and comes before it.
pub(super) fn a_prefix_comes_first(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let long = [0x00; 64];
    let ends: Vec<&[u8]> = (0..=long.len()).map(|length| &long[..length]).collect();
    let mut ordered = scattered(&mut writer, &ends)?;
    holds_rows(engine.as_ref(), SHARD, &ordered)?;
    let (gone, _) = ordered.remove(10);
    writer.commit(|batch| batch.delete(&gone))?;
    holds_rows(engine.as_ref(), SHARD, &ordered)
}

/// Every byte may stand in a key and in a value.
pub(super) fn what_is_written_is_read(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let rows: Rows = (0..=u8::MAX)
        .map(|byte| (key([byte, 0x61, byte]), vec![byte, 0x00, 0xff, byte]))
        .collect();
    writer.commit(|batch| rows.iter().for_each(|(key, value)| batch.set(key, value)))?;
    holds_rows(engine.as_ref(), SHARD, &rows)
}

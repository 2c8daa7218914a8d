//! Whatever the cases by hand forgot: many mixed operations, compared with a sorted map after every commit.

use std::collections::BTreeMap;

use crate::storage::batch::{Batch, Operation};
use crate::storage::engine::Direction;
use crate::storage::engines::faulty::Splitmix;
use crate::testing::conformance::bench::{Rows, SHARD, Writer, equal, get, has, key, rows, scan, snapshot};
use crate::testing::conformance::{Subject, Verdict};

/// Groups to commit. Each is one sync of a durable engine, so this is also what the case costs there.
const GROUPS: usize = 60;

/// Always the same: a failure of the suite has to come back.
const SEED: u64 = 0x0e5e_0001;

/// The engine and a sorted map agree after every group, by scans in both directions and by single reads.
pub(super) fn equals_a_sorted_map(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let mut random = Splitmix::new(SEED);
    let mut model = BTreeMap::new();
    for number in 0..GROUPS {
        let batches: Vec<Batch> = (0..=random.below(2)).map(|_| drawn(&mut random)).collect();
        for batch in &batches {
            batch.operations().for_each(|operation| apply(&mut model, operation));
        }
        writer.group(&batches)?;
        let expected: Rows = model.clone().into_iter().collect();
        equal(
            &format!("a scan after group {number}"),
            &rows(engine.as_ref(), SHARD)?,
            &expected,
        )?;
        let some = end(&mut random);
        let found = get(engine.as_ref(), &some)?;
        has(
            "the engine",
            &some,
            found.as_deref(),
            model.get(&some).map(Vec::as_slice),
        )?;
        let (start, stop) = (end(&mut random), end(&mut random));
        let view = snapshot(engine.as_ref(), SHARD)?;
        let found = scan(view.as_ref(), (&start, &stop), Direction::Backward, 5)?;
        let inside = model
            .iter()
            .rev()
            .filter(|(key, _)| (&start..&stop).contains(key))
            .take(5);
        let expected: Rows = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
        equal(&format!("a backward scan after group {number}"), &found, &expected)?;
    }
    writer.stands()
}

/// Up to twelve operations on few, close keys, so that they meet often.
fn drawn(random: &mut Splitmix) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..random.below(13) {
        match random.below(8) {
            0..=4 => {
                let length = random.below(6) as usize;
                let value = random.next().to_le_bytes();
                batch.set(&end(random), &value[..length]);
            }
            5 | 6 => batch.delete(&end(random)),
            _ => batch.delete_range(&end(random), &end(random)),
        }
    }
    batch
}

/// A key of none to three bytes out of four.
fn end(random: &mut Splitmix) -> Vec<u8> {
    let length = random.below(4) as usize;
    let bytes: Vec<u8> = (0..length)
        .map(|_| [0x00, 0x01, 0x80, 0xff][random.below(4) as usize])
        .collect();
    key(bytes)
}

fn apply(model: &mut BTreeMap<Vec<u8>, Vec<u8>>, operation: Operation<'_>) {
    match operation {
        Operation::Set { key, value } => drop(model.insert(key.to_vec(), value.to_vec())),
        Operation::Delete { key } => drop(model.remove(key)),
        Operation::DeleteRange { start, end } => model.retain(|key, _| !(start..end).contains(&key.as_slice())),
    }
}

//! The rows of a store that are no instance's: dead letters, what is left of deleted instances, and places at gates. How
//! they are read for an export, and where an import puts them.
//!
//! A gate lies in a shard of its own, which need not be that of those who stand at it, and an import may change both. So
//! places come behind all instances: by then it is known who says that it stands at a gate, and whoever has no place in
//! the file after all, as in one of a damaged store, comes to its gate anew instead of waiting for ever.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::ids::Shard;
use crate::storage::engine::Snapshot;
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key, Local, Meta};
use crate::storage::operations::walk::{Look, Row, Walk, look};
use crate::storage::record::{DeadLetter, Flow, Gate, Origin, Runnable, Seen, Stand};
use crate::storage::store::{Parts, shard_of};
use crate::storage::value::{self, Record};

/// Shows every such row of all shards, in an order that does not depend on the shards. What is wrong with one, or what
/// `show` says of it, goes to `wrong` with whose it is; an error from there is the end.
pub(super) fn visit(
    snapshots: &[Box<dyn Snapshot>],
    show: &mut dyn FnMut(&Key<'_>, &Row) -> Result<()>,
    wrong: &mut dyn FnMut(Option<String>, Error) -> Result<()>,
) -> Result<()> {
    for family in [key::dead, key::tombstones, key::gates] {
        let mut sources: Vec<_> = (0..)
            .map(Shard)
            .zip(snapshots)
            .map(|(shard, snapshot)| Source::new(&**snapshot, family(shard)))
            .collect();
        // One row of each shard waits here, and the least of them is next.
        let mut next = BinaryHeap::new();
        for (at, source) in sources.iter_mut().enumerate() {
            next.extend(source.turn(wrong)?.map(|place| Reverse((place, at))));
        }
        while let Some(Reverse((_, at))) = next.pop() {
            if let Some((key, row)) = sources[at].head.take()
                && let Err(error) = show(&key, &row)
            {
                wrong(whose(&key), error)?;
            }
            next.extend(sources[at].turn(wrong)?.map(|place| Reverse((place, at))));
        }
    }
    Ok(())
}

/// The rows of a family in one shard.
struct Source<'a> {
    walk: Walk<'a>,
    head: Option<(Key<'static>, Row)>,
}

impl<'a> Source<'a> {
    fn new(snapshot: &'a dyn Snapshot, range: (Vec<u8>, Vec<u8>)) -> Self {
        Self {
            walk: Walk::new(snapshot, range),
            head: None,
        }
    }

    /// Goes on to the next row that can be read, and says where it stands among those of all shards.
    fn turn(&mut self, wrong: &mut dyn FnMut(Option<String>, Error) -> Result<()>) -> Result<Option<Vec<u8>>> {
        loop {
            let row = match self.walk.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(None),
                // What lies behind it can't be reached.
                Err(error) => return wrong(None, error.into()).map(|()| None),
            };
            match Key::unpack(&row.key) {
                Ok(key) => {
                    let place = place(&key);
                    self.head = Some((key, row));
                    return Ok(Some(place));
                }
                Err(error) => wrong(None, error.into())?,
            }
        }
    }
}

/// Where a row stands in an export: where its key stood if there were one shard.
pub(super) fn place(key: &Key<'_>) -> Vec<u8> {
    let alone = Shard(0);
    match key {
        Key::Dead(_, at, message) => Key::Dead(alone, *at, message.clone()).pack(),
        Key::Tombstone(_, instance) => Key::Tombstone(alone, instance.clone()).pack(),
        Key::Gate(_, gate, at, instance) => Key::Gate(alone, gate.clone(), *at, instance.clone()).pack(),
        key => key.pack(),
    }
}

/// Whose row it is, for people.
fn whose(key: &Key<'_>) -> Option<String> {
    match key {
        Key::Tombstone(_, instance) | Key::Gate(.., instance) => Some(instance.clone().into_owned()),
        _ => None,
    }
}

/// The shard that a row lies in, of this many; `row` is as it stands in any other.
pub(super) fn home(key: &Key<'_>, row: &Row, shards: u16) -> Shard {
    match key {
        Key::Tombstone(_, instance) => shard_of(instance, shards),
        Key::Gate(_, gate, ..) => shard_of(gate, shards),
        // A letter lies where it could not be delivered from. It is found wherever it lies.
        _ => {
            let letter: Option<DeadLetter> = value::decode(&row.key, &row.value).ok();
            let sender = letter.and_then(|letter| letter.message.from);
            shard_of(sender.as_deref().unwrap_or_default(), shards)
        }
    }
}

/// Those who say that they stand at a gate, and whose place did not come yet.
#[derive(Debug, Default)]
pub(super) struct Standing(BTreeSet<String>);

impl Standing {
    pub(super) fn stands(&mut self, instance: &str) {
        self.0.insert(instance.to_owned());
    }

    pub(super) fn has_place(&mut self, instance: &str) {
        self.0.remove(instance);
    }

    /// The rows that have those come to their gates anew who have no place. What was read so far is in the store.
    pub(super) fn come_anew(&self, parts: &Parts) -> Result<Vec<(Shard, Row)>> {
        let mut rows = Vec::new();
        for id in self.0.iter().map(String::as_str) {
            let shard = shard_of(id, parts.header.shards);
            let snapshot = parts.engine.snapshot(shard)?;
            let key = |fact| Key::Instance(shard, id.into(), Local::Meta(fact));
            let flow: Look<Flow> = look(&*snapshot, &key(Meta::Flow))?;
            let origin: Look<Origin> = look(&*snapshot, &key(Meta::Origin))?;
            if let (Look::Found(flow), Look::Found(origin)) = (flow, origin) {
                tracing::warn!(instance = id, "it has no place at its gate, and comes to it anew");
                rows.push((shard, row(&key(Meta::Flow), &outside(flow))));
                let runnable = Runnable::new(origin.workflow, 0);
                rows.push((shard, row(&Key::Runnable(shard, id.into()), &runnable)));
            }
        }
        Ok(rows)
    }
}

/// Says which place an instance has, if that is what a key is about. It is made anew and is in no export.
pub(super) fn placed(key: &Key<'_>) -> Option<Row> {
    let Key::Gate(shard, gate, at, instance) = key else {
        return None;
    };
    let (epoch, number) = (at.epoch, at.number);
    let placed = Key::Placed(*shard, gate.clone(), instance.clone());
    Some(row(&placed, &Seen { epoch, number }))
}

/// How an instance is let in that has not come to its gate.
pub(super) fn outside(flow: Flow) -> Flow {
    let stand = Stand::Outside;
    let gate = flow.gate.map(|gate| Gate { stand, ..gate });
    Flow { gate, ..flow }
}

fn row(key: &Key<'_>, record: &impl Record) -> Row {
    let key = key.pack();
    let value = value::encode(&key, record);
    Row { key, value }
}

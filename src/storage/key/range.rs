//! Prefixes and ranges: where a family of keys begins and ends.

use super::{
    ALARM, ANSWERS, ATTEMPTS, DEAD, DEDUP, EMITTED, GATE, INBOX, INDEX, META, NAMES, NAMESPACE, OUTBOX, PLACED,
    PUBLISHED, RUNNABLE, TOMBSTONE, put,
};
use crate::ids::Shard;
use crate::limits::KEY_BYTES_MAX;

/// The prefix of one namespace: everything of the instance begins with it, and nothing else does.
pub(crate) fn namespace(shard: Shard, instance: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(instance.len() + 8);
    put(&(shard.0, NAMESPACE, instance), &mut out);
    out
}

/// The prefix of every dedup row of one instance.
pub(crate) fn dedup_of(shard: Shard, instance: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(instance.len() + 8);
    put(&(shard.0, DEDUP, instance), &mut out);
    out
}

/// Appends the prefix of the name registry, relative to a namespace.
pub(crate) fn names_into(out: &mut Vec<u8>) {
    put(&(NAMES,), out);
}

/// Appends the prefix of the inbox, relative to a namespace.
pub(crate) fn inbox_into(out: &mut Vec<u8>) {
    put(&(INBOX,), out);
}

/// Appends the prefix of the facts, relative to a namespace.
pub(crate) fn meta_into(out: &mut Vec<u8>) {
    put(&(META,), out);
}

/// Appends the prefix of the attempts, relative to a namespace.
pub(crate) fn attempts_into(out: &mut Vec<u8>) {
    put(&(ATTEMPTS,), out);
}

/// Appends the prefix of what was emitted, relative to a namespace.
pub(crate) fn emitted_into(out: &mut Vec<u8>) {
    put(&(EMITTED,), out);
}

/// Appends the prefix of what was published, relative to a namespace.
pub(crate) fn published_into(out: &mut Vec<u8>) {
    put(&(PUBLISHED,), out);
}

/// Appends the prefix of the answers, relative to a namespace.
pub(crate) fn answers_into(out: &mut Vec<u8>) {
    put(&(ANSWERS,), out);
}

/// The prefix of everything that an instance has on its way to others.
pub(crate) fn outbox_of(shard: Shard, instance: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(instance.len() + 8);
    put(&(shard.0, OUTBOX, instance), &mut out);
    out
}

/// The range of everything below `prefix`, the bare prefix included.
///
/// It ends at `prefix ff` and not at the next prefix: no element begins with ff, but a text that ends in NUL goes on
/// with it (`00` is escaped as `00 ff`), and such a text is another text and not below this one.
pub(crate) fn below(prefix: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut end = Vec::with_capacity(prefix.len() + 1);
    end.extend_from_slice(prefix);
    end.push(0xff);
    (prefix.to_vec(), end)
}

/// The range of all namespaces of a shard.
pub(crate) fn namespaces(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, NAMESPACE)
}

/// The range of all alarms of a shard, earliest first.
pub(crate) fn alarms(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, ALARM)
}

/// The range of the listing index of a shard, oldest first.
pub(crate) fn index(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, INDEX)
}

/// The range of the instances to run after a restart.
pub(crate) fn runnable(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, RUNNABLE)
}

/// The range of what is on its way from one instance to another.
pub(crate) fn outbox(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, OUTBOX)
}

/// The range of the messages that could not be delivered, oldest first.
pub(crate) fn dead(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, DEAD)
}

/// The range of what is left of deleted instances.
pub(crate) fn tombstones(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, TOMBSTONE)
}

/// The range of everyone at any gate.
pub(crate) fn gates(shard: Shard) -> (Vec<u8>, Vec<u8>) {
    family(shard, GATE)
}

/// The range of everyone at one gate, in order.
pub(crate) fn gate(shard: Shard, gate: &str) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = Vec::with_capacity(gate.len() + 8);
    put(&(shard.0, GATE, gate), &mut prefix);
    below(&prefix)
}

/// The part of all possible keys that a shard of a store with `shards` shards answers for, cut at its families: each
/// pair of neighbours is a range. The parts of all shards leave no gap, so what lies where no key belongs is read too.
pub(crate) fn territory(shard: Shard, shards: u16) -> Vec<Vec<u8>> {
    let prefix = |shard: u16| {
        let mut prefix = Vec::with_capacity(4);
        put(&(shard,), &mut prefix);
        prefix
    };
    let mut cuts = vec![if shard.0 == 0 { Vec::new() } else { prefix(shard.0) }];
    let families = [
        NAMESPACE, ALARM, INDEX, DEDUP, RUNNABLE, OUTBOX, DEAD, TOMBSTONE, GATE, PLACED,
    ];
    cuts.extend(families.map(|number| family(shard, number).0));
    cuts.push(if shard.0 + 1 < shards {
        prefix(shard.0 + 1)
    } else {
        vec![0xff; KEY_BYTES_MAX]
    });
    cuts
}

fn family(shard: Shard, family: u16) -> (Vec<u8>, Vec<u8>) {
    let mut prefix = Vec::with_capacity(8);
    put(&(shard.0, family), &mut prefix);
    below(&prefix)
}

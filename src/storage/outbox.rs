//! Reading what is on its way from one instance to another.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::ids::{InstanceId, Shard};
use crate::limits::{OUTGOING_BYTES_MAX, OUTGOING_MAX};
use crate::storage::commit::{Commit, Condition};
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::Result;
use crate::storage::key::{self, Key};
use crate::storage::listing::{Cursor, Page, instance_id, page_past};
use crate::storage::namespace::Namespace;
use crate::storage::record::Outgoing;
use crate::storage::store::Store;
use crate::storage::value;

/// The revision of what an instance had on its way when it was deleted. No instance has it, so nothing that another one
/// with the same id sends can take its place; and it comes before all of that.
const BEFORE_ALL: u64 = 0;

/// Something on its way: who sends it, in which commit, its number there, and what it is.
#[derive(Debug)]
pub struct Posted {
    /// Who sends it.
    pub from: InstanceId,
    /// The revision of the sender that it belongs to.
    pub revision: u64,
    /// Its number there.
    pub index: u32,
    /// What it is, and whom it is for; or why it can't be read. One that can't must not keep the others.
    pub outgoing: Result<Outgoing>,
}

impl Posted {
    /// Its place among all that its sender has on its way.
    pub(crate) fn place(&self) -> (u64, u32) {
        (self.revision, self.index)
    }
}

impl Store {
    /// What is on its way from the instances of a shard, at most [`PAGE_ROWS_MAX`](crate::limits::PAGE_ROWS_MAX) of it;
    /// of each sender in its order.
    pub fn outbox(&self, shard: Shard, after: Option<&Cursor>) -> Result<Page<Posted>> {
        self.outbox_past(shard, after, |_| None)
    }

    /// The same without what is known: of a sender that `known` has a place for, only what comes behind it.
    pub(crate) fn outbox_past(
        &self,
        shard: Shard,
        after: Option<&Cursor>,
        known: impl Fn(&str) -> Option<(u64, u32)>,
    ) -> Result<Page<Posted>> {
        let past = |key: &Key<'static>| {
            let Key::Outbox(_, from, ..) = key else {
                return None;
            };
            let (revision, index) = known(from)?;
            let mut behind = Key::Outbox(shard, from.clone(), revision, index).pack();
            behind.push(0);
            Some(behind)
        };
        let snapshot = self.snapshot(shard)?;
        page_past(&*snapshot, key::outbox(shard), after, past, |key, outgoing| match key {
            Key::Outbox(_, from, revision, index) => Some(Ok(Posted {
                from: instance_id(&from)?,
                revision,
                index,
                outgoing,
            })),
            _ => None,
        })
    }
}

/// Puts what an instance has on its way before everything that another one with its id may send: it is about to be deleted,
/// and the next one counts its revisions from the beginning. What can't be read stays where it is. Tells whether that is
/// all; if not, the rest needs another commit first.
///
/// The courier carries these rows meanwhile. It finds that one is not where it was, for the commit closes its group; and one
/// that it has delivered since they were read is not put there again, for the commit is refused then.
pub(crate) fn set_before_all(commit: &mut Commit, namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<bool> {
    let (shard, instance) = (namespace.shard(), namespace.instance().as_str());
    let mut next = 0;
    let (start, first) = (
        place(shard, instance, BEFORE_ALL),
        place(shard, instance, BEFORE_ALL + 1),
    );
    visit(
        snapshot,
        (&start, &first),
        Direction::Backward,
        &mut |(_, index), _, _| {
            next = index + 1;
            ControlFlow::Break(())
        },
    )?;
    let (_, end) = key::below(&key::outbox_of(shard, instance));
    let (mut count, mut total, mut all) = (0, 0, true);
    commit.sweeps = true;
    visit(
        snapshot,
        (&first, &end),
        Direction::Forward,
        &mut |(revision, index), outgoing, bytes| {
            if count == OUTGOING_MAX || total >= OUTGOING_BYTES_MAX {
                all = false;
                return ControlFlow::Break(());
            }
            if let Some(outgoing) = outgoing {
                commit.require(Condition::Posted(namespace.instance().clone(), revision, index));
                commit.posted(namespace, revision, index);
                commit.post(namespace, BEFORE_ALL, next, &outgoing);
                (count, total, next) = (count + 1, total + bytes, next + 1);
            }
            ControlFlow::Continue(())
        },
    )?;
    Ok(all)
}

/// Those whom an instance starts, and whose start is on its way.
pub(crate) fn starts_on_their_way(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<BTreeSet<String>> {
    let (start, end) = key::below(&key::outbox_of(namespace.shard(), namespace.instance().as_str()));
    let mut started = BTreeSet::new();
    visit(snapshot, (&start, &end), Direction::Forward, &mut |_, outgoing, _| {
        let starts = outgoing.filter(|outgoing| outgoing.parcel.starts().is_some());
        started.extend(starts.map(|outgoing| outgoing.to));
        ControlFlow::Continue(())
    })?;
    Ok(started)
}

/// Whether an instance has something on its way that `is` says yes to.
pub(crate) fn is_on_its_way(
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    is: impl Fn(&Outgoing) -> bool,
) -> Result<bool> {
    let (start, end) = key::below(&key::outbox_of(namespace.shard(), namespace.instance().as_str()));
    let mut found = false;
    visit(snapshot, (&start, &end), Direction::Forward, &mut |_, outgoing, _| {
        found = outgoing.is_some_and(|outgoing| is(&outgoing));
        if found {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}

/// Where what belongs to a revision of an instance begins.
fn place(shard: Shard, instance: &str, revision: u64) -> Vec<u8> {
    Key::Outbox(shard, instance.into(), revision, 0).pack()
}

/// Shows rows of one sender: their places, what they are if that can be read, and their bytes.
fn visit(
    snapshot: &dyn Snapshot,
    (start, end): (&[u8], &[u8]),
    direction: Direction,
    visit: &mut dyn FnMut((u64, u32), Option<Outgoing>, usize) -> ControlFlow<()>,
) -> Result<()> {
    let limit = usize::MAX;
    let scan = Scan {
        start,
        end,
        direction,
        limit,
    };
    snapshot.scan(&scan, &mut |key, row| match Key::unpack(key) {
        Ok(Key::Outbox(_, _, revision, index)) => {
            let outgoing = value::decode(key, row).ok();
            visit((revision, index), outgoing, key.len() + row.len())
        }
        _ => ControlFlow::Continue(()),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::limits::{PAGE_BYTES_MAX, PAGE_ROWS_MAX};
    use crate::storage::OpenOptions;
    use crate::storage::engines::Memory;
    use crate::storage::payload::Payload;
    use crate::storage::record::{Origin, Parcel};

    /// A store in which each of these has so many rows of so many bytes on their way.
    async fn store(senders: &[&str], rows: u64, bytes: usize) -> Store {
        let store = OpenOptions::new().open_engine(Arc::new(Memory::new())).unwrap();
        for sender in senders {
            let namespace = store.namespace(&InstanceId::new(*sender).unwrap());
            post(&store, &namespace, rows, bytes).await;
        }
        store
    }

    async fn post(store: &Store, namespace: &Namespace, rows: u64, bytes: usize) {
        for revision in 1..=rows {
            let input = Payload {
                bytes: vec![7; bytes],
                ..store.codecs().pack(&()).unwrap()
            };
            let origin = Origin::new("w", 1, 0, 1);
            let parcel = Parcel::Start { origin, input };
            let to = "somebody".to_owned();
            let mut commit = Commit::new(Shard(0));
            commit.post(namespace, revision, 0, &Outgoing { to, parcel });
            store.commit(commit).await.unwrap();
        }
    }

    fn pages(store: &Store, known: impl Fn(&str) -> Option<(u64, u32)>) -> Vec<Vec<(String, u64)>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = store.outbox_past(Shard(0), after.as_ref(), &known).unwrap();
            let rows = page.rows.iter().map(|row| (row.from.to_string(), row.revision));
            pages.push(rows.collect());
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    }

    /// Found in review: a page had a bound for its rows and none for their bytes.
    #[tokio::test]
    async fn a_page_of_large_rows_is_short() {
        let bytes = PAGE_BYTES_MAX / 4 + 1;
        let store = store(&["a", "b"], 7, bytes).await;
        let pages = pages(&store, |_| None);
        let lengths: Vec<_> = pages.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4, 4, 4, 2]);
        let rows: Vec<_> = pages.concat();
        let expected = ["a", "b"]
            .iter()
            .flat_map(|from| (1..=7).map(|n| ((*from).to_owned(), n)));
        assert_eq!(rows, expected.collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn what_is_known_is_passed_over() {
        let store = store(&["a", "ab", "b", "c"], 5, 1).await;
        let known = |sender: &str| match sender {
            "a" => Some((3, 0)),
            "b" => Some((9, u32::MAX)),
            "c" => Some((0, 0)),
            _ => None,
        };
        let found = pages(&store, known).concat();
        let expected = [("a", 4..=5), ("ab", 1..=5), ("c", 1..=5)];
        let expected = expected.map(|(from, rows)| rows.map(move |row| (from.to_owned(), row)).collect::<Vec<_>>());
        assert_eq!(found, expected.concat());
    }

    /// What is passed over at the edge of a page, before, behind and across it.
    #[tokio::test]
    async fn what_is_passed_over_may_lie_across_pages() {
        let most = PAGE_ROWS_MAX as u64;
        let store = store(&["a", "b"], most + 10, 1).await;
        for last in [1, 9, 10, 11, most - 1, most, most + 10] {
            let known = |sender: &str| (sender == "a").then_some((last, 0));
            let found = pages(&store, known);
            assert!(found.iter().all(|page| page.len() <= PAGE_ROWS_MAX));
            assert_eq!(found.concat().len() as u64, most + 10 - last + most + 10, "{last}");
        }
    }

    /// Found in review: what an instance had on its way when it was deleted was overwritten by the next one with its id.
    #[tokio::test]
    async fn what_a_deleted_instance_had_on_its_way_comes_first() {
        let (rows, bytes) = (3 * OUTGOING_MAX as u64 / 2, OUTGOING_BYTES_MAX / (OUTGOING_MAX / 2));
        let store = store(&["a"], rows, bytes).await;
        let namespace = store.namespace(&InstanceId::new("a").unwrap());
        for lives in 1..3 {
            let mut commits = 0;
            loop {
                let mut commit = Commit::new(Shard(0));
                let snapshot = store.snapshot(Shard(0)).unwrap();
                let all = set_before_all(&mut commit, &namespace, &*snapshot).unwrap();
                store.commit(commit).await.unwrap();
                commits += 1;
                if all {
                    break;
                }
            }
            assert!(commits > 2, "{commits}");
            let left = pages(&store, |_| None).concat();
            assert_eq!(left.len() as u64, lives * rows, "nothing was lost");
            assert!(left.iter().all(|(_, revision)| *revision == BEFORE_ALL));
            post(&store, &namespace, rows, bytes).await;
        }
    }
}

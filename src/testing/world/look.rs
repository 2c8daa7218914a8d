//! What can be seen of the instances of a world from outside.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::super::rig::{End, history_of};
use super::World;
use crate::engine::Workflow;
use crate::ids::InstanceId;
use crate::storage::engine::{Direction, Scan};
use crate::storage::key::{self, Local, Meta};
use crate::storage::record::{DeadLetter, Entry, Failure, Origin, Output, State, Status};
use crate::storage::value::Record;

impl World {
    /// How an instance ended.
    pub fn end<W: Workflow>(&self, _workflow: W, id: &str) -> End<W::Output> {
        if let Some(Output(payload)) = self.fact(id, Meta::Output) {
            return End::Completed(self.store.codecs().unpack(&payload).expect("the output is of its type"));
        }
        self.fact::<Failure>(id, Meta::Failure)
            .map_or(End::Waiting, End::Failed)
    }

    /// Where an instance is in its life; none if there is no such instance.
    pub fn status(&self, id: &str) -> Option<Status> {
        self.fact::<State>(id, Meta::State).map(|state| state.status)
    }

    /// What was settled when an instance began.
    pub fn origin(&self, id: &str) -> Option<Origin> {
        self.fact(id, Meta::Origin)
    }

    /// The entries of an instance, by path.
    pub fn history(&self, id: &str) -> BTreeMap<String, Entry> {
        let namespace = self.store.namespace(&instance(id));
        let snapshot = self.store.snapshot(namespace.shard()).expect("it can be read");
        history_of(&namespace, &*snapshot)
    }

    /// The ids of all instances, in order.
    pub fn instances(&self) -> Vec<String> {
        let mut found = Vec::new();
        for shard in self.store.shards() {
            found.extend(self.store.listed_ids(shard).expect("the index can be read"));
        }
        found.sort();
        found
    }

    /// What is on its way between instances.
    pub fn in_transit(&self) -> usize {
        let senders = crate::actor::outboxes(&self.store).expect("outboxes can be read");
        senders.iter().map(Vec::len).sum()
    }

    /// What could not be delivered and was kept.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let pages = self.store.shards().map(|shard| self.store.dead_letters(shard, None));
        let rows = pages.flat_map(|page| page.expect("they can be read").rows);
        rows.map(|buried| buried.dead.expect("it can be read")).collect()
    }

    /// How many messages an instance remembers that it has got.
    pub fn remembers(&self, id: &str) -> usize {
        let namespace = self.store.namespace(&instance(id));
        let snapshot = self.store.snapshot(namespace.shard()).expect("it can be read");
        let (start, end) = key::below(&key::dedup_of(namespace.shard(), id));
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: usize::MAX,
        };
        let mut found = 0;
        let counting = snapshot.scan(&scan, &mut |_, _| {
            found += 1;
            ControlFlow::Continue(())
        });
        counting.expect("it can be read");
        found
    }

    fn fact<R: Record>(&self, id: &str, fact: Meta) -> Option<R> {
        let namespace = self.store.namespace(&instance(id));
        let snapshot = self.store.snapshot(namespace.shard()).expect("it can be read");
        namespace.get(&*snapshot, &Local::Meta(fact)).expect("it can be read")
    }
}

fn instance(id: &str) -> InstanceId {
    InstanceId::internal(id).expect("an id for a test")
}

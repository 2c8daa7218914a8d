//! Who is let in while somebody comes and leaves, row by row.

use std::sync::Arc;

use super::*;
use crate::actor::courier::blocked::Blocked;
use crate::actor::courier::terminate_commit;
use crate::actor::start::{begin_rows_with, new_run_commit, set_flow};
use crate::ids::Shard;
use crate::storage::engines::Memory;
use crate::storage::{Arrivals, OpenOptions, Store};

/// Writes, and ends nobody.
struct Writes<'a>(&'a Store);

impl Hand for Writes<'_> {
    async fn commit(&self, shard: Shard, build: Build<'_>) -> Result<()> {
        let pending = self.0.submit_delivery(shard, build).await?;
        pending.durable().await.map(drop)
    }

    async fn end(&self, _: &Posted, _: Vec<InstanceId>, _: &str) -> Result<bool> {
        unreachable!("nobody has children")
    }

    fn is_ending(&self, _: &Posted) -> bool {
        false
    }
}

/// A gate that one may pass, and instances of other shards.
struct Scene {
    store: Store,
    flow: Flow,
}

impl Scene {
    fn new() -> Self {
        let options = OpenOptions::new().shards(2);
        let store = options.open_engine(Arc::new(Memory::new())).unwrap();
        let mut flow = Flow::default();
        flow.at_most(1, "k");
        Self { store, flow }
    }

    /// Ids that lie in another shard than the gate.
    fn away(&self) -> impl Iterator<Item = InstanceId> + '_ {
        let ids = (0..).map(|number| InstanceId::new(format!("i{number}")).unwrap());
        ids.filter(|id| self.store.shard_of(id) != self.store.shard_of_gate("k"))
    }

    async fn starts(&self, id: &InstanceId) {
        let (namespace, origin) = (self.store.namespace(id), Origin::new("w", 1, 0, 1));
        let input = self.store.codecs().pack(&()).unwrap();
        let build = |arrivals: &mut Arrivals<'_>| {
            let mut commit = Commit::new(namespace.shard());
            let place = || arrivals.next_place();
            begin_rows_with(&self.store, &mut commit, &namespace, &origin, input, &self.flow, place);
            commit
        };
        let pending = self.store.submit_delivery(namespace.shard(), build).await.unwrap();
        pending.durable().await.unwrap();
    }

    async fn ends(&self, id: &InstanceId) {
        let commit = terminate_commit(&self.store, id, "away", 1).unwrap().unwrap();
        self.store.commit(commit).await.unwrap();
    }

    /// Begins another run, which comes to the gate anew.
    async fn begins_again(&self, id: &InstanceId) {
        let (namespace, origin) = (self.store.namespace(id), Origin::new("w", 1, 0, 1));
        let commit = {
            let snapshot = self.store.snapshot(namespace.shard()).unwrap();
            let before: State = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap().unwrap();
            let input = self.store.codecs().pack(&()).unwrap();
            let run = new_run_commit(&namespace, &*snapshot, &origin, &before, input, (2, None));
            let mut commit = run.unwrap();
            set_flow(&mut commit, &namespace, &self.flow);
            gate::come(
                &self.store,
                &mut commit,
                &namespace,
                &self.flow,
                before.revision + 1,
                || unreachable!("the gate lies in another shard"),
            );
            commit
        };
        self.store.commit(commit).await.unwrap();
    }

    /// Carries at most so many rows of this one.
    async fn carries(&self, id: &InstanceId, rows: usize) {
        let page = self.store.outbox(self.store.shard_of(id), None).unwrap();
        let mut of_it: Vec<_> = page.rows.into_iter().filter(|row| row.from == *id).collect();
        of_it.truncate(rows);
        assert_eq!(of_it.len(), rows);
        let hand = Writes(&self.store);
        let carried = Delivery::new(&self.store, &hand, 1)
            .carry(&of_it, &mut Blocked::default())
            .await;
        assert_eq!(carried.done, rows);
    }

    fn is_in(&self, id: &InstanceId) -> bool {
        let namespace = self.store.namespace(id);
        let snapshot = self.store.snapshot(namespace.shard()).unwrap();
        let flow = gate::flow(&namespace, &*snapshot).unwrap();
        matches!(gate::stand(&flow), Some(Stand::Inside { .. }))
    }
}

/// Found in a review: whoever lies in another shard than its gate does not know its place. One that had ended and came to
/// the gate again, while its leaving was on its way, was let in on the place that it was about to give up. Then it gave
/// it up, and the next one was let in beside it.
#[tokio::test]
async fn nobody_is_let_in_on_a_place_that_it_gives_up() {
    let scene = Scene::new();
    let (first, second) = {
        let mut away = scene.away();
        (away.next().unwrap(), away.next().unwrap())
    };
    let inside = || [scene.is_in(&first), scene.is_in(&second)];
    scene.starts(&first).await;
    scene.carries(&first, 1).await;
    assert_eq!(inside(), [true, false]);
    scene.ends(&first).await;
    scene.begins_again(&first).await;
    scene.starts(&second).await;
    scene.carries(&second, 1).await;
    assert_eq!(inside(), [false, false], "the place is about to be free");
    // Its leaving.
    scene.carries(&first, 1).await;
    assert_eq!(inside(), [false, true]);
    // Its coming.
    scene.carries(&first, 1).await;
    assert_eq!(inside(), [false, true]);
    scene.ends(&second).await;
    scene.carries(&second, 1).await;
    assert_eq!(inside(), [true, false], "now it is its turn");
}

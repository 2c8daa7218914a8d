//! What follows for a gate when somebody comes to it or leaves it.

use std::collections::BTreeSet;

use crate::actor::courier::delivery::{Build, Carried, Delivery, Hand};
use crate::actor::gate;
use crate::ids::InstanceId;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::record::{Flow, Origin, Outgoing, Parcel, Runnable, Stand, State};
use crate::storage::{Commit, Condition, Error, Posted, Refusal, Result, Stands, is_on_its_way};

/// Somebody who is to be let in, as it was read.
struct Next {
    stands: Stands,
    flow: Flow,
    state: State,
    workflow: String,
}

/// Where somebody with a place at a gate really is.
enum Found {
    Waits(Box<Next>),
    Inside,
    /// It has ended, whether or not it has come again, and its leaving is on its way.
    Leaving,
}

impl<H: Hand> Delivery<'_, H> {
    /// The sender comes to a gate: it is given a place, if it has none, and let in if it need not wait.
    pub(super) async fn enter(
        &self,
        row: &Posted,
        (key, limit): (&str, u32),
        place: Option<Arrival>,
        carried: &mut Carried,
    ) -> Result<()> {
        let home = self.store.shard_of_gate(key);
        // It may have got its place before a crash.
        if place.is_none() && self.store.noted_place(key, &row.from)?.is_none() {
            let build: Build<'_> = Box::new(|arrivals| {
                let mut commit = Commit::new(home);
                let place = arrivals.next_place();
                commit.enter_gate(key, place, &row.from, limit);
                commit.note_place(key, place, &row.from);
                commit
            });
            self.hand.commit(home, build).await?;
        }
        self.let_in(key, carried).await?;
        self.remove(row).await?;
        crate::telemetry::came_to_gate();
        Ok(())
    }

    /// The sender leaves a gate: whoever is next is let in.
    pub(super) async fn leave(
        &self,
        row: &Posted,
        key: &str,
        place: Option<Arrival>,
        carried: &mut Carried,
    ) -> Result<()> {
        let home = self.store.shard_of_gate(key);
        let place = match place {
            Some(place) => Some(place),
            None => match self.store.noted_place(key, &row.from)? {
                // It has left before a crash, or came there when places were not noted.
                None => self.store.place_at_gate(key, &row.from)?,
                noted => noted,
            },
        };
        if let Some(place) = place {
            let build: Build<'_> = Box::new(|_| {
                let mut commit = Commit::new(home);
                commit.leave_gate(key, place, &row.from);
                commit
            });
            self.hand.commit(home, build).await?;
        }
        carried.left_gate = true;
        self.let_in(key, carried).await?;
        self.remove(row).await
    }

    /// Lets everyone in who may come in now. Whoever came or left is durable before this looks, so of two who change
    /// the same gate at once, the later one sees both. Letting somebody in twice changes nothing.
    ///
    /// One that can't be read does not run. It counts for nothing if it is met here: others must not wait for it.
    async fn let_in(&self, key: &str, carried: &mut Carried) -> Result<()> {
        let mut damaged = BTreeSet::new();
        loop {
            let (mut next, mut all) = (Vec::new(), true);
            // Those who are in stand before those who wait: from the back, the first who is in ends the search.
            for stands in self.store.may_pass(key, &damaged)?.into_iter().rev() {
                let (place, instance) = (stands.place, stands.instance.clone());
                match self.find(key, stands) {
                    Ok(Found::Waits(waits)) => next.push(waits),
                    Ok(Found::Inside) => break,
                    Ok(Found::Leaving) => {}
                    Err(error) if error.is_damage() => {
                        tracing::error!(%instance, gate = key, %error, code = error.code(), "passed over at a gate");
                        damaged.insert(place);
                        all = false;
                    }
                    Err(error) => return Err(error),
                }
            }
            for waits in next.into_iter().rev() {
                all &= self.admit(*waits, carried).await?;
            }
            if all {
                return Ok(());
            }
        }
    }

    fn find(&self, key: &str, stands: Stands) -> Result<Found> {
        let namespace = self.store.namespace(&stands.instance);
        let snapshot = self.store.snapshot(namespace.shard())?;
        let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
        let Some(state) = state.filter(|state| !state.status.is_terminal()) else {
            return Ok(Found::Leaving);
        };
        let flow = gate::flow(&namespace, &*snapshot)?;
        let here = |place: Option<Arrival>| place.is_none_or(|place| place == stands.place);
        // One that ended here and came again stands at the place that it is about to give up: it does not know of it. It
        // is let in when it has come, which is behind that in its outbox.
        let leaves = |outgoing: &Outgoing| matches!(&outgoing.parcel, Parcel::Leave { key: left, .. } if left == key);
        match flow.gate.as_ref().filter(|gate| gate.key == key).map(|gate| gate.stand) {
            Some(Stand::Inside { place }) if here(place) => Ok(Found::Inside),
            Some(Stand::Waits { place: None }) if is_on_its_way(&namespace, &*snapshot, leaves)? => Ok(Found::Leaving),
            Some(Stand::Waits { place }) if here(place) => {
                let origin: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
                Ok(Found::Waits(Box::new(Next {
                    stands,
                    flow,
                    state,
                    workflow: origin.map(|origin| origin.workflow).unwrap_or_default(),
                })))
            }
            _ => Ok(Found::Leaving),
        }
    }

    /// Lets somebody in. Tells whether that is settled; if not, it changed meanwhile.
    async fn admit(&self, next: Next, carried: &mut Carried) -> Result<bool> {
        let instance: &InstanceId = &next.stands.instance;
        let namespace = self.store.namespace(instance);
        let place = gate::stand(&next.flow).and_then(Stand::place);
        let build: Build<'_> = Box::new(|_| {
            let mut commit = Commit::new(namespace.shard());
            commit.require(Condition::Revision(instance.clone(), next.state.revision));
            if next.state.alarm_at_ms.is_some() {
                // From now on it looks after its deadline itself.
                let state = State {
                    revision: next.state.revision + 1,
                    alarm_at_ms: None,
                    ..next.state.clone()
                };
                commit.set_state(&namespace, next.state.alarm_at_ms, &state);
            }
            gate::set_stand(&mut commit, &namespace, &next.flow, Stand::Inside { place });
            commit.set_runnable(&namespace, Some(&Runnable::new(next.workflow.as_str(), 0)));
            commit
        });
        match self.hand.commit(namespace.shard(), build).await {
            Ok(()) => {
                carried.woken.push(instance.clone());
                crate::telemetry::let_in();
                Ok(true)
            }
            Err(Error::Refused(Refusal::Revision { .. } | Refusal::Missing)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests;

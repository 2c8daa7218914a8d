//! Gates: at most so many instances with one key run at once; the others wait, in order.
//!
//! A gate is a list of places in the store, one for everyone who has come and not left, first come first. Who is let in
//! follows from the list alone: whoever has fewer before it than may run at once, and nobody waiting before it. Places
//! before one only ever go, so who is in stays in. That needs no counter that a crash could leave wrong.
//!
//! An instance comes and leaves in commits of its own. What follows from that for the gate, which may lie in another
//! shard, is on its way in its outbox until the courier has seen to it ([`courier`](super::courier)). So a crash at any
//! moment delays the next one and loses nobody, and a start has nothing to look through but the outboxes.
//!
//! **Whoever starts it.** A child, the instance of a slot and a start that waited for the last of several are started by a row
//! in an outbox, which says how they are let in. The commit that makes such an instance is the one in which it comes to its
//! gate, as that of a start from outside is. So it never runs before its turn, it is in nobody's memory until then, and it
//! stands behind everybody who came before that commit. It has no place while its row is on its way: what counts is who came
//! to the gate first, and not who wanted to.
//!
//! **Ending there.** What waits has done nothing. It ends where it stands when it is cancelled, by a caller or by a message of
//! another instance, and when its deadline passes, of which it has an alarm. Those who are told of its end are told in that
//! commit, and its leaving is on its way with it. One that is to be kept for an operator when it fails leaves its gate as
//! well, and comes there again when it is let out.
//!
//! **Whose place.** An instance of the gate's own shard is given its place in its own commit, and knows it. One of another
//! shard does not, so beside the place stands a note of whose it is: coming twice after a crash, and leaving, cost one read
//! however many wait. It may end and come again while its leaving is on its way. Its coming is behind that, so until then
//! the place that stands there is the one that it gives up, and it is not let in on it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::storage::engine::Snapshot;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::record::{Flow, Gate, Outgoing, Parcel, Stand};
use crate::storage::{Commit, Namespace, Result, Store};

/// The number of what goes to a gate among all that one commit sends. The engine counts its own from zero.
const INDEX: u32 = u32::MAX;

/// How an instance is let in.
pub(crate) fn flow(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<Flow> {
    Ok(namespace.get(snapshot, &Local::Meta(Meta::Flow))?.unwrap_or_default())
}

/// Where an instance stands at its gate; none if it has none to pass.
pub(crate) fn stand(flow: &Flow) -> Option<Stand> {
    flow.gate.as_ref().map(|gate| gate.stand)
}

/// Whether an instance waits at its gate.
pub(crate) fn waits(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<bool> {
    Ok(matches!(stand(&flow(namespace, snapshot)?), Some(Stand::Waits { .. })))
}

/// The instance comes to its gate, in the commit that makes `revision`. `place` is the next one; it is taken if the gate
/// lies in the same shard, and given by the courier if not.
pub(crate) fn come(
    store: &Store,
    commit: &mut Commit,
    namespace: &Namespace,
    flow: &Flow,
    revision: u64,
    place: impl FnOnce() -> Arrival,
) {
    let Some(Gate { key, limit, .. }) = &flow.gate else {
        return;
    };
    let at_home = store.shard_of_gate(key) == namespace.shard();
    let place = at_home.then(place);
    if let Some(place) = place {
        commit.enter_gate(key, place, namespace.instance(), *limit);
    }
    set_stand(commit, namespace, flow, Stand::Waits { place });
    let parcel = Parcel::Enter {
        key: key.clone(),
        limit: *limit,
        place,
    };
    commit.post(namespace, revision, INDEX, &outgoing(key, parcel));
}

/// The instance leaves its gate, in the commit that makes `revision`. Tells whether it stood at one.
pub(crate) fn leave(commit: &mut Commit, namespace: &Namespace, flow: &Flow, revision: u64) -> bool {
    let Some(Gate { key, stand, .. }) = &flow.gate else {
        return false;
    };
    if *stand == Stand::Outside {
        return false;
    }
    set_stand(commit, namespace, flow, Stand::Outside);
    let parcel = Parcel::Leave {
        key: key.clone(),
        place: stand.place(),
    };
    commit.post(namespace, revision, INDEX, &outgoing(key, parcel));
    true
}

/// Writes where an instance stands now.
pub(crate) fn set_stand(commit: &mut Commit, namespace: &Namespace, flow: &Flow, stand: Stand) {
    let gate = flow.gate.clone().map(|gate| Gate { stand, ..gate });
    let flow = Flow { gate, ..flow.clone() };
    commit.set(namespace, &Local::Meta(Meta::Flow), &flow);
}

fn outgoing(key: &str, parcel: Parcel) -> Outgoing {
    Outgoing {
        to: key.to_owned(),
        parcel,
    }
}

/// Who is about to come to a gate from outside, for those who do not want to wait behind too many.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    /// Starts on their way, by gate. They have no place yet, and are counted all the same.
    coming: Mutex<HashMap<String, usize>>,
    /// Somebody left a gate, or did not come to it after all.
    left: Notify,
}

impl Gates {
    /// Takes part in a gate that has fewer than this many at it, those on their way included. It is on its way until
    /// what this gives is dropped. None if there are too many.
    pub(crate) fn come(&self, store: &Store, key: &str, fewer_than: usize) -> Result<Option<Coming<'_>>> {
        let mut coming = self.coming();
        let there = store.count_at_gate(key, fewer_than)?;
        if there + coming.get(key).copied().unwrap_or(0) >= fewer_than {
            return Ok(None);
        }
        *coming.entry(key.to_owned()).or_default() += 1;
        let key = key.to_owned();
        let (gates, came) = (self, false);
        Ok(Some(Coming { gates, key, came }))
    }

    /// Waits until somebody leaves a gate, or does not come to it after all. Register before looking.
    pub(crate) fn left(&self) -> &Notify {
        &self.left
    }

    fn coming(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A start that is on its way to a gate.
#[derive(Debug)]
pub(crate) struct Coming<'a> {
    gates: &'a Gates,
    key: String,
    came: bool,
}

impl Coming<'_> {
    /// It has come, and is counted at the gate from here on.
    pub(crate) fn came(mut self) {
        self.came = true;
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let mut coming = self.gates.coming();
        if let Some(count) = coming.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                coming.remove(&self.key);
            }
        }
        drop(coming);
        // One that does not come after all leaves room, like one that leaves.
        if !self.came {
            self.gates.left.notify_waiters();
        }
    }
}

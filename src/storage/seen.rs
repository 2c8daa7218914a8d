//! The messages that an instance has seen: a row for each, for as long as the instance is there.
//!
//! Everything else of an instance has a limit, and so the commit that deletes it does. An instance that lives for years
//! may have seen millions of messages, so most of those rows go before, in commits of their own. It has ended by then and
//! takes no message: whoever sends one of them again is told so, and not that it is a duplicate. From the first
//! of these commits on it is marked: it can't be given another chance any more, in which it would take them once more.

use std::ops::ControlFlow;

use crate::clock::Millis;
use crate::limits::SEEN_AT_ONCE_MAX;
use crate::storage::commit::Commit;
use crate::storage::engine::{Direction, Scan, Snapshot};
use crate::storage::error::Result;
use crate::storage::key::{self, Local, Meta};
use crate::storage::namespace::Namespace;
use crate::storage::record::{Hold, State};

/// Removes as many of these rows as one commit may, of an instance that is about to be deleted. Tells whether the others
/// can go with everything else; if not, the rest needs another commit first.
///
/// Such a commit counts as a change of the instance: what somebody decided before it, to give it another chance, is refused.
pub(crate) fn forget_most_seen(
    commit: &mut Commit,
    namespace: &Namespace,
    (state, now): (&State, Millis),
    snapshot: &dyn Snapshot,
) -> Result<bool> {
    let (start, end) = key::below(&key::dedup_of(namespace.shard(), namespace.instance().as_str()));
    let mut keys = Vec::new();
    let scan = Scan {
        start: &start,
        end: &end,
        direction: Direction::Forward,
        limit: SEEN_AT_ONCE_MAX + 1,
    };
    snapshot.scan(&scan, &mut |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    if keys.len() <= SEEN_AT_ONCE_MAX {
        return Ok(true);
    }
    for key in &keys[..SEEN_AT_ONCE_MAX] {
        commit.delete_raw(key);
    }
    let changed = State {
        revision: state.revision + 1,
        ..state.clone()
    };
    let mark = Hold {
        reason: "it is being deleted".into(),
        since_ms: now,
        report: None,
    };
    commit
        .set_state(namespace, state.alarm_at_ms, &changed)
        .set(namespace, &Local::Meta(Meta::Hold), &mark);
    Ok(false)
}

/// Whether an instance that has ended is being deleted, and has forgotten some of what it has seen.
pub(crate) fn is_forgetting(namespace: &Namespace, state: &State, snapshot: &dyn Snapshot) -> Result<bool> {
    let mark = || namespace.get::<Hold>(snapshot, &Local::Meta(Meta::Hold));
    Ok(state.status.is_terminal() && mark()?.is_some())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::{InstanceId, MessageId, Shard};
    use crate::storage::engines::Memory;
    use crate::storage::key::Key;
    use crate::storage::open::OpenOptions;
    use crate::storage::record::{Seen, State};
    use crate::storage::store::Store;

    fn rows(store: &Store) -> usize {
        let mut count = 0;
        let (start, end) = key::below(&key::dedup_of(Shard(0), "a"));
        let scan = Scan {
            start: &start,
            end: &end,
            direction: Direction::Forward,
            limit: usize::MAX,
        };
        let mut visit = |_: &[u8], _: &[u8]| {
            count += 1;
            ControlFlow::Continue(())
        };
        store.snapshot(Shard(0)).unwrap().scan(&scan, &mut visit).unwrap();
        count
    }

    /// FAULTS 15, found in review: the commit that deletes an instance removed a row for every message that the instance
    /// had ever seen, and those have no limit.
    #[tokio::test]
    async fn no_commit_forgets_more_than_it_may() {
        let store = OpenOptions::new().open_engine(Arc::new(Memory::new())).unwrap();
        let namespace = store.namespace(&InstanceId::new("a").unwrap());
        let beside = store.namespace(&InstanceId::new("ab").unwrap());
        let mut commit = Commit::new(Shard(0));
        for number in 0..SEEN_AT_ONCE_MAX as u64 * 5 / 2 {
            let message = MessageId::new(number.to_string()).unwrap();
            commit.set_seen(&namespace, &message, &Seen::TOO_LATE);
        }
        commit.set_seen(&beside, &MessageId::new("1").unwrap(), &Seen::TOO_LATE);
        store.commit(commit).await.unwrap();
        let mut left = vec![rows(&store)];
        loop {
            let mut commit = Commit::new(Shard(0));
            let snapshot = store.snapshot(Shard(0)).unwrap();
            let state = State::begun(0);
            if forget_most_seen(&mut commit, &namespace, (&state, 0), &*snapshot).unwrap() {
                assert!(commit.is_empty());
                break;
            }
            store.commit(commit).await.unwrap();
            left.push(rows(&store));
        }
        let most = SEEN_AT_ONCE_MAX;
        assert_eq!(left, [most * 5 / 2, most * 3 / 2, most / 2]);
        let of_another = Key::Dedup(Shard(0), "ab".into(), "1".into()).pack();
        assert!(store.snapshot(Shard(0)).unwrap().get(&of_another).unwrap().is_some());
    }
}

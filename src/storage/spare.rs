//! Buffers of commits that are done, kept for the next ones.
//!
//! A commit is built by one thread and consumed by the committer. If the committer freed it, every commit would cost
//! allocations that one thread makes and another one gives back, which is what allocators are worst at. So a commit
//! goes back to its caller together with the answer, and the thread that gets it keeps the buffers for what it builds
//! next.

use std::cell::RefCell;

use crate::storage::commit::Commit;

/// Commits whose buffers a thread keeps. A thread that waits for commits mostly builds one right after it got one
/// back, so there are few.
const SPARE_MAX: usize = 64;

/// Bytes of a buffer that is worth keeping. A larger one would lie around for long.
const SPARE_BYTES_MAX: usize = 16 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Commit>> = const { RefCell::new(Vec::new()) };
}

/// An empty commit with used buffers, if this thread has one.
pub(crate) fn take() -> Option<Commit> {
    SPARE.with_borrow_mut(Vec::pop)
}

/// Keeps the buffers of a commit that is done.
pub(crate) fn keep(mut commit: Commit) {
    if commit.capacity() > SPARE_BYTES_MAX {
        return;
    }
    commit.clear();
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_MAX {
            spare.push(commit);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{InstanceId, Shard};
    use crate::storage::commit::Condition;

    #[test]
    fn nothing_of_the_commit_before_is_left() {
        let mut commit = Commit::new(Shard(1));
        commit.require(Condition::Exists(InstanceId::new("a").unwrap()));
        commit.batch.set(b"key", b"value");
        commit.watched.push(0);
        commit.sweeps = true;
        keep(commit);
        let next = Commit::new(Shard(0));
        assert_eq!(next.shard, Shard(0));
        assert!(next.is_empty() && next.conditions.is_empty() && next.watched.is_empty() && !next.sweeps);
        assert_eq!(next.bytes(), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut large = Commit::new(Shard(0));
        large.batch.set(b"key", &[0; SPARE_BYTES_MAX]);
        keep(large);
        assert!(take().is_none());
        let commits: Vec<_> = (0..=SPARE_MAX).map(|_| Commit::new(Shard(0))).collect();
        commits.into_iter().for_each(keep);
        assert_eq!(SPARE.with_borrow(Vec::len), SPARE_MAX);
    }
}

//! One owner writes a shard, and whoever was overtaken learns it at the next call.

use crate::storage::engine::{CommitError, Lease, Owner, Position};
use crate::testing::conformance::bench::{SHARD, Writer, batch, fenced, holds, key, refused, same, told};
use crate::testing::conformance::{Subject, Verdict};

/// Nobody can write a shard that was never acquired, nor ask how far it got.
pub(super) fn a_shard_that_nobody_took_is_fenced(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    for epoch in [0, 1] {
        let lease = Lease {
            shard: SHARD,
            epoch,
            owner: Owner(1),
            position: Position::default(),
        };
        let nobody = Writer {
            engine: engine.clone(),
            lease,
            position: lease.position,
        };
        let is_fenced = |error: &CommitError| matches!(error, CommitError::Fenced { .. });
        let answer = nobody.offer(&[batch(|batch| batch.set(&key("a"), b"1"))]);
        refused(
            &format!("a commit under epoch {epoch} that nobody gave"),
            answer,
            "fenced",
            is_fenced,
        )?;
        let answer = engine.position(&lease);
        refused(
            &format!("the position under epoch {epoch} that nobody gave"),
            answer,
            "fenced",
            is_fenced,
        )?;
    }
    holds(engine.as_ref(), &[])
}

/// From the second acquisition on the first owner writes nothing, although it knows the right position.
pub(super) fn a_second_owner_fences_the_first(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut first = Writer::new(&engine)?;
    first.commit(|batch| batch.set(&key("a"), b"first"))?;
    let mut second = Writer::acquire(&engine, SHARD, 2)?;
    if second.lease.epoch <= first.lease.epoch {
        return Err(format!(
            "epoch {} follows {}, expected growth",
            second.lease.epoch, first.lease.epoch
        ));
    }
    let late = [batch(|batch| batch.set(&key("a"), b"late"))];
    let (held, carried) = (second.lease.epoch, first.lease.epoch);
    fenced("a commit of the first owner", first.offer(&late), held, carried)?;
    second.commit(|batch| batch.set(&key("b"), b"second"))?;
    first.position = second.position;
    fenced(
        "a commit of the first owner at the right position",
        first.offer(&late),
        held,
        carried,
    )?;
    holds(engine.as_ref(), &[(b"a", b"first"), (b"b", b"second")])?;
    second.stands()
}

/// The same owner that acquires again has a new epoch, and its old lease is worth nothing.
pub(super) fn an_owner_fences_itself(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut leases = vec![Writer::new(&engine)?];
    for _ in 0..4 {
        let next = Writer::new(&engine)?;
        let before = &leases[leases.len() - 1];
        if next.lease.epoch <= before.lease.epoch {
            return Err(format!(
                "epoch {} follows {}, expected growth",
                next.lease.epoch, before.lease.epoch
            ));
        }
        leases.push(next);
    }
    let mut last = leases.pop().ok_or("five leases were taken")?;
    for old in &leases {
        let answer = old.offer(&[batch(|batch| batch.set(&key("a"), b"old"))]);
        fenced("a commit under an old lease", answer, last.lease.epoch, old.lease.epoch)?;
    }
    last.commit(|batch| batch.set(&key("a"), b"last"))?;
    holds(engine.as_ref(), &[(b"a", b"last")])
}

/// The epoch alone is not the fence: two owners that believe in the same number are told apart.
pub(super) fn another_owner_with_the_same_epoch_is_fenced(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    let mut other = writer.clone();
    other.lease.owner = Owner(2);
    let epoch = writer.lease.epoch;
    let answer = other.offer(&[batch(|batch| batch.set(&key("a"), b"other"))]);
    fenced("a commit of another owner with the same epoch", answer, epoch, epoch)?;
    fenced(
        "the position for another owner with the same epoch",
        engine.position(&other.lease),
        epoch,
        epoch,
    )?;
    holds(engine.as_ref(), &[(b"a", b"1")])?;
    writer.commit(|batch| batch.set(&key("a"), b"2"))
}

/// An epoch above the one in force is as wrong as one below.
pub(super) fn an_epoch_that_was_never_given_is_fenced(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let mut ahead = writer.clone();
    ahead.lease.epoch += 1;
    let (held, carried) = (writer.lease.epoch, ahead.lease.epoch);
    let answer = ahead.offer(&[batch(|batch| batch.set(&key("a"), b"ahead"))]);
    fenced("a commit under an epoch that was never given", answer, held, carried)?;
    holds(engine.as_ref(), &[])?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))
}

/// A stale owner at a stale position is told that it is fenced, for that is final; a conflict might be tried again.
pub(super) fn a_fence_comes_before_a_conflict(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let first = Writer::new(&engine)?;
    let mut second = Writer::acquire(&engine, SHARD, 2)?;
    second.commit(|batch| batch.set(&key("a"), b"second"))?;
    let answer = first.offer(&[batch(|batch| batch.set(&key("a"), b"late"))]);
    fenced(
        "a commit of a stale owner at a stale position",
        answer,
        second.lease.epoch,
        first.lease.epoch,
    )?;
    holds(engine.as_ref(), &[(b"a", b"second")])
}

/// The position is told to the owner in force, and to nobody before it.
pub(super) fn position_is_fenced(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut first = Writer::new(&engine)?;
    first.commit(|batch| batch.set(&key("a"), b"1"))?;
    first.stands()?;
    let second = Writer::acquire(&engine, SHARD, 2)?;
    let answer = engine.position(&first.lease);
    fenced(
        "the position under an old lease",
        answer,
        second.lease.epoch,
        first.lease.epoch,
    )?;
    second.stands()
}

/// The new owner is told where the old one ended, and goes on from there.
pub(super) fn a_takeover_goes_on_where_it_was(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    for owner in 2..6 {
        writer.commit(|batch| batch.set(&key([0, owner]), &[owner]))?;
        writer.commit(|batch| batch.set(&key([1]), &[owner]))?;
        let next = Writer::acquire(&engine, SHARD, owner.into())?;
        same("the position of the new lease", &next.position, &writer.position)?;
        writer = next;
        writer.stands()?;
    }
    let lease = engine
        .acquire(SHARD, Owner(6))
        .map_err(|error| told("acquire", &error))?;
    same("the sequence after four owners", &lease.position.sequence, &8)?;
    holds(
        engine.as_ref(),
        &[
            (&[0, 2], &[2]),
            (&[0, 3], &[3]),
            (&[0, 4], &[4]),
            (&[0, 5], &[5]),
            (&[1], &[5]),
        ],
    )
}

//! What was committed is there when the store is opened again, and what was not is not.

use crate::testing::conformance::bench::{
    Rows, SHARD, Writer, batch, conflict, equal, fenced, holds, holds_rows, key, rows, same,
};
use crate::testing::conformance::large::pattern;
use crate::testing::conformance::{Subject, Verdict};

/// Rows of many sizes, set, overwritten and deleted, are byte for byte the same.
pub(super) fn every_byte_is_there(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    let max = engine.limits().value_bytes_max;
    let sizes = [0, 1, 100, 5_000, 99_999, 100_001, 300_000, max];
    let mut expected: Rows = Rows::new();
    for (number, size) in sizes.into_iter().enumerate() {
        let row = (key((number as u64).to_be_bytes()), pattern(size, number as u64));
        writer.commit(|batch| {
            batch.set(&key("gone"), b"soon");
            batch.set(&row.0, &row.1);
        })?;
        expected.push(row);
    }
    writer.commit(|batch| {
        batch.delete_range(&key("g"), &key("h"));
        batch.set(&expected[5].0, b"small now");
    })?;
    expected[5].1 = b"small now".to_vec();
    holds_rows(engine.as_ref(), SHARD, &expected)?;
    drop((writer, engine));
    holds_rows(subject.open().as_ref(), SHARD, &expected)
}

/// The next lease begins at the last commit, under a higher epoch.
pub(super) fn the_position_is_there(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    for number in 0..5_u8 {
        writer.group(&[batch(|batch| batch.set(&key([number]), b"1")), batch(|_| {})])?;
    }
    let (epoch, position) = (writer.lease.epoch, writer.position);
    drop((writer, engine));
    let engine = subject.open();
    let mut writer = Writer::acquire(&engine, SHARD, 2)?;
    same("the position of the new lease", &writer.position, &position)?;
    same("whether the epoch grew", &(writer.lease.epoch > epoch), &true)?;
    writer.stands()?;
    writer.commit(|batch| batch.set(&key("next"), b"1"))?;
    same("the sequence", &writer.position.sequence, &11)
}

/// An epoch is given away for good when acquire returns, also if nothing is ever committed under it.
pub(super) fn an_epoch_without_commits_is_there(subject: &dyn Subject) -> Verdict {
    let mut epoch = 0;
    for life in 0..4 {
        let engine = subject.open();
        let writer = Writer::new(&engine)?;
        if writer.lease.epoch <= epoch {
            return Err(format!(
                "epoch {} follows {epoch} in life {life}, expected growth",
                writer.lease.epoch
            ));
        }
        epoch = writer.lease.epoch;
    }
    Ok(())
}

/// A group that was refused does not appear later.
pub(super) fn what_was_refused_is_not_there(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    let mut astray = writer.clone();
    astray.position.sequence = 5;
    let answer = astray.offer(&[batch(|batch| batch.set(&key("a"), b"wrong"))]);
    conflict("a commit at the wrong position", answer, 5, 1)?;
    let stale = writer.clone();
    let next = Writer::acquire(&engine, SHARD, 2)?;
    let answer = stale.offer(&[batch(|batch| batch.set(&key("b"), b"stale"))]);
    fenced("a stale commit", answer, next.lease.epoch, stale.lease.epoch)?;
    let position = writer.position;
    drop((writer, astray, stale, next, engine));
    let engine = subject.open();
    holds(engine.as_ref(), &[(b"a", b"1")])?;
    same(
        "the position of the new lease",
        &Writer::new(&engine)?.position,
        &position,
    )
}

/// A lease from an earlier life is fenced once the shard was taken again, also by the same owner.
pub(super) fn an_old_lease_stays_fenced(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    writer.commit(|batch| batch.set(&key("a"), b"1"))?;
    let (old, position) = (writer.lease, writer.position);
    drop((writer, engine));
    let engine = subject.open();
    let writer = Writer::new(&engine)?;
    let late = Writer {
        engine: engine.clone(),
        lease: old,
        position,
    };
    let answer = late.offer(&[batch(|batch| batch.set(&key("a"), b"late"))]);
    fenced("a commit from an earlier life", answer, writer.lease.epoch, old.epoch)?;
    holds(engine.as_ref(), &[(b"a", b"1")])
}

/// Many short lives, each of which adds a row and takes one away.
pub(super) fn it_goes_on_for_many_lives(subject: &dyn Subject) -> Verdict {
    let mut expected = Rows::new();
    for life in 0..8_u8 {
        let engine = subject.open();
        equal(
            &format!("a scan at the start of life {life}"),
            &rows(engine.as_ref(), SHARD)?,
            &expected,
        )?;
        let mut writer = Writer::acquire(&engine, SHARD, life.into())?;
        same("the sequence", &writer.position.sequence, &(u64::from(life) * 2))?;
        writer.commit(|batch| batch.set(&key([life]), &pattern(usize::from(life) * 30_000, 1)))?;
        expected.push((key([life]), pattern(usize::from(life) * 30_000, 1)));
        writer.commit(|batch| {
            if life % 3 == 2 {
                batch.delete(&key([life - 1]));
            }
        })?;
        if life % 3 == 2 {
            expected.remove(expected.len() - 2);
        }
    }
    Ok(())
}

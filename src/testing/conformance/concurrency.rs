//! What has to hold while several threads use the engine. Each case is bounded by a number of commits, and what it
//! checks holds under every interleaving: a good engine never fails here, a bad one does sooner or later.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::ids::Shard;
use crate::storage::engine::{CommitError, Direction, Owner, Position};
use crate::testing::conformance::bench::{
    SHARD, Writer, all_of, batch, equal, holds, holds_rows, key, key_in, same, snapshot, told,
};
use crate::testing::conformance::snapshots::pages;
use crate::testing::conformance::{Subject, Verdict};

/// Commits of the thread that writes, at least.
const COMMITS: u32 = 150;

/// Rounds of the one that reads.
const ROUNDS: u32 = 20;

/// Rows that every one of these commits changes.
const ROWS: u8 = 48;

/// Sets every row to the number.
fn flip(writer: &mut Writer, number: u32) -> Verdict {
    writer.commit(|batch| (0..ROWS).for_each(|row| batch.set(&key([row]), &number.to_be_bytes())))
}

/// Calls `writing` in a thread of its own with the number of each commit, and `reading` here again and again. Ends
/// when there were enough commits and enough rounds of reading, so that the one is never over before the other has
/// begun, or when one of them fails.
fn while_writing(mut writing: impl FnMut(u32) -> Verdict + Send, mut reading: impl FnMut() -> Verdict) -> Verdict {
    let last_commit = AtomicU32::new(u32::MAX);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut numbers = (1..).take_while(|number| *number <= last_commit.load(Ordering::Relaxed));
            numbers.try_for_each(&mut writing)
        });
        let reader = Ended(&last_commit);
        let mut rounds = 0;
        let read = loop {
            let last = writer.is_finished();
            let read = reading();
            rounds += 1;
            if rounds == ROUNDS {
                last_commit.store(COMMITS, Ordering::Relaxed);
            }
            if last || read.is_err() {
                break read;
            }
        };
        drop(reader);
        let written = writer
            .join()
            .unwrap_or_else(|_| Err("the writing thread panicked".into()));
        written.and(read)
    })
}

/// Ends the writing when the reading ends, also by a panic.
struct Ended<'a>(&'a AtomicU32);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A commit changes many rows; a reader finds all of them with the same number, and the numbers never go back.
pub(super) fn no_commit_shows_by_half(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    flip(&mut writer, 0)?;
    let mut latest = 0;
    while_writing(
        |number| flip(&mut writer, number),
        || {
            let rows = all_of(snapshot(engine.as_ref(), SHARD)?.as_ref(), SHARD)?;
            same("the number of rows", &rows.len(), &usize::from(ROWS))?;
            let mut numbers: Vec<&[u8]> = rows.iter().map(|(_, value)| value.as_slice()).collect();
            numbers.dedup();
            same("how many commits a snapshot shows at once", &numbers.len(), &1)?;
            let bytes = numbers[0]
                .try_into()
                .map_err(|_| "a value has not four bytes".to_string())?;
            let number = u32::from_be_bytes(bytes);
            same("whether snapshots go forward", &(number >= latest), &true)?;
            latest = number;
            Ok(())
        },
    )
}

/// A snapshot that is read page by page is the same every time, whatever is committed meanwhile.
pub(super) fn pages_hold_still_under_writes(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut writer = Writer::new(&engine)?;
    flip(&mut writer, 0)?;
    while_writing(
        |number| {
            writer.commit(|batch| {
                let row = (number % u32::from(ROWS)) as u8;
                batch.delete_range(&key([row]), &key([row, 0x80]));
                batch.set(&key([row, (number % 251) as u8]), &number.to_be_bytes());
            })
        },
        || {
            let view = snapshot(engine.as_ref(), SHARD)?;
            let mut whole = all_of(view.as_ref(), SHARD)?;
            equal(
                "forward pages",
                &pages(view.as_ref(), Direction::Forward, 7, || Ok(()))?,
                &whole,
            )?;
            whole.reverse();
            equal(
                "backward pages",
                &pages(view.as_ref(), Direction::Backward, 5, || Ok(()))?,
                &whole,
            )
        },
    )
}

/// An owner commits as fast as it can while another one takes the shard: what the new lease tells is exactly what
/// the old owner was told was done.
pub(super) fn a_takeover_under_fire_loses_nothing(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut old = Writer::new(&engine)?;
    for owner in 2..12_u64 {
        let (warm, warmed) = mpsc::channel();
        let (taken, done) = thread::scope(|scope| {
            let firing = scope.spawn(|| fire(&mut old, warm));
            // The other end is dropped when the old owner ends early; then there is nothing to wait for.
            let _ = warmed.recv();
            let taken = Writer::acquire(&engine, SHARD, owner);
            let done = firing.join().unwrap_or_else(|_| Err("the old owner panicked".into()));
            Ok::<_, String>((taken?, done?))
        })?;
        same("the position of the new lease", &taken.position, &done)?;
        taken.stands()?;
        holds(engine.as_ref(), &[(b"fire", &done.sequence.to_be_bytes())])?;
        old = taken;
    }
    Ok(())
}

/// Commits until fenced, or often enough; says when it is under way, and gives the position of the last commit that
/// was done.
fn fire(writer: &mut Writer, warm: mpsc::Sender<()>) -> Result<Position, String> {
    let mut warm = Some(warm);
    for number in 0..COMMITS {
        if number == 3 {
            drop(warm.take());
        }
        let next = writer.after(1);
        match writer.offer(&[batch(|batch| batch.set(&key("fire"), &next.sequence.to_be_bytes()))]) {
            Ok(()) => writer.position = next,
            Err(CommitError::Fenced { .. }) => break,
            Err(error) => return Err(told("a commit under fire", &error)),
        }
    }
    Ok(writer.position)
}

/// Of many that acquire at once each gets an epoch of its own, and the highest is in force.
pub(super) fn epochs_are_given_once(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let mut leases = Vec::new();
    thread::scope(|scope| {
        let takers: Vec<_> = (0..8)
            .map(|owner| {
                scope.spawn({
                    let engine = &engine;
                    move || engine.acquire(SHARD, Owner(owner))
                })
            })
            .collect();
        for taker in takers {
            let lease = taker
                .join()
                .map_err(|_| "a thread that acquires panicked".to_string())?;
            leases.push(lease.map_err(|error| told("acquire", &error))?);
        }
        Ok::<(), String>(())
    })?;
    leases.sort_by_key(|lease| lease.epoch);
    let mut epochs: Vec<u64> = leases.iter().map(|lease| lease.epoch).collect();
    epochs.dedup();
    same("the number of different epochs", &epochs.len(), &8)?;
    let standing = leases.iter().filter(|lease| engine.position(lease).is_ok());
    let standing: Vec<u64> = standing.map(|lease| lease.epoch).collect();
    same("the epochs in force", &standing, &vec![epochs[7]])
}

/// Two shards are written by two threads, and each ends as if it were alone.
pub(super) fn shards_commit_side_by_side(subject: &dyn Subject) -> Verdict {
    let engine = subject.open();
    let shards = [Shard(1), Shard(2)];
    let writers = [
        Writer::acquire(&engine, shards[0], 1)?,
        Writer::acquire(&engine, shards[1], 1)?,
    ];
    thread::scope(|scope| {
        let committers = writers.map(|writer| scope.spawn(|| fifty(writer)));
        committers.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a committing thread panicked".into()))
        })
    })?;
    shards.into_iter().try_for_each(|shard| {
        let rows = (0..50_u8)
            .map(|number| (key_in(shard, [number]), vec![number]))
            .collect();
        holds_rows(engine.as_ref(), shard, &rows)
    })
}

/// Commits fifty rows, one by one.
fn fifty(mut writer: Writer) -> Verdict {
    let shard = writer.lease.shard;
    (0..50_u8).try_for_each(|number| writer.commit(|batch| batch.set(&key_in(shard, [number]), &[number])))?;
    writer.stands()
}

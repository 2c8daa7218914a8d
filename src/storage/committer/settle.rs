//! Commits a group, and finds out what became of it when the engine can't tell.
//!
//! **Invariant: what may have been done is never said not to be.** Once the answer to one attempt was lost, no refusal
//! of a later one proves anything: the first may have arrived, or may still. Only the position of the shard tells, and
//! where it does not, the outcome is unknown.

use std::io;

use crate::storage::engine::{CommitError, Engine, Group};

/// How often a commit whose outcome was unknown, and that turned out not to be done, is tried again.
const RETRIES_MAX: u32 = 3;

/// Commits a group. Any other error than [`CommitError::Unknown`] says that nothing was written.
pub(crate) fn settle(engine: &dyn Engine, group: &Group<'_>) -> Result<(), CommitError> {
    let mut lost: Option<io::Error> = None;
    for _ in 0..RETRIES_MAX {
        match (engine.commit(group), lost.take()) {
            (Ok(()), _) => return Ok(()),
            (Err(CommitError::Unknown(error)), _) => lost = Some(error),
            (Err(error), None) => return Err(error),
            // The attempt that seemed lost may have arrived after all.
            (Err(_), Some(_)) if is_at(engine, group) => return Ok(()),
            (Err(error), Some(lost)) => return Err(unknown(Some(lost), &error)),
        }
        match engine.position(&group.lease) {
            Ok(position) if position == group.next => return Ok(()),
            Ok(position) if position == group.expected => {}
            Ok(position) => {
                let (expected, found) = (group.expected.sequence, position.sequence);
                return Err(unknown(lost, &CommitError::Conflict { expected, found }));
            }
            Err(error) => return Err(unknown(lost, &error)),
        }
    }
    Err(unknown(lost, &format_args!("it was tried {RETRIES_MAX} times")))
}

/// The outcome is unknown since this answer was lost, and what came after it does not tell.
fn unknown(lost: Option<io::Error>, after: &dyn std::fmt::Display) -> CommitError {
    let (kind, first) = match lost {
        Some(lost) => (lost.kind(), lost.to_string()),
        None => (io::ErrorKind::Other, String::from("no answer")),
    };
    CommitError::Unknown(io::Error::new(kind, format!("{first}; and then: {after}")))
}

/// Whether the shard stands where the group leads.
fn is_at(engine: &dyn Engine, group: &Group<'_>) -> bool {
    engine
        .position(&group.lease)
        .is_ok_and(|position| position == group.next)
}

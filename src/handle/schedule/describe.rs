//! What is known of a schedule.

use std::time::Duration;

use crate::clock::Millis;
use crate::engine::schedule::{Diary, LOOP, Plan, begins_at_ms};
use crate::engine::{CatchUp, Overlap};
use crate::handle::look::Seen;
use crate::handle::{AnyHandle, Result, history};
use crate::storage::key::{Local, Meta};
use crate::storage::record::{EntryKind, Output};

/// What is known of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleDescription {
    /// Its name.
    pub name: String,
    /// When its slots are, as people write it.
    pub timing: String,
    /// The type name of the workflow that it starts.
    pub workflow: String,
    /// What becomes of a slot when the instance of an earlier one has not ended.
    pub overlap: Overlap,
    /// What becomes of slots that were missed.
    pub catch_up: CatchUp,
    /// How much later than its time a slot may begin.
    pub jitter: Duration,
    /// Whether no slot begins.
    pub paused: bool,
    /// Whether it has no slot any more.
    pub ended: bool,
    /// The next slot.
    pub next_at_ms: Option<Millis>,
    /// When its instance begins: somewhat later, if there is jitter.
    pub next_begins_at_ms: Option<Millis>,
    /// Slots that wait for an instance to end.
    pub waiting: usize,
    /// The instance that they wait for.
    pub running: Option<String>,
    /// The instance that was started last.
    pub last: Option<String>,
    /// Instances started.
    pub started: u64,
    /// Slots passed over because an earlier instance had not ended, or too many waited.
    pub skipped: u64,
}

pub(super) fn describe(any: &AnyHandle, name: &str, seen: &Seen) -> Result<ScheduleDescription> {
    let Plan { terms, diary } = any.unpack(&seen.input)?;
    let diary = read(any, seen)?.unwrap_or(diary);
    let ended = seen.state.status.is_terminal();
    let next_at_ms = diary.next_ms.filter(|_| !ended && !diary.paused);
    Ok(ScheduleDescription {
        name: name.to_owned(),
        timing: terms.rule.to_string(),
        workflow: terms.target.workflow.clone(),
        overlap: terms.overlap,
        catch_up: terms.catch_up,
        jitter: Duration::from_millis(terms.jitter_ms),
        paused: diary.paused,
        ended,
        next_begins_at_ms: next_at_ms.map(|slot| begins_at_ms(&terms, slot)),
        next_at_ms,
        waiting: diary.waiting.len(),
        running: diary.running.map(|running| running.instance),
        last: diary.last,
        started: diary.started,
        skipped: diary.skipped,
    })
}

/// What the schedule knows by now; none if it has not begun.
fn read(any: &AnyHandle, seen: &Seen) -> Result<Option<Diary>> {
    let namespace = any.shared.store.namespace(&any.instance);
    if let Some(Output(diary)) = namespace.get(&*seen.snapshot, &Local::Meta(Meta::Output))? {
        return any.unpack(&diary).map(Some);
    }
    let entries = history::entries(&any.shared, &any.instance, seen)?;
    let slots = entries.into_iter().find(|entry| entry.path == LOOP);
    match slots.map(|slots| slots.kind) {
        Some(EntryKind::Loop(slots)) => any.unpack(&slots.state).map(Some),
        _ => Ok(None),
    }
}

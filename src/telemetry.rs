//! Every metric, with its name and its labels. `docs/OBSERVABILITY.md` lists them, and a test compares.
//!
//! What labels can be is bounded: workflows that this process knows, queues that its configuration names, and words of
//! ours. Never an id.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

/// An instance was started.
pub(crate) fn started(workflow: &str) {
    counter!("everstep_starts_total", "workflow" => workflow.to_owned()).increment(1);
}

/// An instance ended, or was put aside.
pub(crate) fn ended(workflow: &str, outcome: String) {
    counter!("everstep_ends_total", "workflow" => workflow.to_owned(), "outcome" => outcome).increment(1);
}

/// An attempt began, after it had waited for its turn.
pub(crate) fn attempt_began(workflow: &str, waited: Duration) {
    counter!("everstep_attempts_total", "workflow" => workflow.to_owned()).increment(1);
    histogram!("everstep_attempt_wait_seconds", "workflow" => workflow.to_owned()).record(waited);
}

/// An attempt ended.
pub(crate) fn attempt_ended(workflow: &str, outcome: &'static str, took: Duration) {
    histogram!("everstep_attempt_seconds", "workflow" => workflow.to_owned(), "outcome" => outcome).record(took);
}

/// A commit is durable, or known not to be.
pub(crate) fn committed(took: Duration) {
    histogram!("everstep_commit_seconds").record(took);
}

/// So many commits share a sync, and so many wait behind them.
pub(crate) fn group(commits: usize, waiting: usize) {
    histogram!("everstep_group_commits").record(number(commits));
    gauge!("everstep_commits_waiting").set(number(waiting));
}

/// The store works, or acknowledges nothing any more.
pub(crate) fn store_works(works: bool) {
    gauge!("everstep_store_works").set(f64::from(u8::from(works)));
}

/// An alarm rang.
pub(crate) fn alarm_rang(late: Duration) {
    histogram!("everstep_alarm_late_seconds").record(late);
}

/// So many alarms are due and wait for room.
pub(crate) fn alarms_due(count: usize) {
    gauge!("everstep_alarms_due").set(number(count));
}

/// So many instances are in memory.
pub(crate) fn residents(count: usize) {
    gauge!("everstep_residents").set(number(count));
}

/// So many instances wait for a place in memory.
pub(crate) fn waiting(count: usize) {
    gauge!("everstep_waiting").set(number(count));
}

/// So many messages were found in the inbox of an instance.
pub(crate) fn inbox(workflow: &str, messages: usize) {
    histogram!("everstep_inbox_messages", "workflow" => workflow.to_owned()).record(number(messages));
}

/// So many attempts run, and so many wait for their turn.
pub(crate) fn attempts(running: usize, waiting: usize) {
    gauge!("everstep_attempts_running").set(number(running));
    gauge!("everstep_attempts_waiting").set(number(waiting));
}

/// So many attempts of a queue run, and so many wait for their turn.
pub(crate) fn queue(queue: &str, running: usize, waiting: usize) {
    gauge!("everstep_queue_running", "queue" => queue.to_owned()).set(number(running));
    gauge!("everstep_queue_waiting", "queue" => queue.to_owned()).set(number(waiting));
}

/// The task of an instance broke down.
pub(crate) fn broke_down() {
    counter!("everstep_breakdowns_total").increment(1);
}

/// Code ran for long without awaiting anything.
pub(crate) fn long_poll() {
    counter!("everstep_long_polls_total").increment(1);
}

/// Retention deleted instances.
pub(crate) fn deleted(count: u64) {
    counter!("everstep_deleted_total").increment(count);
}

/// So much of what instances have for each other got where it was going.
pub(crate) fn carried(parcels: usize) {
    counter!("everstep_parcels_total").increment(parcels as u64);
}

/// Of so many instances something is on its way that could not be delivered for now.
pub(crate) fn senders_held(count: usize) {
    gauge!("everstep_senders_held").set(number(count));
}

/// A message that could not be delivered was kept.
pub(crate) fn buried() {
    counter!("everstep_dead_letters_total").increment(1);
}

/// A topic took notes: so many events, and so many that it handed to somebody.
pub(crate) fn events(published: u64, handed: u64) {
    counter!("everstep_events_total").increment(published);
    counter!("everstep_events_handed_total").increment(handed);
}

/// A topic had no room: so many events were forgotten, and so many for one count as taken.
pub(crate) fn events_lost(forgotten: u64, presumed: u64) {
    counter!("everstep_events_forgotten_total").increment(forgotten);
    counter!("everstep_events_presumed_taken_total").increment(presumed);
}

/// A schedule decided: so many instances to begin, and so many slots to pass over.
pub(crate) fn slots(started: u64, skipped: u64) {
    counter!("everstep_slots_started_total").increment(started);
    counter!("everstep_slots_skipped_total").increment(skipped);
}

/// An instance came to a gate.
pub(crate) fn came_to_gate() {
    counter!("everstep_gate_entries_total").increment(1);
}

/// An instance that stood at a gate was let in.
pub(crate) fn let_in() {
    counter!("everstep_gate_admissions_total").increment(1);
}

/// A batch came to one of its instances.
pub(crate) fn batch(outcome: &'static str) {
    counter!("everstep_batch_instances_total", "outcome" => outcome).increment(1);
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a gauge is a float, and nothing here counts to 2^52"
)]
fn number(count: usize) -> f64 {
    count as f64
}

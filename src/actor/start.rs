//! The commits that begin the life of an instance: the first run, and another one after the end.

use crate::actor::gate;
use crate::clock::Millis;
use crate::ids::InstanceId;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Content, Flow, Input, Message, Origin, Runnable, State, Status};
use crate::storage::{Commit, Condition, Namespace, Result, Rows, Store};

/// Everything that has to be written for an instance to exist, if it does not yet. With a time it begins then: until
/// its alarm rings it is pending and nothing else.
pub(crate) fn start_commit(
    store: &Store,
    instance: &InstanceId,
    origin: &Origin,
    input: Payload,
    begin_at_ms: Option<Millis>,
) -> Commit {
    let namespace = store.namespace(instance);
    let mut commit = Commit::new(namespace.shard());
    begin_rows(&mut commit, &namespace, origin, input, begin_at_ms);
    commit
}

/// The same for one that has to pass a gate: it comes there at once, and runs when it is let in.
pub(crate) fn start_at_gate_commit(
    store: &Store,
    instance: &InstanceId,
    origin: &Origin,
    input: Payload,
    flow: &Flow,
    place: impl FnOnce() -> Arrival,
) -> Commit {
    let namespace = store.namespace(instance);
    let mut commit = Commit::new(namespace.shard());
    begin_rows_with(store, &mut commit, &namespace, origin, input, flow, place);
    commit
}

/// The same for one that is let in in a way of its own, as a part of a commit that does other things as well.
pub(crate) fn begin_rows_with(
    store: &Store,
    commit: &mut Commit,
    namespace: &Namespace,
    origin: &Origin,
    input: Payload,
    flow: &Flow,
    place: impl FnOnce() -> Arrival,
) {
    if flow.gate.is_none() {
        begin_rows(commit, namespace, origin, input, None);
        set_flow(commit, namespace, flow);
        return;
    }
    let state = State {
        // Its time may be over before it is its turn.
        alarm_at_ms: origin.deadline_at_ms,
        ..State::begun(origin.created_at_ms)
    };
    first_rows(commit, namespace, origin, input, &state);
    gate::come(store, commit, namespace, flow, state.revision, place);
}

/// Writes how an instance is let in, if that is special.
pub(crate) fn set_flow(commit: &mut Commit, namespace: &Namespace, flow: &Flow) {
    if *flow == Flow::default() {
        commit.delete(namespace, &Local::Meta(Meta::Flow));
    } else {
        commit.set(namespace, &Local::Meta(Meta::Flow), flow);
    }
}

/// The same, as a part of a commit that does other things as well.
pub(crate) fn begin_rows(
    commit: &mut Commit,
    namespace: &Namespace,
    origin: &Origin,
    input: Payload,
    begin_at_ms: Option<Millis>,
) {
    let state = State {
        alarm_at_ms: begin_at_ms,
        began_at_ms: begin_at_ms.unwrap_or_default().max(origin.created_at_ms),
        ..State::begun(origin.created_at_ms)
    };
    first_rows(commit, namespace, origin, input, &state);
    if begin_at_ms.is_none() {
        commit.set_runnable(namespace, Some(&Runnable::new(origin.workflow.as_str(), 0)));
    }
}

fn first_rows(commit: &mut Commit, namespace: &Namespace, origin: &Origin, input: Payload, state: &State) {
    commit
        .require(Condition::Missing(namespace.instance().clone()))
        .set(namespace, &Local::Meta(Meta::Origin), origin)
        .set(namespace, &Local::Meta(Meta::Input), &Input(input))
        .set_state(namespace, None, state)
        .set_index(namespace, origin, state);
}

/// Everything that has to be written for an instance to begin another run with an empty history. Its unread messages
/// stay; what an operator or another instance had asked of the run before goes.
pub(crate) fn new_run_commit(
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    origin: &Origin,
    before: &State,
    input: Payload,
    (now, begin_at_ms): (Millis, Option<Millis>),
) -> Result<Commit> {
    let run = before.run + 1;
    let state = State {
        run,
        revision: before.revision + 1,
        alarm_at_ms: begin_at_ms,
        drawn_in: run,
        keyed_in: run,
        began_at_ms: begin_at_ms.unwrap_or_default().max(now),
        emitted: before.emitted,
        ..State::begun(now)
    };
    let mut commit = Commit::new(namespace.shard());
    commit.require(Condition::Revision(namespace.instance().clone(), before.revision));
    commit.delete_below(namespace, &crate::location::Location::root());
    clear(&mut commit, namespace, snapshot, Rows::Attempts)?;
    clear(&mut commit, namespace, snapshot, Rows::Published)?;
    take_what_was_asked(&mut commit, namespace, snapshot, false)?;
    for fact in [Meta::Output, Meta::Failure, Meta::Hold] {
        commit.delete(namespace, &Local::Meta(fact));
    }
    let runnable = begin_at_ms
        .is_none()
        .then(|| Runnable::new(origin.workflow.as_str(), 0));
    commit
        .set(namespace, &Local::Meta(Meta::Origin), origin)
        .set(namespace, &Local::Meta(Meta::Input), &Input(input))
        .set_state(namespace, before.alarm_at_ms, &state)
        .set_index(namespace, origin, &state)
        .set_runnable(namespace, runnable.as_ref());
    Ok(commit)
}

/// Whether an instance was accepted for later, and later has not come. Its alarm is for its beginning then; that of one
/// that has begun and waits for its turn is for its deadline.
pub(crate) fn begins_later(state: &State, now: Millis) -> bool {
    let begins_at = state.alarm_at_ms.filter(|at| *at <= state.began_at_ms);
    state.status == Status::Pending && begins_at.is_some_and(|at| at > now)
}

fn clear(commit: &mut Commit, namespace: &Namespace, snapshot: &dyn Snapshot, rows: Rows<'_>) -> Result<()> {
    namespace.list(snapshot, rows, &mut |local, _| {
        commit.delete(namespace, &local);
        Ok(())
    })
}

/// Removes the messages that were about the run before: pause, resume, cancel, and how its operations ended, unless the
/// next run goes on with some of them. Tells whether the last of them was to hold or to go on: whoever asked for that is
/// told that it was done.
pub(crate) fn take_what_was_asked(
    commit: &mut Commit,
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    keeps_history: bool,
) -> Result<Option<bool>> {
    let mut paused = None;
    namespace.list(snapshot, Rows::Inbox, &mut |local, row| {
        match row.decode::<Message>()?.content {
            Content::Told { .. } | Content::Asked { .. } => return Ok(()),
            Content::Settled { .. } if keeps_history => return Ok(()),
            Content::Settled { .. } | Content::Cancel { .. } => {}
            Content::Pause => paused = Some(true),
            Content::Resume => paused = Some(false),
        }
        commit.delete(namespace, &local);
        Ok(())
    })?;
    Ok(paused)
}

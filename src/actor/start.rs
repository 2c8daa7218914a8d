//! The commit that starts an instance.

use crate::clock::Millis;
use crate::engine::Workflow;
use crate::ids::InstanceId;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Input, Origin, Runnable, State, Status};
use crate::storage::{Commit, Condition, Result, Store};

/// Everything that has to be written for an instance to exist, if it does not yet.
pub(crate) fn start_commit<W: Workflow>(
    store: &Store,
    instance: &InstanceId,
    input: &W::Input,
    now: Millis,
) -> Result<Commit> {
    let namespace = store.namespace(instance);
    let input = store.codecs().pack(input)?;
    let origin = Origin {
        workflow: W::NAME.to_owned(),
        version: W::VERSION,
        created_at_ms: now,
    };
    let state = State {
        status: Status::Pending,
        run: 1,
        revision: 1,
        alarm_at_ms: None,
        entries: 0,
        completions: 0,
        updated_at_ms: now,
    };
    let mut commit = Commit::new(namespace.shard());
    commit
        .require(Condition::Missing(instance.clone()))
        .set(&namespace, &Local::Meta(Meta::Origin), &origin)
        .set(&namespace, &Local::Meta(Meta::Input), &Input(input))
        .set_state(&namespace, None, &state)
        .set_index(&namespace, &origin, &state)
        .set_runnable(&namespace, Some(&Runnable { activations: 0 }));
    Ok(commit)
}

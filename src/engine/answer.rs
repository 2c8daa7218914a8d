//! The answer to a question, for whoever asked.

use crate::engine::error::unanswered;
use crate::ids::MessageId;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Answer, Decided, State};
use crate::storage::{Namespace, Result};

/// How a question was decided; none while it is open. An instance that has ended answers nothing any more: what it did
/// not answer by then, also what came too late for it to know of, is decided with an error.
pub(crate) fn answer_to(
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    question: &MessageId,
) -> Result<Option<Decided>> {
    let local = Local::Answer(question.as_str().into());
    if let Some(Answer { decided, .. }) = namespace.get(snapshot, &local)? {
        return Ok(Some(decided));
    }
    let state: Option<State> = namespace.get(snapshot, &Local::Meta(Meta::State))?;
    let ended = state.is_none_or(|state| state.status.is_terminal());
    Ok(ended.then(|| Decided::Failed(unanswered())))
}

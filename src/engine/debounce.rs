//! A start that waits for the last of several: a built-in workflow that begins later, and then starts what it was last
//! told to.
//!
//! There is one instance of it for each workflow and key, and it is pending while it waits. A later start with the same
//! key replaces its input and its time, in one commit and without waking anybody. When its time has come it starts the
//! instance that is wanted and ends; a start after that is another run of it.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::clock::Millis;
use crate::engine::context::Ctx;
use crate::engine::error::{Result, ok};
use crate::engine::target::Target;
use crate::engine::workflow::Workflow;
use crate::ids::InstanceId;

/// What the ids of those that wait begin with. Nobody can take such an id.
const PREFIX: &str = "__debounce ";

/// The workflow behind every key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Debounce;

/// What is to be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// The id that it will have.
    pub(crate) instance: String,
    pub(crate) target: Target,
    /// When the first of those that this replaces was wanted.
    pub(crate) since_ms: Millis,
}

impl Workflow for Debounce {
    const NAME: &'static str = "__debounce";
    type Input = Wanted;
    type Output = ();

    async fn run(ctx: Ctx<Self>, wanted: Wanted) -> Result<()> {
        let Wanted { instance, target, .. } = wanted;
        ok(target.start(&ctx, instance, false).await?)
    }
}

/// The instance that waits for the last start of a workflow with a key.
pub(crate) fn waiter_of(workflow: &str, key: &str) -> InstanceId {
    // Both are free text: as one, neither their length nor what is in them matters.
    let both = format!("{} {workflow} {key}", workflow.len());
    let digest = xxh3_128(both.as_bytes());
    InstanceId::internal(format!("{PREFIX}{digest:032x}")).expect("hexadecimal digits are an id")
}

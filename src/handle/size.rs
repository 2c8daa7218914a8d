//! How large what callers give may be.

use crate::actor::Shared;
use crate::handle::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::storage::payload::Payload;

/// Checks the input of an instance of this workflow.
pub(super) fn check_input(shared: &Shared, workflow: &str, input: &Payload) -> Result<()> {
    check(shared, workflow, input, || format!("the input of `{workflow}`"))
}

/// Checks a message to an instance of this workflow.
pub(super) fn check_message(shared: &Shared, workflow: &str, name: &str, message: &Payload) -> Result<()> {
    check(shared, workflow, message, || format!("the message `{name}`"))
}

fn check(shared: &Shared, workflow: &str, payload: &Payload, what: impl FnOnce() -> String) -> Result<()> {
    let definition = shared.definitions.get(workflow);
    let max = definition.map_or(PAYLOAD_BYTES_MAX, |definition| {
        definition.bounds(shared.config.bounds).payload_bytes_max
    });
    let bytes = payload.bytes.len();
    if bytes > max {
        let what = what();
        return Err(Error::TooLarge { what, bytes, max });
    }
    Ok(())
}

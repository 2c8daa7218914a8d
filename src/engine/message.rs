//! Messages that a workflow can receive.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Something that can be sent to an instance. Derive it:
///
/// ```
/// use everstep::Message;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Message, Serialize, Deserialize)]
/// struct Approval {
///     approved: bool,
/// }
/// assert_eq!(Approval::NAME, "Approval");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a message",
    label = "not a message",
    note = "make it one where it is defined: `#[derive(Message, Serialize, Deserialize)]`"
)]
pub trait Message: Serialize + DeserializeOwned + Send + 'static {
    /// The name by which messages of this type wait in an inbox.
    const NAME: &'static str;
}

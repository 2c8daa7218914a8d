//! Messages that a workflow can receive.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::storage::record::Failure;

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

/// A message that expects an answer. Derive it with [`Message`](macro@crate::Message) and say what the answer is:
///
/// ```
/// use everstep::Message;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Message, Serialize, Deserialize)]
/// #[message(reply(u32))]
/// struct Price {
///     of: String,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the message `{Self}` expects no answer",
    label = "not a question",
    note = "say what the answer is where it is defined: `#[message(reply(Answer))]`"
)]
pub trait Question: Message {
    /// The answer.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

/// One of several messages that a workflow accepts: an enum that derives it, with a message in each variant.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a choice of messages that `{W}` accepts",
    label = "not a choice of messages of this workflow",
    note = "derive `Messages` for an enum with one message in each variant, all of which the workflow accepts"
)]
pub trait Messages<W>: Sized + Send + 'static {
    /// What the wait is called in the history.
    const NAME: &'static str;
    /// The names of the messages.
    const NAMES: &'static [&'static str];

    /// Reads the message of this name, if it is one of them.
    #[doc(hidden)]
    fn decode(name: &str, decoder: &mut crate::engine::Decoder<'_>) -> Option<Result<Self, Failure>>;
}

//! What goes to other instances: staged in the commit that decides it, carried by the courier afterwards.

use crate::clock::Millis;
use crate::engine::derived;
use crate::engine::execution::Execution;
use crate::engine::request::SendRequest;
use crate::ids::MessageId;
use crate::limits::{OUTGOING_BYTES_MAX, OUTGOING_MAX};
use crate::location::Location;
use crate::storage::Commit;
use crate::storage::record::{Content, EntryKind, Message, Outgoing, Parcel};

/// What the next commit puts into the outbox. Bounded: what does not fit waits for the commit after it.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    staged: Vec<Outgoing>,
    bytes: usize,
}

impl Outbox {
    /// Whether something with a payload of this size has to wait for the next commit.
    pub(crate) fn is_full_for(&self, bytes: usize) -> bool {
        !self.staged.is_empty() && (self.staged.len() >= OUTGOING_MAX || self.bytes + bytes > OUTGOING_BYTES_MAX)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Adds what is small and has to go with this commit, however much there is.
    pub(crate) fn extend(&mut self, outgoing: impl IntoIterator<Item = Outgoing>) {
        self.staged.extend(outgoing);
    }

    /// Adds something for another instance.
    pub(crate) fn put(&mut self, to: impl Into<String>, bytes: usize, parcel: Parcel) {
        self.bytes += bytes;
        self.staged.push(Outgoing { to: to.into(), parcel });
    }
}

impl Execution {
    /// Puts what was staged into the commit that makes `revision`.
    pub(crate) fn post(&mut self, commit: &mut Commit, revision: u64) {
        let outbox = std::mem::take(&mut self.outbox);
        for (index, outgoing) in (0..).zip(&outbox.staged) {
            commit.post(&self.namespace, revision, index, outgoing);
        }
        self.posted |= !outbox.is_empty();
    }

    /// A message that the code sends: complete as soon as it is durably on its way.
    pub(crate) fn begin_send(&mut self, location: Location, request: SendRequest, now: Millis) {
        let id = self.derive(&location, "message");
        let kind = EntryKind::Sent {
            to: request.to.to_string(),
            name: request.name().to_owned(),
            id: id.clone(),
        };
        let SendRequest {
            to,
            content,
            dead_letter,
        } = request;
        let bytes = content.bytes();
        let message = self.own_message(id, content, now);
        self.outbox.put(to, bytes, Parcel::Message { message, dead_letter });
        self.finished.push((location, kind));
    }

    /// A message of this instance to another one.
    pub(crate) fn own_message(&self, id: MessageId, content: Content, sent_at_ms: Millis) -> Message {
        Message {
            id,
            sent_at_ms,
            from: Some(self.namespace.instance().to_string()),
            content,
        }
    }

    /// The id of what is made at a place.
    pub(crate) fn derive(&self, location: &Location, what: &str) -> MessageId {
        let id = derived::id(self.origin.secret, self.state.run, location, what);
        MessageId::new(id).expect("hexadecimal digits are an id")
    }
}

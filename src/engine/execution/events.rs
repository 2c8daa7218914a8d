//! Events: telling topics of what is published, who waits, and who does no more.

use crate::clock::Millis;
use crate::engine::bounds::Exceeded;
use crate::engine::execution::Execution;
use crate::engine::journal::{Journal, Looked};
use crate::engine::request::{OutsideRequest, PublishRequest, Until};
use crate::engine::topic::{Event, Note, Waiter, is_topic, topic_of};
use crate::ids::MessageId;
use crate::limits::EVENT_WAITS_MAX;
use crate::location::Location;
use crate::storage::record::{Content, Decided, EntryKind, Failure, Message, Parcel, Reach};

impl Execution {
    /// An event that the code publishes: complete as soon as it is durably on its way.
    pub(crate) fn begin_publish(&mut self, location: Location, request: PublishRequest, now: Millis) {
        let PublishRequest {
            topic,
            payload,
            to_one,
            keep_ms,
        } = request;
        let id = self.derive(&location, "event");
        let event = Event {
            payload,
            to_one,
            expires_at_ms: now.saturating_add(keep_ms),
        };
        self.tell_topic(topic_of(topic).as_str(), id.clone(), &Note::Published(event), now);
        let topic = topic.to_owned();
        self.finished.push((location, EntryKind::Publish { topic, id }));
    }

    /// A wait for an event. The topic is told once, in the commit that records it.
    pub(crate) fn begin_event(&mut self, location: Location, topic: &str, until: Option<Until>, now: Millis) {
        if self.undecided.events() >= EVENT_WAITS_MAX && !self.is_recorded(&location) {
            let refused = Failure::from(Exceeded::Events { max: EVENT_WAITS_MAX });
            let kind = EntryKind::Event {
                topic: topic.to_owned(),
                until_ms: None,
                decided: Some(Decided::Failed(refused)),
            };
            self.finished.push((location, kind));
            return;
        }
        let kind = EntryKind::Event {
            topic: topic.to_owned(),
            until_ms: None,
            decided: None,
        };
        let id = self.derive(&location, "wait");
        let begun = self.begin_outside(location.clone(), OutsideRequest { kind, until }, now);
        self.undecided.is_for_event(&location);
        // A copy that was imported stands in no list here: the topic that was told is that of the original. It is told
        // whenever the copy comes to memory, which is once too often and does no harm; but not of a wait that ends in this
        // very commit, or its place there would be nobody's.
        let is_copy = self.origin.seed.is_some();
        let again = || {
            let entry = self.journal.lock().entries.get(&location).map(|entry| entry.id)?;
            let mut inbox = self.inbox.iter();
            (!inbox.any(|(_, message)| message.content.settles(entry))).then_some(entry)
        };
        if let Some(entry) = begun.or_else(|| is_copy.then(again).flatten()) {
            let waiter = self.waiter(Journal::began_in(entry), entry);
            self.tell_topic(topic_of(topic).as_str(), id, &Note::Waits(waiter), now);
        }
    }

    /// Nobody waits here any more. If it was for an event, the topic is told: whatever it has handed over by then and
    /// was not taken goes to the next one who waits. Told once, since replay comes by here again.
    pub(crate) fn give_up_event(&mut self, location: &Location, now: Millis) {
        let given_up = self.journal.lock().give_up_event(location);
        let Some((entry, topic)) = given_up else { return };
        let told = self.farewell(now).to_topic(location, entry, &topic);
        self.outbox.extend([told]);
    }

    /// Tells a topic that nobody waits here for what it had handed over.
    pub(crate) fn return_event(&mut self, message: &Message, now: Millis) {
        let (Some(from), Content::Settled { run, entry, .. }) = (&message.from, &message.content) else {
            return;
        };
        if is_for_one(message) {
            let note = Note::Returned(self.waiter(*run, *entry));
            let answer = MessageId::new(format!("{}-false", message.id)).expect("an id and a word are an id");
            self.tell_topic(from, answer, &note, now);
        }
    }

    /// Tells topics what the code has looked at, and what it has dropped unread.
    pub(crate) fn tell_what_was_looked_at(&mut self, now: Millis) {
        let looked = self.journal.lock().take_looked();
        for looked in looked {
            let Looked {
                location,
                entry,
                topic,
                taken,
            } = looked;
            let farewell = self.farewell(now);
            let told = if taken {
                farewell.taken(&location, entry, &topic)
            } else {
                farewell.to_topic(&location, entry, &topic)
            };
            self.outbox.extend([told]);
        }
    }

    fn waiter(&self, run: u32, entry: u64) -> Waiter {
        let instance = self.namespace.instance().to_string();
        Waiter { instance, run, entry }
    }

    fn tell_topic(&mut self, topic: &str, id: MessageId, note: &Note, now: Millis) {
        let content = note.content();
        let bytes = content.bytes();
        let message = self.own_message(id, content, now);
        let dead_letter = false;
        self.outbox.put(topic, bytes, Parcel::Message { message, dead_letter });
    }
}

/// Whether it is an event for one, of which the topic wants to know what becomes of it.
pub(super) fn is_for_one(message: &Message) -> bool {
    let wants_to_know = matches!(
        message.content,
        Content::Settled {
            reach: Reach::Waiting,
            decided: Decided::Completed(_),
            ..
        }
    );
    wants_to_know && message.from.as_deref().is_some_and(is_topic)
}

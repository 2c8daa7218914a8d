//! What the end of an instance means to others: its parent is told, its children are closed, topics hear that it no
//! longer waits.

use crate::clock::Millis;
use crate::engine::derived;
use crate::engine::journal::{Journal, concerns};
use crate::engine::schedule::{self, schedule_name};
use crate::engine::topic::{Note, Waiter, topic_of};
use crate::ids::{InstanceId, MessageId};
use crate::limits::CLOSING_MAX;
use crate::location::Location;
use crate::storage::record::{
    ChildState, ClosePolicy, Closing, Content, Decided, Entry, EntryKind, Message, Origin, Outgoing, Parcel, Reach,
};

/// An instance that ends, or that lets go of what it waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Farewell<'a> {
    pub(crate) instance: &'a InstanceId,
    pub(crate) origin: &'a Origin,
    pub(crate) run: u32,
    pub(crate) now: Millis,
}

impl Farewell<'_> {
    /// How the instance ended, for the parent, if it wants to know.
    pub(crate) fn to_parent(self, decided: &Decided, reach: Reach) -> Option<Outgoing> {
        let parent = self.origin.parent.as_ref().filter(|parent| parent.awaited)?;
        let content = match schedule_name(&parent.instance) {
            Some(_) => schedule::ended(),
            None => Content::Settled {
                run: parent.run,
                entry: parent.entry,
                decided: decided.clone(),
                reach,
            },
        };
        Some(self.message(&parent.instance, &Location::root(), "end", content))
    }

    /// How a child ended, for the instance itself: there is nobody else any more who could tell.
    pub(crate) fn to_itself(self, location: &Location, entry: u64, decided: Decided) -> Outgoing {
        let settled = Content::Settled {
            run: Journal::began_in(entry),
            entry,
            decided,
            reach: Reach::Waiting,
        };
        self.message(self.instance.as_str(), location, "gone", settled)
    }

    /// What children are told that have not ended, by their close policies.
    pub(crate) fn to_children<'c>(
        self,
        children: impl IntoIterator<Item = (&'c Location, &'c ChildState)>,
        reason: &str,
    ) -> Vec<Outgoing> {
        let open = children.into_iter().filter(|(_, child)| child.is_open());
        let closing: Vec<_> = open.map(|(location, child)| self.closing(location, child)).collect();
        let parcel = |children: &[Closing]| Outgoing {
            to: children[0].instance.clone(),
            parcel: Parcel::Close {
                reason: reason.to_owned(),
                children: children.to_vec(),
            },
        };
        closing.chunks(CLOSING_MAX).map(parcel).collect()
    }

    fn closing(self, location: &Location, child: &ChildState) -> Closing {
        let asks = (child.close != ClosePolicy::Terminate).then(|| self.id(location, "close"));
        let instance = child.instance.clone();
        Closing { instance, asks }
    }

    /// What others are told when these entries are given up: children to end, topics that nobody waits.
    pub(crate) fn to_others(self, entries: &[(Location, Entry)], reason: &str) -> Vec<Outgoing> {
        let children = entries.iter().filter_map(|(location, entry)| match &entry.kind {
            EntryKind::Child(child) => Some((location, child)),
            _ => None,
        });
        let mut told = self.to_children(children, reason);
        for (location, entry) in entries {
            if let Some(topic) = concerns(entry) {
                told.push(self.to_topic(location, entry.id, topic));
            }
        }
        told
    }

    /// What a topic is told when the wait at a place is over without an event, or its event was dropped unread.
    pub(crate) fn to_topic(self, location: &Location, entry: u64, topic: &str) -> Outgoing {
        let told = Note::GaveUp(self.waiter(entry)).content();
        self.message(topic_of(topic).as_str(), location, "gave up", told)
    }

    /// What a topic is told when the event that the wait at a place was given is nobody else's any more.
    pub(crate) fn taken(self, location: &Location, entry: u64, topic: &str) -> Outgoing {
        let told = Note::Taken(self.waiter(entry)).content();
        self.message(topic_of(topic).as_str(), location, "taken", told)
    }

    fn waiter(self, entry: u64) -> Waiter {
        // The wait may have begun in an earlier run, of which a reset has kept it.
        let (instance, run) = (self.instance.to_string(), Journal::began_in(entry));
        Waiter { instance, run, entry }
    }

    /// A message from this instance to another one.
    pub(crate) fn message(&self, to: &str, location: &Location, what: &str, content: Content) -> Outgoing {
        let message = Message {
            id: self.id(location, what),
            sent_at_ms: self.now,
            from: Some(self.instance.to_string()),
            content,
        };
        Outgoing {
            to: to.to_owned(),
            parcel: Parcel::Message {
                message,
                dead_letter: false,
            },
        }
    }

    fn id(&self, location: &Location, what: &str) -> MessageId {
        let id = derived::id(self.origin.secret, self.run, location, what);
        MessageId::new(id).expect("hexadecimal digits are an id")
    }
}

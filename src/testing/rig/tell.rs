//! What is told to an instance: now, or when some time has passed.
//!
//! All of it goes through the inbox, as it does in life: once told it is durable, and a crash does not take it back.

use std::time::Duration;

use super::{Planned, Rig};
use crate::clock::{Clock, Millis};
use crate::engine::{Accepts, InvalidToken, Message, PromiseToken, Question, Workflow, rejected, resolved};
use crate::ids::MessageId;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::record::{self, Content, Decided, Origin};
use crate::storage::{self, Commit, Namespace, Refusal};

impl<W: Workflow> Rig<W> {
    /// Sends a message to an instance.
    pub fn send<M: Message>(&mut self, id: &str, message: &M)
    where
        W: Accepts<M>,
    {
        let message = self.told(message);
        let delivered = self.deliver(&self.namespace(id), &message);
        delivered.expect("a message is accepted");
    }

    /// Sends a message to an instance when this much time has passed, if it still runs then.
    pub fn send_after<M: Message>(&mut self, id: &str, after: Duration, message: &M)
    where
        W: Accepts<M>,
    {
        let message = self.told(message);
        self.plan_after(id, after, Planned::Message(message));
    }

    /// Asks an instance a question. Gives the id under which the answer is found.
    pub fn ask<Q: Question>(&mut self, id: &str, question: &Q) -> String
    where
        W: Accepts<Q>,
    {
        let message = self.asked(question);
        let delivered = self.deliver(&self.namespace(id), &message);
        delivered.expect("a question is accepted");
        message.id.to_string()
    }

    /// Asks an instance a question when this much time has passed. Gives the id under which the answer is found.
    pub fn ask_after<Q: Question>(&mut self, id: &str, after: Duration, question: &Q) -> String
    where
        W: Accepts<Q>,
    {
        let message = self.asked(question);
        let question = message.id.to_string();
        self.plan_after(id, after, Planned::Message(message));
        question
    }

    /// Asks an instance to end.
    pub fn cancel(&mut self, id: &str, reason: &str) {
        self.cancel_after(id, Duration::ZERO, reason);
    }

    /// Asks an instance to end when this much time has passed.
    pub fn cancel_after(&mut self, id: &str, after: Duration, reason: &str) {
        let reason = reason.to_owned();
        self.tell_after(id, after, Content::Cancel { reason });
    }

    /// Holds an instance.
    pub fn pause(&mut self, id: &str) {
        let message = self.message(Content::Pause);
        let delivered = self.deliver(&self.namespace(id), &message);
        delivered.expect("a message is accepted");
    }

    /// Holds an instance when this much time has passed.
    pub fn pause_after(&mut self, id: &str, after: Duration) {
        self.tell_after(id, after, Content::Pause);
    }

    /// Lets an instance go on when this much time has passed.
    pub fn resume_after(&mut self, id: &str, after: Duration) {
        self.tell_after(id, after, Content::Resume);
    }

    /// Decides the operation at a path when this much time has passed: a child, an event, a promise.
    pub fn settle_after<T: serde::Serialize>(&mut self, id: &str, after: Duration, path: &str, value: &T) {
        let payload = self.store.codecs().pack(value).expect("the value can be stored");
        self.plan_after(id, after, Planned::Settle(path.to_owned(), resolved(payload)));
    }

    /// Decides the operation at a path against it when this much time has passed.
    pub fn reject_after(&mut self, id: &str, after: Duration, path: &str, reason: &str) {
        self.plan_after(id, after, Planned::Settle(path.to_owned(), rejected(reason)));
    }

    /// Keeps a promise. Tells whether it was the first decision.
    pub fn resolve<T: serde::Serialize>(&mut self, token: &str, value: &T) -> Result<bool, InvalidToken> {
        let token: PromiseToken = token.parse()?;
        let namespace = self.namespace(token.instance().as_str());
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let origin: Option<Origin> = namespace
            .get(&*snapshot, &Local::Meta(Meta::Origin))
            .expect("it can be read");
        token.verify(origin.expect("the instance exists").secret)?;
        let payload = self.store.codecs().pack(value).expect("the value can be stored");
        let message = token.settle(resolved(payload), self.clock.now_ms());
        match self.deliver(&namespace, &message) {
            Ok(_) => Ok(true),
            Err(storage::Error::Refused(Refusal::Duplicate(_))) => Ok(false),
            Err(error) => panic!("a decision is accepted: {error}"),
        }
    }

    fn told<M: Message>(&mut self, message: &M) -> record::Message {
        let payload = self.store.codecs().pack(message).expect("the message can be stored");
        let name = M::NAME.to_owned();
        self.message(Content::Told { name, payload })
    }

    fn asked<Q: Question>(&mut self, question: &Q) -> record::Message {
        let payload = self.store.codecs().pack(question).expect("the question can be stored");
        let name = Q::NAME.to_owned();
        self.message(Content::Asked { name, payload })
    }

    fn tell_after(&mut self, id: &str, after: Duration, content: Content) {
        let message = self.message(content);
        self.plan_after(id, after, Planned::Message(message));
    }

    fn plan_after(&mut self, id: &str, after: Duration, planned: Planned) {
        let at = self.clock.now_ms() + u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        let number = self.planned.keys().map(|(_, number)| number + 1).max().unwrap_or(0);
        let instance = self.namespace(id).instance().clone();
        self.planned.insert((at, number), (instance, planned));
    }

    fn message(&mut self, content: Content) -> record::Message {
        self.messages += 1;
        let id = MessageId::new(format!("message-{}", self.messages)).expect("a number is an id");
        record::Message {
            id,
            sent_at_ms: self.clock.now_ms(),
            from: None,
            content,
        }
    }

    /// Puts a message into the inbox. An instance that has ended, or that has seen it, refuses.
    fn deliver(&mut self, namespace: &Namespace, message: &record::Message) -> storage::Result<storage::Receipt> {
        self.arrivals += 1;
        let arrival = Arrival {
            epoch: 1,
            number: self.arrivals,
        };
        let mut commit = Commit::new(namespace.shard());
        commit.deliver(namespace, arrival, message);
        self.write(commit)
    }

    /// Whatever is due by now is told. Tells whether there was anything.
    pub(super) fn tell_due(&mut self, namespace: &Namespace) -> bool {
        let now = self.clock.now_ms();
        let due = self
            .planned
            .iter()
            .filter(|((at, _), (instance, _))| *at <= now && instance == namespace.instance());
        let due: Vec<(Millis, u64)> = due.map(|(key, _)| *key).collect();
        for key in &due {
            let Some((_, planned)) = self.planned.remove(key) else {
                continue;
            };
            let message = match planned {
                Planned::Message(message) => message,
                Planned::Settle(path, decided) => self.settlement(namespace, &path, decided),
            };
            match self.deliver(namespace, &message) {
                // It has ended, and nothing is told to it any more.
                Ok(_) | Err(storage::Error::Refused(_)) => {}
                Err(error) => panic!("a message is accepted: {error}"),
            }
        }
        !due.is_empty()
    }

    fn settlement(&mut self, namespace: &Namespace, path: &str, decided: Decided) -> record::Message {
        let id = namespace.instance().as_str();
        let (run, entry) = (self.state(id).run, self.history(id).get(path).map(|entry| entry.id));
        let entry = entry.unwrap_or_else(|| panic!("nothing is recorded at `{path}`"));
        let reach = record::Reach::Waiting;
        self.message(Content::Settled {
            run,
            entry,
            decided,
            reach,
        })
    }
}

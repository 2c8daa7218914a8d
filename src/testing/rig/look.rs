//! What can be seen of an instance from outside.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::{End, Rig};
use crate::engine::{Question, Workflow, answer_to};
use crate::ids::MessageId;
use crate::location::Location;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::{Decided, Emitted, Entry, Failure, Hold, Name, Output, Published, State};
use crate::storage::value::Record;
use crate::storage::{Namespace, Rows};

impl<W: Workflow> Rig<W> {
    /// How many messages wait to be taken.
    pub fn inbox_len(&self, id: &str) -> usize {
        self.inbox(&self.namespace(id)).len()
    }

    /// The entries of an instance, by path.
    pub fn history(&self, id: &str) -> BTreeMap<String, Entry> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        history_of(&namespace, &*snapshot)
    }

    /// Steps with recorded attempts.
    pub fn attempts_len(&self, id: &str) -> usize {
        let (namespace, mut rows) = (self.namespace(id), 0);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let listed = namespace.list(&*snapshot, Rows::Attempts, &mut |_, _| {
            rows += 1;
            Ok(())
        });
        listed.expect("attempts can be read");
        rows
    }

    /// What the code has emitted and is still kept, oldest first, each with its number.
    pub fn emitted<T: DeserializeOwned>(&self, id: &str) -> Vec<(u64, T)> {
        let (namespace, mut items) = (self.namespace(id), Vec::new());
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let listed = namespace.list(&*snapshot, Rows::Emitted, &mut |local, row| {
            if let Local::Emitted(number) = local {
                items.push((number, row.decode::<Emitted>()?.payload));
            }
            Ok(())
        });
        listed.expect("items can be read");
        let unpack = |(number, payload)| (number, self.unpack(&payload));
        items.into_iter().map(unpack).collect()
    }

    /// What the code has published under a name.
    pub fn published<T: DeserializeOwned>(&self, id: &str, name: &str) -> Option<T> {
        let published: Option<Published> = self.get(id, &Local::Published(name.into()));
        published.map(|Published(payload)| self.unpack(&payload))
    }

    /// The answer to a question, or why there is none; nothing while it is open.
    pub fn answer<Q: Question>(&self, id: &str, question: &str) -> Option<Result<Q::Reply, Failure>> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let question = MessageId::new(question).expect("the id of a question");
        let decided = answer_to(&namespace, &*snapshot, &question).expect("it can be read");
        decided.map(|decided| match decided {
            Decided::Completed(payload) => Ok(self.unpack(&payload)),
            Decided::Failed(failure) => Err(failure),
        })
    }

    /// How many answers are stored.
    pub fn answers_len(&self, id: &str) -> usize {
        let (namespace, mut rows) = (self.namespace(id), 0);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let listed = namespace.list(&*snapshot, Rows::Answers, &mut |_, _| {
            rows += 1;
            Ok(())
        });
        listed.expect("answers can be read");
        rows
    }

    /// What the code has told whoever happened to listen.
    pub fn broadcasts<T: DeserializeOwned>(&self) -> Vec<T> {
        self.broadcasts.iter().map(|payload| self.unpack(payload)).collect()
    }

    fn unpack<T: DeserializeOwned>(&self, payload: &Payload) -> T {
        let unpacked = self.store.codecs().unpack(payload);
        unpacked.expect("what is stored is of the type that is asked for")
    }

    fn get<R: Record>(&self, id: &str, local: &Local<'_>) -> Option<R> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        namespace.get(&*snapshot, local).expect("a row can be read")
    }

    pub(super) fn end(&self, id: &str) -> End<W::Output> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let output: Option<Output> = namespace
            .get(&*snapshot, &Local::Meta(Meta::Output))
            .expect("it can be read");
        if let Some(Output(payload)) = output {
            return End::Completed(self.store.codecs().unpack(&payload).expect("the output is of its type"));
        }
        let failure: Option<Failure> = namespace
            .get(&*snapshot, &Local::Meta(Meta::Failure))
            .expect("it can be read");
        failure.map_or(End::Waiting, End::Failed)
    }

    /// Why an instance is kept from going on, if it is.
    pub fn hold(&self, id: &str) -> Option<Hold> {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        namespace
            .get(&*snapshot, &Local::Meta(Meta::Hold))
            .expect("it can be read")
    }

    /// What is recorded of where an instance stands.
    pub fn state(&self, id: &str) -> State {
        let namespace = self.namespace(id);
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let state = namespace
            .get(&*snapshot, &Local::Meta(Meta::State))
            .expect("it can be read");
        state.expect("the instance exists")
    }
}

/// The entries in a namespace, by path.
pub(in crate::testing) fn history_of(namespace: &Namespace, snapshot: &dyn Snapshot) -> BTreeMap<String, Entry> {
    let (mut names, mut history) = (Vec::new(), BTreeMap::new());
    let listed = namespace.list(snapshot, Rows::Names, &mut |_, row| {
        names.push(row.decode::<Name>()?.0);
        Ok(())
    });
    listed.expect("names can be read");
    let listed = namespace.list(snapshot, Rows::History(&Location::root()), &mut |local, row| {
        if let Local::History(location) = local {
            history.insert(location.path(&names), row.decode::<Entry>()?);
        }
        Ok(())
    });
    listed.expect("a history can be read");
    history
}

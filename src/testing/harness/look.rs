//! What can be seen of an instance from outside.

use std::collections::BTreeMap;

use super::{End, Harness};
use crate::engine::Workflow;
use crate::location::{Location, Segment};
use crate::storage::Rows;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{Entry, Failure, Name, Output, State};

impl<W: Workflow> Harness<W> {
    /// How many messages wait to be taken.
    pub fn inbox_len(&self, id: &str) -> usize {
        self.inbox(&self.namespace(id)).len()
    }

    /// The entries of an instance, by path.
    pub fn history(&self, id: &str) -> BTreeMap<String, Entry> {
        let (namespace, mut history) = (self.namespace(id), BTreeMap::new());
        let snapshot = self
            .store
            .snapshot(namespace.shard())
            .expect("a store in memory can be read");
        let mut names = Vec::new();
        let listed = namespace.list(&*snapshot, Rows::Names, &mut |_, row| {
            names.push(row.decode::<Name>()?.0);
            Ok(())
        });
        listed.expect("names can be read");
        let name = |index: &u32| names[*index as usize].clone();
        let text = |segment: &Segment| match segment {
            Segment::Name(index) => name(index),
            Segment::Iteration { name: index, number } => format!("{}~{number}", name(index)),
        };
        let listed = namespace.list(&*snapshot, Rows::History(&Location::root()), &mut |local, row| {
            if let Local::History(location) = local {
                let path: Vec<_> = location.segments().iter().map(text).collect();
                history.insert(path.join("/"), row.decode::<Entry>()?);
            }
            Ok(())
        });
        listed.expect("a history can be read");
        history
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

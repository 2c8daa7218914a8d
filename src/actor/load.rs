//! Reading an instance from its namespace.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::Loaded;
use crate::location::Location;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Arrival, Local, Meta};
use crate::storage::record::{Attempts, Entry, Input, Message, Name, Origin, State};
use crate::storage::{Error, Namespace, Result, Rows};

/// Everything that the engine needs of an instance; none if there is no such instance.
pub(crate) fn load(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<Option<Loaded>> {
    let Some(state) = namespace.get::<State>(snapshot, &Local::Meta(Meta::State))? else {
        return Ok(None);
    };
    let missing = |what| Error::Corrupt(format!("instance {} has no {what}", namespace.instance()));
    let origin = namespace
        .get::<Origin>(snapshot, &Local::Meta(Meta::Origin))?
        .ok_or_else(|| missing("origin"))?;
    let Input(input) = namespace
        .get::<Input>(snapshot, &Local::Meta(Meta::Input))?
        .ok_or_else(|| missing("input"))?;
    let mut names = Vec::new();
    namespace.list(snapshot, Rows::Names, &mut |_, row| {
        let Name(name) = row.decode()?;
        names.push(name);
        Ok(())
    })?;
    let mut entries = Vec::new();
    namespace.list(snapshot, Rows::History(&Location::root()), &mut |local, row| {
        if let Local::History(location) = local {
            entries.push((location.into_owned(), row.decode::<Entry>()?));
        }
        Ok(())
    })?;
    if entries.len() as u64 != state.entries {
        let (instance, found, expected) = (namespace.instance(), entries.len(), state.entries);
        return Err(Error::Corrupt(format!(
            "instance {instance} has {found} entries of {expected}"
        )));
    }
    let mut attempts = BTreeMap::new();
    namespace.list(snapshot, Rows::Attempts, &mut |local, row| {
        if let Local::Attempts(entry) = local {
            attempts.insert(entry, row.decode::<Attempts>()?);
        }
        Ok(())
    })?;
    let inbox = inbox(namespace, snapshot)?;
    Ok(Some(Loaded {
        origin,
        state,
        input,
        names,
        entries,
        attempts,
        inbox,
        crashes: 0,
    }))
}

/// The messages that wait, oldest first.
pub(crate) fn inbox(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<VecDeque<(Arrival, Message)>> {
    let mut inbox = VecDeque::new();
    namespace.list(snapshot, Rows::Inbox, &mut |local, row| {
        if let Local::Inbox(arrival) = local {
            inbox.push_back((arrival, row.decode::<Message>()?));
        }
        Ok(())
    })?;
    Ok(inbox)
}

//! Reading an instance from its namespace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::actor::gate;
use crate::engine::Loaded;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::engine::Snapshot;
use crate::storage::key::{Arrival, Key, Local, Meta};
use crate::storage::record::{Attempts, Entry, Input, Message, Name, Origin, Priority, Runnable, State};
use crate::storage::{Error, InFlight, Namespace, Result, Rows, Store, value};

/// Everything that the engine needs of an instance; none if there is no such instance.
#[cfg(feature = "testing")]
pub(crate) fn load(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<Option<Loaded>> {
    match state(namespace, snapshot)? {
        Some(state) => load_from(namespace, snapshot, state).map(Some),
        None => Ok(None),
    }
}

/// How far an instance is; none if there is no such instance.
pub(crate) fn state(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<Option<State>> {
    namespace.get(snapshot, &Local::Meta(Meta::State))
}

/// Everything that the engine needs of an instance that is so far.
pub(crate) fn load_from(namespace: &Namespace, snapshot: &dyn Snapshot, state: State) -> Result<Loaded> {
    let missing = |what| Error::Corrupt(format!("instance {} has no {what}", namespace.instance()));
    let origin = namespace
        .get::<Origin>(snapshot, &Local::Meta(Meta::Origin))?
        .ok_or_else(|| missing("origin"))?;
    let Input(input) = namespace
        .get::<Input>(snapshot, &Local::Meta(Meta::Input))?
        .ok_or_else(|| missing("input"))?;
    let inbox = inbox(namespace, snapshot)?;
    let mut loaded = Loaded {
        origin,
        state,
        input,
        names: Vec::new(),
        entries: Vec::new(),
        attempts: BTreeMap::new(),
        inbox,
        published: BTreeSet::new(),
        crashed: InFlight::default(),
    };
    // An instance that was only started has no history to look for, and most are loaded just then.
    if loaded.state.revision > 1 {
        history(namespace, snapshot, &mut loaded)?;
    }
    Ok(loaded)
}

/// What the instance has done so far.
fn history(namespace: &Namespace, snapshot: &dyn Snapshot, loaded: &mut Loaded) -> Result<()> {
    namespace.list(snapshot, Rows::Names, &mut |local, row| {
        let Name(name) = row.decode()?;
        // With one of them missing, all that follow would be names of something else.
        if local != Local::Name(u32::try_from(loaded.names.len()).unwrap_or(u32::MAX)) {
            let (instance, found) = (namespace.instance(), loaded.names.len());
            return Err(Error::Corrupt(format!(
                "instance {instance} has a gap behind {found} names"
            )));
        }
        loaded.names.push(name);
        Ok(())
    })?;
    namespace.list(snapshot, Rows::History(&Location::root()), &mut |local, row| {
        if let Local::History(location) = local {
            let entry = row.decode::<Entry>()?;
            if let Some(flaw) = entry.flaw() {
                let instance = namespace.instance();
                return Err(Error::Corrupt(format!("instance {instance} has {flaw}")));
            }
            loaded.entries.push((location.into_owned(), entry));
        }
        Ok(())
    })?;
    if loaded.entries.len() as u64 != loaded.state.entries {
        let (instance, found, expected) = (namespace.instance(), loaded.entries.len(), loaded.state.entries);
        return Err(Error::Corrupt(format!(
            "instance {instance} has {found} entries of {expected}"
        )));
    }
    namespace.list(snapshot, Rows::Attempts, &mut |local, row| {
        if let Local::Attempts(entry) = local {
            loaded.attempts.insert(entry, row.decode::<Attempts>()?);
        }
        Ok(())
    })?;
    namespace.list(snapshot, Rows::Published, &mut |local, _| {
        if let Local::Published(name) = local {
            loaded.published.insert(name.into_owned());
        }
        Ok(())
    })
}

/// The messages that wait, oldest first.
pub(crate) fn inbox(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<VecDeque<(Arrival, Message)>> {
    inbox_behind(namespace, snapshot, None)
}

/// Those of them that came behind this one.
pub(crate) fn inbox_behind(
    namespace: &Namespace,
    snapshot: &dyn Snapshot,
    behind: Option<Arrival>,
) -> Result<VecDeque<(Arrival, Message)>> {
    let mut inbox = VecDeque::new();
    let rows = behind.map_or(Rows::Inbox, Rows::InboxBehind);
    namespace.list(snapshot, rows, &mut |local, row| {
        if let Local::Inbox(arrival) = local {
            inbox.push_back((arrival, row.decode::<Message>()?));
        }
        Ok(())
    })?;
    Ok(inbox)
}

/// Deaths of the process that the runnable row of an instance counts.
pub(crate) fn activations(namespace: &Namespace, snapshot: &dyn Snapshot) -> Result<u32> {
    let key = Key::Runnable(namespace.shard(), namespace.instance().as_str().into()).pack();
    let Some(value) = snapshot.get(&key)? else {
        return Ok(0);
    };
    match value::decode::<Runnable>(&key, &value) {
        Ok(runnable) => Ok(runnable.activations),
        // It says that the instance has to run, and so it does. The count is lost, and begins anew.
        Err(error) => {
            tracing::error!(instance = %namespace.instance(), %error, "a runnable row is damaged");
            Ok(0)
        }
    }
}

/// The type name of an instance's workflow, and its priority, as far as they can be told.
pub(crate) fn standing(store: &Store, instance: &InstanceId) -> (Arc<str>, Priority) {
    let namespace = store.namespace(instance);
    let flow = store
        .snapshot(namespace.shard())
        .and_then(|snapshot| gate::flow(&namespace, &*snapshot));
    (workflow(store, instance), flow.unwrap_or_default().priority)
}

/// The type name of an instance's workflow; empty if that can't be told.
pub(crate) fn workflow(store: &Store, instance: &InstanceId) -> Arc<str> {
    let namespace = store.namespace(instance);
    let origin = store
        .snapshot(namespace.shard())
        .and_then(|snapshot| namespace.get::<Origin>(&*snapshot, &Local::Meta(Meta::Origin)));
    // What is wrong with it is found when it is loaded.
    origin
        .ok()
        .flatten()
        .map_or_else(|| Arc::from(""), |origin| origin.workflow.into())
}

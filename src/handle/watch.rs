//! `watch`: what changes, as it changes.

use std::sync::Arc;

use tokio::sync::broadcast;

use crate::actor::Shared;
use crate::handle::{AnyHandle, Result, look, wait};
use crate::ids::InstanceId;
use crate::storage::record::Status;

/// Something of an instance was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Which instance.
    pub id: InstanceId,
    /// Its status when it was looked at; none if it was deleted.
    pub status: Option<Status>,
    /// Which run it is in.
    pub run: u32,
    /// Grows with every commit of the instance.
    pub revision: u64,
}

/// What a watcher of everybody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// An instance changed. What it is like now stands here, so several changes may look like one.
    Changed(Change),
    /// The watcher was too slow, and so many changes passed it by. Whoever needs them all lists the instances again.
    Lagged(u64),
}

/// Sees the changes of all instances of this process, from now on.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    changes: broadcast::Receiver<InstanceId>,
}

/// Sees the changes of one instance. It is never too slow: it sees the newest state, and what came before is gone.
#[derive(Debug)]
pub struct WatchOne {
    handle: AnyHandle,
    seen: Option<(u32, u64)>,
}

impl Watch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let changes = shared.changes.all();
        Self { shared, changes }
    }

    /// Waits for the next change; none when the runtime is gone.
    pub async fn next(&mut self) -> Result<Option<Watched>> {
        let id = match self.changes.recv().await {
            Ok(id) => id,
            Err(broadcast::error::RecvError::Lagged(missed)) => return Ok(Some(Watched::Lagged(missed))),
            Err(broadcast::error::RecvError::Closed) => return Ok(None),
        };
        change(&self.shared, &id).map(|change| Some(Watched::Changed(change)))
    }
}

impl AnyHandle {
    /// The changes of this instance, beginning with how it is now.
    pub fn watch(&self) -> WatchOne {
        WatchOne {
            handle: self.clone(),
            seen: None,
        }
    }
}

impl WatchOne {
    /// Waits for the next change; none after the instance has ended or was deleted.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        let AnyHandle { shared, instance } = &self.handle;
        let seen = self.seen;
        let change = wait::until(shared, instance, || {
            let change = change(shared, instance)?;
            let over = change.status.is_none_or(Status::is_terminal);
            let news = seen != Some((change.run, change.revision));
            Ok((news || over).then(|| news.then_some(change)))
        });
        let change = change.await?;
        self.seen = change
            .as_ref()
            .map(|change| (change.run, change.revision))
            .or(self.seen);
        Ok(change)
    }
}

fn change(shared: &Shared, id: &InstanceId) -> Result<Change> {
    let seen = look::instance(shared, id)?;
    let state = seen.as_ref().map(|seen| &seen.state);
    Ok(Change {
        id: id.clone(),
        status: state.map(|state| state.status),
        run: state.map_or(0, |state| state.run),
        revision: state.map_or(0, |state| state.revision),
    })
}

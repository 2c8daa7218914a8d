//! Children whose ids are taken when they are to be started.

use crate::actor::courier::delivery::{Build, Carried, Delivery, Hand};
use crate::actor::start::{new_run_commit, set_flow};
use crate::engine;
use crate::engine::schedule::{self, schedule_name};
use crate::ids::{InstanceId, MessageId};
use crate::storage::key::{Local, Meta};
use crate::storage::record::{
    Content, Decided, Failure, FailureKind, Flow, Message, Origin, Outgoing, Parcel, Parent, Reach, State,
};
use crate::storage::{self, Commit, Error, Posted, Refusal, Result};

impl<H: Hand> Delivery<'_, H> {
    /// There is an instance with the id of a child already: the child itself, or somebody else.
    pub(super) async fn exists(
        &self,
        row: &Posted,
        outgoing: &Outgoing,
        target: InstanceId,
        carried: &mut Carried,
    ) -> Result<()> {
        let (origin, input, flow) = match &outgoing.parcel {
            Parcel::Start { origin, input } => (origin, input, &Flow::default()),
            Parcel::StartWith { origin, input, flow } => (origin, input, flow),
            _ => return self.remove(row).await,
        };
        let namespace = self.store.namespace(&target);
        let snapshot = self.store.snapshot(namespace.shard())?;
        let found: Option<Origin> = namespace.get(&*snapshot, &Local::Meta(Meta::Origin))?;
        if let Some(found) = found {
            if found.parent == origin.parent && found.secret == origin.secret {
                carried.woken.push(target);
                return self.remove(row).await;
            }
            if is_of_an_earlier_run(&found, origin) {
                let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State))?;
                // One that has not ended was told to, and is waited for.
                let before = state.filter(|state| state.status.is_terminal());
                let before = before.ok_or(Error::Refused(Refusal::Exists))?;
                if storage::is_forgetting(&namespace, &before, &*snapshot)? {
                    return Err(Error::Refused(Refusal::Exists));
                }
                let created_at_ms = found.created_at_ms;
                let origin = Origin {
                    created_at_ms,
                    ..origin.clone()
                };
                let times = (self.now, None);
                let mut commit = new_run_commit(&namespace, &*snapshot, &origin, &before, input.clone(), times)?;
                set_flow(&mut commit, &namespace, flow);
                drop(snapshot);
                self.hand.commit(namespace.shard(), Box::new(|_| commit)).await?;
                carried.woken.push(target);
                return self.remove(row).await;
            }
        }
        drop(snapshot);
        let message = format!("the id `{target}` belongs to another instance");
        match &origin.parent {
            Some(parent) if parent.awaited => {
                let refused = (target.as_str(), origin);
                self.tell_parent(row, refused, parent, message, carried).await
            }
            _ => {
                tracing::error!(sender = %row.from, message, "a child could not be started");
                self.remove(row).await
            }
        }
    }

    /// Tells a parent that its child could not be started.
    async fn tell_parent(
        &self,
        row: &Posted,
        (child, origin): (&str, &Origin),
        parent: &Parent,
        reason: String,
        carried: &mut Carried,
    ) -> Result<()> {
        let failure = Failure::new(FailureKind::Misuse, reason);
        let (from, content) = match schedule_name(&parent.instance) {
            // To a schedule a slot that could not be started is as good as over.
            Some(_) => (child.to_owned(), schedule::ended()),
            None => {
                let (run, entry) = (parent.run, parent.entry);
                let decided = Decided::Failed(failure);
                let reach = Reach::Waiting;
                let settled = Content::Settled {
                    run,
                    entry,
                    decided,
                    reach,
                };
                (row.from.to_string(), settled)
            }
        };
        let message = Message {
            id: refused_id(origin),
            sent_at_ms: self.now,
            from: Some(from),
            content,
        };
        let sender = self.store.namespace(&row.from);
        let build: Build<'_> = Box::new(|arrivals| {
            let mut commit = Commit::new(sender.shard());
            commit.deliver(&sender, arrivals.next_place(), &message);
            commit.posted(&sender, row.revision, row.index);
            commit
        });
        match self.hand.commit(sender.shard(), build).await {
            Ok(()) => {
                carried.woken.push(row.from.clone());
                Ok(())
            }
            Err(Error::Refused(Refusal::Duplicate(_) | Refusal::Ended(_) | Refusal::Missing)) => self.remove(row).await,
            Err(error) => Err(error),
        }
    }
}

/// The id of the message that says that a child could not be started. Nobody else knows the secret it would have had.
fn refused_id(origin: &Origin) -> MessageId {
    let id = engine::derived_id(origin.secret, 1, "refused");
    MessageId::new(id).expect("hexadecimal digits are an id")
}

/// Whether a child with an id that was chosen is one that the same parent started in an earlier run: after a reset, a
/// retry, or when it continued as new. Then it begins another run with it.
fn is_of_an_earlier_run(found: &Origin, origin: &Origin) -> bool {
    let (Some(before), Some(now)) = (&found.parent, &origin.parent) else {
        return false;
    };
    // What a schedule starts is named after its slot, and a slot starts one run.
    let same = before.instance == now.instance && schedule_name(&now.instance).is_none();
    let same = same && found.workflow == origin.workflow;
    same && before.awaited && now.awaited && before.run < now.run
}

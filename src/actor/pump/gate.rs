//! An instance at its gate: it comes there, waits, and may end before it is its turn.

use crate::actor::courier::end_commit;
use crate::actor::hold::keep_commit;
use crate::actor::pump::loading::Loading;
use crate::actor::pump::{Pump, Stopped};
use crate::actor::{gate, load};
use crate::clock::Millis;
use crate::engine::{Consequence, Incident, Loaded, Moment, Policy, Strategy};
use crate::storage::record::{Content, Failure, Reach, State, Status};
use crate::storage::{Commit, Condition};

/// Whether it has done nothing yet. One that is given another chance may have something behind it that has to be undone: it
/// ends when it is its turn.
fn has_not_begun(state: &State) -> bool {
    state.status == Status::Pending && state.entries == 0
}

/// How it ended before it was its turn.
#[derive(Debug)]
pub(super) struct EndsAtGate {
    status: Status,
    failure: Failure,
    reach: Reach,
    /// Whom observers hear of: the type name of its workflow, and which run it is. None if it was asked to end.
    failed: Option<(String, u32)>,
}

impl Pump<'_> {
    /// What becomes of an instance that is read while it waits: it rests, unless its time is over or it was asked to end.
    pub(super) fn waits_or_ends(&self, loaded: &Loaded, policy: &Policy) -> Loading {
        let now = self.shared.clock.now_ms();
        self.arm(loaded.state.alarm_at_ms.filter(|at| *at > now));
        let mut asked = loaded.inbox.iter().filter_map(|(_, message)| match &message.content {
            Content::Cancel { reason } => Some(reason.as_str()),
            _ => None,
        });
        let ends = if !has_not_begun(&loaded.state) {
            None
        } else if let Some(reason) = asked.next() {
            Some((Status::Cancelled, Failure::cancelled(reason)))
        } else if loaded.origin.deadline_at_ms.is_some_and(|deadline| deadline <= now) {
            Some((Status::Failed, Failure::deadline()))
        } else {
            None
        };
        ends.map_or(Loading::Rests, |(status, failure)| {
            // Nothing is behind it that could be undone or go on, and no run begins after its deadline.
            let failed = status == Status::Failed;
            let kept = failed && policy.after(&failure) == Strategy::Quarantine;
            Loading::Ends(EndsAtGate {
                status: if kept { Status::Quarantined } else { status },
                reach: policy.reach(status),
                failed: failed.then(|| (loaded.origin.workflow.clone(), loaded.state.run)),
                failure,
            })
        })
    }

    /// The instance has to pass a gate and has not come to it: it does now, and goes on when it is let in.
    pub(super) async fn come_to_gate(&mut self, before: State, deadline_at_ms: Option<Millis>) -> Result<(), Stopped> {
        let namespace = self.namespace.clone();
        let state = State {
            revision: before.revision + 1,
            alarm_at_ms: deadline_at_ms.filter(|_| has_not_begun(&before)),
            updated_at_ms: self.shared.clock.now_ms(),
            ..before.clone()
        };
        let coming = self.shared.store.submit_delivery(namespace.shard(), |arrivals| {
            let mut commit = Commit::new(namespace.shard());
            commit
                .require(Condition::Current(self.activation.clone()))
                .require(Condition::Revision(namespace.instance().clone(), before.revision))
                .set_state(&namespace, before.alarm_at_ms, &state)
                .set_runnable(&namespace, None)
                .seen(self.seen);
            let (store, flow) = (&self.shared.store, &self.flow);
            gate::come(store, &mut commit, &namespace, flow, state.revision, || {
                arrivals.next_place()
            });
            commit
        });
        coming.await?.durable().await?;
        self.arm(state.alarm_at_ms);
        self.shared.changes.tell(namespace.instance());
        self.nudge_courier();
        Ok(())
    }

    /// It ends where it stands, or is kept for an operator; whoever is behind it comes forward.
    pub(super) async fn end_at_gate(&mut self, ends: EndsAtGate) -> Result<(), Stopped> {
        let EndsAtGate {
            status,
            failure,
            reach,
            failed,
        } = ends;
        let (shared, instance) = (self.shared, self.namespace.instance().clone());
        let now = shared.clock.now_ms();
        let kept = status == Status::Quarantined;
        let commit = if kept {
            keep_commit(&shared.store, &instance, &failure, now)?
        } else {
            end_commit(&shared.store, &instance, (status, failure.clone(), reach), now)?
        };
        let Some(mut commit) = commit else {
            return Ok(());
        };
        commit.require(Condition::Current(self.activation.clone()));
        commit.seen(self.seen);
        shared.store.commit(commit).await?;
        if let Some((workflow, run)) = failed {
            shared.observers.tell(&Incident {
                instance: instance.clone(),
                workflow,
                run,
                failure,
                consequence: Consequence::WorkflowFailed,
            });
        }
        let moment = if kept {
            Moment::PutAside(status)
        } else {
            Moment::Ended(status)
        };
        shared.happened(&instance, &load::workflow(&shared.store, &instance), moment);
        shared.changes.tell(&instance);
        self.nudge_courier();
        Ok(())
    }
}

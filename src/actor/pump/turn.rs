//! A turn of a pump: the function is polled, what it decided is committed, and what it asked for begins.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use crate::actor::gate;
use crate::actor::pump::{Pump, Stopped};
use crate::actor::signal::Leave;
use crate::actor::watchdog::At;
use crate::engine::{Begin, Execution, Moment, Turn};
use crate::limits::PANICS_MAX;
use crate::storage::key::{Local, Meta};
use crate::storage::payload::Payload;
use crate::storage::record::Runnable;
use crate::storage::{Commit, Condition};

impl Pump<'_> {
    /// Takes turns until the instance rests with everything durable. Tells whether it ended.
    pub(super) async fn turn(&mut self, execution: &mut Execution) -> Result<bool, Stopped> {
        // Also after a rest: a suspect that backs off is one still.
        if !self.may_run() {
            return Err(Stopped::Idle);
        }
        loop {
            if self.signal.leave() == Leave::Now {
                return Err(Stopped::Asked);
            }
            let now = self.shared.clock.now_ms();
            // What has come by now wins over a time that is over.
            if execution.gives_up(now) {
                self.look(execution)?;
            }
            let Turn {
                commit,
                begin,
                alarm_at_ms,
                broadcasts,
                ended,
                mut posted,
                incidents,
                warnings,
                unawaited,
                panicked,
                ..
            } = {
                let instance = self.namespace.instance();
                let at = execution.whereabouts();
                self.signal.is_at(at.outside());
                let _watched = self.shared.watch.poll(instance, &self.workflow, At::Function(at));
                execution.turn(now)?
            };
            for warning in warnings {
                tracing::warn!(instance = %self.namespace.instance(), %warning);
            }
            if let Some(panic) = panicked
                && self.shared.supervisor.breakdowns(self.namespace.instance()) + 1 < PANICS_MAX
            {
                return Err(Stopped::Panicked(panic));
            }
            let (revision, completions) = execution.progress();
            let Some(mut commit) = commit else {
                self.begin(begin, execution, revision..=revision);
                self.arm(alarm_at_ms);
                self.broadcast(broadcasts);
                return Ok(false);
            };
            // They may begin before this commit, which has nothing in it that they follow from.
            self.begin(begin, execution, revision - 1..=revision);
            if !self.attempts.is_empty() {
                self.flying.running(revision - 1..=revision, self.deaths());
            }
            commit.require(Condition::Current(self.activation.clone()));
            if !ended {
                commit.seen(self.seen);
                self.charge(&mut commit, completions);
            }
            if std::mem::take(&mut self.held) {
                commit.delete(&self.namespace, &Local::Meta(Meta::Hold));
            }
            if execution.stands().is_terminal() {
                posted |= gate::leave(&mut commit, &self.namespace, &self.flow, revision);
            }
            // A commit that an earlier activation had handed over may have been on its way while the instance was
            // read. It comes before the first commit of this one, which therefore notices.
            if let Some(revision) = self.revision_read.take() {
                commit.require(Condition::Revision(self.namespace.instance().clone(), revision));
            }
            self.shared.store.commit(commit).await?;
            self.flying.stored();
            self.shared.changes.tell_of(self.namespace.instance(), ended);
            if posted {
                self.nudge_courier();
            }
            self.broadcast(broadcasts);
            for step in unawaited {
                tracing::warn!(instance = %self.namespace.instance(), step, "a step was made and dropped before it was polled: it did not run");
            }
            for incident in &incidents {
                self.shared.observers.tell(incident);
            }
            if ended {
                self.shared.broadcasts.close(self.namespace.instance());
                self.report_end(execution);
                return Ok(true);
            }
            if !execution.committed() {
                self.arm(alarm_at_ms);
                return Ok(false);
            }
        }
    }

    fn begin(&mut self, begin: Vec<Begin>, execution: &mut Execution, revisions: RangeInclusive<u64>) {
        if begin.is_empty() || self.shared.stopping.load(Ordering::Acquire) {
            // What does not begin is made when the instance is next activated.
            return;
        }
        let entering: Vec<_> = begin.into_iter().map(|attempt| self.attempts.enter(attempt)).collect();
        self.flying.begins(&entering);
        self.flying.running(revisions, self.deaths());
        for attempt in entering {
            let instance = self.namespace.instance();
            self.attempts
                .begin(instance, &execution.span(), attempt, self.flying.slot());
        }
    }

    /// Keeps count of the deaths of the process until the instance gets somewhere.
    fn charge(&mut self, commit: &mut Commit, completions: u64) {
        let Some((activations, before)) = self.crashes else {
            return;
        };
        if completions == before {
            commit.keep_runnable(&self.namespace, &Runnable::new(&*self.workflow, activations));
        } else {
            self.crashes = None;
            self.trial = None;
            commit.reset_runnable(&self.namespace, &Runnable::new(&*self.workflow, 0));
        }
    }

    fn broadcast(&self, items: Vec<Payload>) {
        for item in items {
            self.shared.broadcasts.tell(self.namespace.instance(), item);
        }
    }

    fn report_end(&self, execution: &mut Execution) {
        let moment = match execution.stands() {
            status if status.is_terminal() => Moment::Ended(status),
            status => Moment::PutAside(status),
        };
        self.shared.happened(self.namespace.instance(), &self.workflow, moment);
    }
}

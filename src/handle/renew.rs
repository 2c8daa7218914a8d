//! Retry and reset: another run of an instance that keeps a part of its history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::actor::{self, Cut, Shared};
use crate::clock::Millis;
use crate::engine::{Farewell, Moment, PromiseToken};
use crate::handle::exclusive::{Decision, Meant, done};
use crate::handle::history::names;
use crate::handle::look::Seen;
use crate::handle::{AnyHandle, Effect, Error, Operated, Result, history};
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{
    self, Decided, Entry, EntryKind, Failure, Hold, Message, Origin, Outgoing, Parcel, Status,
};
use crate::storage::{Commit, Rows};

type Entries = Vec<(Location, Entry)>;

impl AnyHandle {
    /// Gives an instance that failed another chance: a new run with the history before the step that failed, which gets
    /// new attempts under its old idempotency key. One whose effects were undone begins from the start. What is in
    /// quarantine has failed as well, and goes on. One that has not ended, or has completed, is left as it is, and the
    /// answer says so.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, WorkflowError, ok, workflow};
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # static BANK: AtomicBool = AtomicBool::new(false);
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.step("reserve", || async { ok(7) }).await?;
    /// #     let bank = move || async move { if BANK.load(Ordering::Relaxed) { ok(amount) } else { Err(WorkflowError::msg("closed")) } };
    /// #     ok(ctx.step("charge", bank).retries(0).await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// assert!(payment.result().await.is_err(), "the bank is closed");
    /// # BANK.store(true, Ordering::Relaxed);
    /// // The bank is open again: only the step that failed is made anew.
    /// payment.retry().await?;
    /// assert_eq!(payment.result().await?, 20);
    /// # Ok(()) }
    /// ```
    pub async fn retry(&self) -> Result<Operated> {
        let retried = self.retry_if(|_| true).await?;
        Ok(retried.expect("whoever it is, it is meant"))
    }

    /// The same if it is the one that is meant; none if not.
    pub(super) async fn retry_if(&self, meant: impl Meant) -> Result<Option<Operated>> {
        self.alone(move |this, seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(None));
            }
            seen.expect_whole(&this.shared, &this.instance)?;
            let leave = |effect| Ok(Decision::Leave(Operated::unchanged(effect, seen.state.status)));
            let decided: Result<Decision<Operated>> = match seen.state.status {
                Status::Completed => leave(Effect::Ended),
                Status::Quarantined => this.let_out(seen, now),
                before if before.is_terminal() => {
                    let failure = history::failure(&this.shared, &this.instance, seen)?;
                    let decided = this.try_again(seen, now, failure.as_ref())?;
                    Ok(decided.then(this.begun_again(seen)))
                }
                _ => leave(Effect::Already),
            };
            Ok(decided?.map(Some))
        })
        .await
    }

    /// Lets an instance out of quarantine. What is kept there because it failed fails again from where it stands: it is
    /// tried again instead.
    pub(super) fn let_out(&self, seen: &Seen, now: Millis) -> Result<Decision<Operated>> {
        let hold: Option<Hold> = self.namespace().get(&*seen.snapshot, &Local::Meta(Meta::Hold))?;
        match hold.and_then(|hold| hold.report) {
            Some(failure) => self.try_again(seen, now, Some(&self.unpack(&failure)?)),
            None => Ok(self.go_on(seen, now)),
        }
    }

    /// A new run that takes back what failed.
    fn try_again(&self, seen: &Seen, now: Millis, failure: Option<&Failure>) -> Result<Decision<Operated>> {
        let entries = self.entries(seen)?;
        if is_undone(&entries) {
            let (mut origin, input, times) = (in_time(&seen.origin, now), seen.input.clone(), (now, None));
            // Nothing of the run before is left that would bind the next one to its version.
            let definition = self.shared.definitions.get(origin.workflow.as_str());
            origin.version = definition.map_or(origin.version, |definition| definition.version);
            let (snapshot, before) = (&*seen.snapshot, &seen.state);
            let commit = actor::new_run_commit(&self.namespace(), snapshot, &origin, before, input, times)?;
            return Ok(Decision::write(commit, done(before.status, Status::Pending)));
        }
        let cut = self.before_the_failure(seen, &entries, failure)?;
        self.rewind(seen, now, &entries, &cut, seen.state.keyed_in)
    }

    /// Takes the instance back to an operation, by its path as the [history](AnyHandle::history) tells it: a new run
    /// with the history before it. Inside a loop the whole iteration is done again. Steps that are done again get new
    /// idempotency keys; messages that were taken since are there again. Children that were started since and have not
    /// ended are closed as their policies say; the code starts them anew. Works whatever the instance is doing.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, WorkflowError, ok, workflow};
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # static BANK: AtomicBool = AtomicBool::new(false);
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.step("reserve", || async { ok(7) }).await?;
    /// #     let bank = move || async move { if BANK.load(Ordering::Relaxed) { ok(amount) } else { Err(WorkflowError::msg("closed")) } };
    /// #     ok(ctx.step("charge", bank).retries(0).await?)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// assert!(payment.result().await.is_err(), "the bank is closed");
    /// # BANK.store(true, Ordering::Relaxed);
    /// // Another run, which keeps what was done before the step `charge`.
    /// payment.reset("charge").await?;
    /// assert_eq!(payment.result().await?, 20);
    /// # Ok(()) }
    /// ```
    pub async fn reset(&self, to: &str) -> Result<Operated> {
        let to = to.to_owned();
        self.alone(move |this, seen, now| {
            seen.expect_whole(&this.shared, &this.instance)?;
            let entries = this.entries(seen)?;
            let refuse = |why: &str| Error::NoWayBack {
                path: to.clone(),
                why: why.to_owned(),
            };
            if is_undone(&entries) {
                return Err(refuse("what the instance did was undone; start it again instead"));
            }
            let names = names(&this.shared, &this.instance, seen)?;
            let target = entries.iter().find(|(location, _)| location.path(&names) == to);
            let (target, _) = target.ok_or_else(|| refuse("nothing is recorded there"))?;
            let cut = Cut::before(&entries, target, seen.state.completions)
                .map_err(|_| refuse("the loop around it has gone on"))?;
            let decided = this.rewind(seen, now, &entries, &cut, seen.state.run + 1)?;
            // One that had not ended goes on elsewhere; to observers it is the same life.
            Ok(if seen.state.status.is_terminal() {
                decided.then(this.begun_again(seen))
            } else {
                decided
            })
        })
        .await
    }

    /// Tells observers that an instance that had ended lives again.
    fn begun_again(&self, seen: &Seen) -> impl FnOnce(&Arc<Shared>) + Send + 'static + use<> {
        let (instance, workflow) = (self.instance.clone(), seen.origin.workflow.clone());
        move |shared| shared.happened(&instance, &workflow, Moment::Started)
    }

    /// A new run with what a cut leaves of the history.
    fn rewind(
        &self,
        seen: &Seen,
        now: Millis,
        entries: &Entries,
        cut: &Cut,
        keyed_in: u32,
    ) -> Result<Decision<Operated>> {
        let namespace = self.namespace();
        let mut rows = Commit::new(namespace.shard());
        let ended = seen.state.status.is_terminal();
        let left = actor::cut(&mut rows, &namespace, &*seen.snapshot, entries, (cut, ended))?;
        let left = left.map_err(|_| Error::NoWayBack {
            path: String::new(),
            why: "a loop that began before has gone on".into(),
        })?;
        let told = actor::take_what_was_asked(&mut rows, &namespace, &*seen.snapshot, true)?;
        // It has left its gate, and comes to it again.
        let at_gate = ended && actor::flow_of(&namespace, &*seen.snapshot)?.gate.is_some();
        let state = seen.next(now, |state| {
            // What was asked of one that has ended since is over.
            let told = told.filter(|_| !state.status.is_terminal());
            state.paused = told.unwrap_or(state.paused);
            state.status = if at_gate { Status::Pending } else { Status::Running };
            state.run += 1;
            state.alarm_at_ms = None;
            state.entries = left.entries;
            state.completions = cut.order;
            // With nothing left that the code has seen, it begins now.
            if cut.order == 0 {
                state.began_at_ms = now;
            }
            state.said = state.said.min(cut.order + 1);
            state.keyed_in = keyed_in;
            state.retries = 0;
        });
        self.change_into(&mut rows, seen, &state);
        self.let_decide_again(&mut rows, seen, &left.promises)?;
        let told = if ended {
            let told = actor::ends_of_children(&self.shared.store, self.farewell(seen, now), &left.open)?;
            self.let_hear_again(&mut rows, seen, &told)?;
            told
        } else {
            self.farewell(seen, now)
                .to_others(&left.given_up, "its parent was taken back")
        };
        for (index, outgoing) in (0..).zip(&told) {
            rows.post(&namespace, state.revision, index, outgoing);
        }
        rows.set(&namespace, &Local::Meta(Meta::Origin), &in_time(&seen.origin, now));
        for fact in [Meta::Output, Meta::Failure, Meta::Hold] {
            rows.delete(&namespace, &Local::Meta(fact));
        }
        Ok(Decision::write(rows, done(seen.state.status, state.status)))
    }

    /// What it is told once more of its children counts, also if it was told before, when its code did not listen any more.
    /// What lies in the inbox still is enough.
    fn let_hear_again(&self, rows: &mut Commit, seen: &Seen, told: &[Outgoing]) -> Result<()> {
        if told.is_empty() {
            return Ok(());
        }
        let namespace = self.shared.store.namespace(&self.instance);
        let mut unread = BTreeSet::new();
        namespace.list(&*seen.snapshot, Rows::Inbox, &mut |_, row| {
            unread.insert(row.decode::<Message>()?.id);
            Ok(())
        })?;
        for outgoing in told {
            if let Parcel::Message { message, .. } = &outgoing.parcel
                && !unread.contains(&message.id)
            {
                rows.forget_seen(&namespace, &message.id);
            }
        }
        Ok(())
    }

    /// A promise that stays can be decided again, by the same token, also if its decision came when nobody waited for it
    /// any more; one that lies in the inbox still is taken by the next run. A promise that goes is made anew, with
    /// another token: the old one decides nothing any more.
    fn let_decide_again(&self, rows: &mut Commit, seen: &Seen, promises: &[(u64, bool)]) -> Result<()> {
        if promises.is_empty() {
            return Ok(());
        }
        let namespace = self.shared.store.namespace(&self.instance);
        let (secret, run) = (seen.origin.secret, seen.state.drawn_in);
        let decision = |entry| PromiseToken::new(self.instance.clone(), secret, run, entry).decision();
        let mut decisions: BTreeMap<_, _> = promises.iter().map(|(id, stays)| (decision(*id), *stays)).collect();
        namespace.list(&*seen.snapshot, Rows::Inbox, &mut |_, row| {
            decisions.remove(&row.decode::<Message>()?.id);
            Ok(())
        })?;
        for (decision, stays) in decisions {
            if stays {
                rows.forget_seen(&namespace, &decision);
            } else {
                rows.set_seen(&namespace, &decision, &record::Seen::TOO_LATE);
            }
        }
        Ok(())
    }

    fn farewell<'a>(&'a self, seen: &'a Seen, now: Millis) -> Farewell<'a> {
        Farewell {
            instance: &self.instance,
            origin: &seen.origin,
            run: seen.state.run,
            now,
        }
    }

    /// Before the first of the operations that the failure is about; if it is about none, before the last that failed.
    fn before_the_failure(&self, seen: &Seen, entries: &Entries, failure: Option<&Failure>) -> Result<Cut> {
        let names = names(&self.shared, &self.instance, seen)?;
        let mut blamed = Vec::new();
        if let Some(failure) = failure {
            paths(failure, &mut blamed);
        }
        let order = |entry: &Entry| entry.completed.map(|completed| completed.order);
        let named = entries.iter().filter(|(location, entry)| {
            matches!(entry.kind, EntryKind::Cancel { .. } | EntryKind::Deadline)
                || blamed.contains(&location.path(&names))
        });
        let failed = entries
            .iter()
            .filter(|(_, entry)| matches!(entry.kind, EntryKind::Step(Some(Decided::Failed(_)))));
        let first = named.filter_map(|(_, entry)| order(entry)).min();
        let last = failed.filter_map(|(_, entry)| order(entry)).max();
        let order = first.or(last).unwrap_or(seen.state.completions);
        Ok(Cut { order, at: None })
    }

    fn entries(&self, seen: &Seen) -> Result<Entries> {
        let namespace = self.shared.store.namespace(&self.instance);
        let mut entries = Vec::new();
        namespace.list(&*seen.snapshot, Rows::History(&Location::root()), &mut |local, row| {
            if let Local::History(location) = local {
                entries.push((location.into_owned(), row.decode::<Entry>()?));
            }
            Ok(())
        })?;
        Ok(entries)
    }
}

/// The paths that a failure is about.
fn paths(failure: &Failure, into: &mut Vec<String>) {
    if failure.branches.is_empty() {
        into.push(failure.path.clone());
    }
    for (_, branch) in &failure.branches {
        paths(branch, into);
    }
}

fn is_undone(entries: &Entries) -> bool {
    entries
        .iter()
        .any(|(_, entry)| matches!(entry.kind, EntryKind::Compensating { .. }))
}

/// The same origin without a deadline that is over: an operator who lets an instance go on means it.
fn in_time(origin: &Origin, now: Millis) -> Origin {
    let mut origin = origin.clone();
    origin.deadline_at_ms = origin.deadline_at_ms.filter(|at| *at > now);
    origin
}

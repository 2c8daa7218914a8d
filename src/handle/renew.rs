//! Retry and reset: another run of an instance that keeps a part of its history.

use std::collections::BTreeMap;

use crate::actor::{self, Cut};
use crate::clock::Millis;
use crate::engine::{Farewell, PromiseToken};
use crate::handle::exclusive::{Decision, done};
use crate::handle::history::{names, path};
use crate::handle::look::Seen;
use crate::handle::{AnyHandle, Effect, Error, Operated, Result, history};
use crate::location::Location;
use crate::storage::key::{Local, Meta};
use crate::storage::record::{self, Decided, Entry, EntryKind, Failure, Message, Origin, Status};
use crate::storage::{self, Commit, Rows};

type Entries = Vec<(Location, Entry)>;

impl AnyHandle {
    /// Gives an instance that failed another chance: a new run with the history before the step that failed, which gets
    /// new attempts under its old idempotency key. One whose effects were undone begins from the start. One that has
    /// not ended, or has completed, is left as it is, and the answer says so.
    pub async fn retry(&self) -> Result<Operated> {
        let retried = self.retry_if(|_| true).await?;
        Ok(retried.expect("whoever it is, it is meant"))
    }

    /// The same if it is the one that is meant; none if not.
    pub(super) async fn retry_if(&self, meant: impl Fn(&Seen) -> bool) -> Result<Option<Operated>> {
        self.alone(|seen, now| {
            if !meant(seen) {
                return Ok(Decision::Leave(None));
            }
            let before = seen.state.status;
            let leave = |effect| Ok(Decision::Leave(Some(Operated::unchanged(effect, before))));
            match before {
                Status::Completed => return leave(Effect::Ended),
                before if before.is_terminal() => {}
                _ => return leave(Effect::Already),
            }
            let entries = self.entries(seen)?;
            let commit = if is_undone(&entries) {
                let namespace = self.shared.store.namespace(&self.instance);
                let (origin, input) = (in_time(&seen.origin, now), seen.input.clone());
                actor::new_run_commit(&namespace, &*seen.snapshot, &origin, &seen.state, input, (now, None))?
            } else {
                let cut = self.before_the_failure(seen, &entries)?;
                self.rewind(seen, now, &entries, &cut, seen.state.keyed_in)?
            };
            Ok(Decision::Write(commit, Some(done(before, Status::Running))))
        })
        .await
    }

    /// Takes the instance back to an operation, by its path as the [history](AnyHandle::history) tells it: a new run
    /// with the history before it. Inside a loop the whole iteration is done again. Steps that are done again get new
    /// idempotency keys; messages that were taken since are there again. Children that were started since and have not
    /// ended are closed as their policies say; the code starts them anew. Works whatever the instance is doing.
    pub async fn reset(&self, to: &str) -> Result<Operated> {
        self.alone(|seen, now| {
            let entries = self.entries(seen)?;
            let refuse = |why: &str| Error::NoWayBack {
                path: to.to_owned(),
                why: why.to_owned(),
            };
            if is_undone(&entries) {
                return Err(refuse("what the instance did was undone; start it again instead"));
            }
            let names = names(&self.shared, &self.instance, seen)?;
            let target = entries.iter().find(|(location, _)| path(&names, location) == to);
            let (target, _) = target.ok_or_else(|| refuse("nothing is recorded there"))?;
            let cut = Cut::before(&entries, target, seen.state.completions)
                .map_err(|_| refuse("the loop around it has gone on"))?;
            let commit = self.rewind(seen, now, &entries, &cut, seen.state.run + 1)?;
            Ok(Decision::Write(commit, done(seen.state.status, Status::Running)))
        })
        .await
    }

    fn rewind(&self, seen: &Seen, now: Millis, entries: &Entries, cut: &Cut, keyed_in: u32) -> Result<Commit> {
        let namespace = self.shared.store.namespace(&self.instance);
        let mut rows = Commit::new(namespace.shard());
        let ended = seen.state.status.is_terminal();
        let left = actor::cut(&mut rows, &namespace, &*seen.snapshot, entries, (cut, ended))?;
        let left = left.map_err(|_| Error::NoWayBack {
            path: String::new(),
            why: "a loop that began before has gone on".into(),
        })?;
        let told = actor::take_what_was_asked(&mut rows, &namespace, &*seen.snapshot, true)?;
        let state = seen.next(now, |state| {
            // What was asked of one that has ended since is over.
            let told = told.filter(|_| !state.status.is_terminal());
            state.paused = told.unwrap_or(state.paused);
            state.status = Status::Running;
            state.run += 1;
            state.alarm_at_ms = None;
            state.entries = left.entries;
            state.completions = cut.order;
            state.said = state.said.min(cut.order + 1);
            state.keyed_in = keyed_in;
            state.retries = 0;
        });
        self.change_into(&mut rows, seen, &state);
        self.let_decide_again(&mut rows, seen, &left.promises)?;
        let told = if ended {
            actor::ends_of_children(&self.shared.store, &left.open)?
        } else {
            self.farewell(seen, now)
                .to_others(&left.given_up, "its parent was taken back", self.shared.store.codecs())
                .map_err(storage::Error::from)?
        };
        for (index, outgoing) in (0..).zip(&told) {
            rows.post(&namespace, state.revision, index, outgoing);
        }
        rows.set(&namespace, &Local::Meta(Meta::Origin), &in_time(&seen.origin, now));
        for fact in [Meta::Output, Meta::Failure, Meta::Hold] {
            rows.delete(&namespace, &Local::Meta(fact));
        }
        Ok(rows)
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
    fn before_the_failure(&self, seen: &Seen, entries: &Entries) -> Result<Cut> {
        let names = names(&self.shared, &self.instance, seen)?;
        let mut blamed = Vec::new();
        if let Some(failure) = history::failure(&self.shared, &self.instance, seen)? {
            paths(&failure, &mut blamed);
        }
        let order = |entry: &Entry| entry.completed.map(|completed| completed.order);
        let named = entries.iter().filter(|(location, entry)| {
            matches!(entry.kind, EntryKind::Cancel { .. } | EntryKind::Deadline)
                || blamed.contains(&path(&names, location))
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

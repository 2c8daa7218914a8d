//! What an operator may do to an instance that has ended: give it another run, or delete it.
//!
//! Between the asking and the answer nobody knows which of the two sides they see.

use std::collections::BTreeMap;

use everstep::storage::record::Status;

use super::{InstanceSeen, Ledger, Place};

impl Ledger {
    /// Somebody asks for another run. Gives what to say when there is an answer.
    pub(crate) fn renews(&mut self, id: &str) {
        self.note(format!("{id} is to run again"));
        let seen = self.instance(id);
        seen.renewals += 1;
        seen.renewing += 1;
        // Another run of one that has ended, or that somebody may just have ended, is not held because the one before was.
        seen.held &= seen.ended.is_none() && !seen.cancel_asked;
        (seen.ended, seen.result, seen.to_end) = (None, None, None);
    }

    /// Somebody asks for its end. Another run that was asked for may begin after it, and is not held then.
    pub(crate) fn is_to_end(&mut self, id: &str) {
        let seen = self.instance(id);
        seen.cancel_asked = true;
        seen.held &= seen.renewing == 0;
    }

    /// There was an answer.
    pub(crate) fn renewed(&mut self, id: &str) {
        let seen = self.instance(id);
        seen.renewing = seen.renewing.saturating_sub(1);
        (seen.ended, seen.result, seen.to_end) = (None, None, None);
    }

    /// Which renewals an answer can know of: what was seen before another one says nothing any more.
    pub(crate) fn renewals(&mut self, id: &str) -> u64 {
        self.instance(id).renewals
    }

    /// A machine has died: nothing is on its way any more.
    pub(crate) fn settles(&mut self) {
        for seen in self.instances.values_mut() {
            seen.renewing = 0;
            seen.resumes.1 = seen.resumes.0;
        }
        self.trials_go_on();
    }

    /// An instance is deleted, and all that was known of it is over. What others have sent it may still come.
    pub(crate) fn forget(&mut self, id: &str) {
        self.note(format!("{id} is forgotten"));
        let theirs = |place: &Place| place.instance == id;
        self.steps.retain(|place, _| !theirs(place));
        self.sleeps.retain(|place, _| !theirs(place));
        self.receives.retain(|place, _| !theirs(place));
        self.versions.retain(|place, _| !theirs(place));
        self.heard.retain(|place, _| !theirs(place));
        self.uuids.retain(|place, _| !theirs(place));
        self.children.retain(|place, _| !theirs(place));
        self.promises.retain(|_, promise| promise.place.instance != id);
        let to = format!(" to {id}");
        self.answers.retain(|question, _| !question.ends_with(&to));
        let (path, lost) = (format!("{id}/"), |event: &mut super::outside::EventSeen| {
            event.lost = true;
        });
        self.births.retain(|place, _| !place.starts_with(&path));
        self.events
            .values_mut()
            .filter(|event| event.takers.is_empty())
            .for_each(lost);
        let seen = self.instance(id);
        let messages = std::mem::take(&mut seen.messages);
        *seen = InstanceSeen {
            offered: seen.offered,
            deleted: true,
            deadline_ms: seen.deadline_ms,
            limit: seen.limit.forgotten(),
            begins_ms: seen.begins_ms,
            messages: messages.into_keys().map(|id| (id, Default::default())).collect(),
            ..InstanceSeen::default()
        };
    }

    /// Whether an execution at a place has returned this, in this run or in one that this one goes on from.
    pub(super) fn has_returned(&self, place: &Place, value: &str) -> bool {
        let returned = |place: &Place| {
            let step = self.steps.get(place);
            step.is_some_and(|step| step.executions.iter().any(|known| known == value))
        };
        let rewound = self
            .instances
            .get(&place.instance)
            .is_some_and(|seen| seen.renewals > 0);
        returned(place) || (rewound && place.before().any(|before| returned(&before)))
    }

    /// A shard belongs to an epoch from here on, which takes it or writes to it.
    pub(crate) fn writes(&mut self, shard: u16, epoch: u64) {
        let newest = self.epochs.entry(shard).or_insert(epoch);
        let before = std::mem::replace(newest, epoch.max(*newest));
        if epoch < before {
            self.violation(format!("epoch {epoch} wrote to shard {shard} after epoch {before}"));
        }
    }

    /// A caller was told that it has ended, by an answer that knows of these renewals.
    pub(crate) fn saw_end_since(&mut self, id: &str, renewals: u64, status: Status) {
        let seen = self.instance(id);
        if seen.renewals == renewals && !seen.vanishing && !seen.deleted {
            self.saw_status(id, status);
        }
    }

    /// Whom a listing has to show, and how they ended.
    pub(crate) fn known(&self) -> BTreeMap<String, (u64, Option<Status>)> {
        let shown = |seen: &&InstanceSeen| seen.started && !seen.vanishing && !seen.deleted;
        let known = self.instances.iter().filter(|(_, seen)| shown(seen));
        known
            .map(|(id, seen)| (id.clone(), (seen.renewals, seen.ended)))
            .collect()
    }

    /// What a listing showed.
    pub(crate) fn listed(
        &mut self,
        known: &BTreeMap<String, (u64, Option<Status>)>,
        rows: &BTreeMap<String, Vec<Status>>,
    ) {
        self.note(format!("listed {rows:?}"));
        let after = self.known();
        for (id, (renewals, ended)) in known {
            let still = after.get(id).is_some_and(|(now, _)| now == renewals);
            let times = rows.get(id).map_or(0, Vec::len);
            if still && times != 1 {
                self.violation(format!("{id} is listed {times} times"));
            }
            let other = |ended: &Status| rows.get(id).is_some_and(|rows| !rows.contains(ended));
            if let Some(ended) = ended.filter(other).filter(|_| still) {
                self.violation(format!("{id} was {ended} and is listed as {:?}", rows[id]));
            }
        }
        let strange: Vec<_> = rows
            .keys()
            .filter(|id| !self.instances.contains_key(*id))
            .cloned()
            .collect();
        for id in strange {
            // A child whose code has not run yet is not known. Its id has more than one character.
            if id.len() < 3 {
                self.violation(format!("{id} is listed and nobody started it"));
            }
        }
    }
}

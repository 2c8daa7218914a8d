//! What code says and draws: items for whoever follows it, ids, how far an attempt is, and when it may begin at all.

use std::collections::BTreeSet;

use everstep::storage::record::Status;

use super::{Ledger, Place};

/// Items that an instance has emitted.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// All of them, whatever became of those who said them.
    ever: BTreeSet<String>,
    /// Those of runs that have been gone on from.
    before: Vec<String>,
    /// Those of this run, as its code is called now.
    now: Vec<String>,
}

impl Ledger {
    /// A start is tried that lets it begin after so long.
    pub(crate) fn delays(&mut self, id: &str, after_ms: u64) {
        let at = self.now_ms + after_ms;
        let seen = self.instance(id);
        seen.begins_ms = Some(seen.begins_ms.map_or(at, |before| before.min(at)));
    }

    /// The code is called for a run. What it said in the run before is said; what it said in this one it says again.
    pub(super) fn says_anew(&mut self, id: &str, run: u32) {
        let latest = self.latest_ms;
        let seen = self.instance(id);
        let said = std::mem::take(&mut seen.said.now);
        if seen.run < run {
            seen.said.before.extend(said);
        }
        // One that was ended before it began, and is given another run, begins with that at once.
        let first = seen.run == 0 && seen.renewals == 0;
        if let Some(begins) = seen.begins_ms.filter(|begins| first && latest < *begins) {
            self.violation(format!("{id} began at {latest}, and was to begin at {begins}"));
        }
    }

    /// The code emits an item.
    pub(crate) fn emits(&mut self, place: &Place) {
        self.note(format!("{} is said", place.path));
        let said = &mut self.instance(&place.instance).said;
        said.ever.insert(place.path.clone());
        said.now.push(place.path.clone());
    }

    /// Somebody has followed an instance to its end.
    pub(crate) fn followed(&mut self, id: &str, items: &[String]) {
        self.note(format!("{id} has said {items:?}"));
        let seen = self.instance(id);
        if seen.renewals > 0 {
            return;
        }
        let strange = items.iter().find(|item| !seen.said.ever.contains(*item)).cloned();
        // Code that returned has said all that it had to say; one that was to end may have been let go before.
        let whole = seen.ended == Some(Status::Completed) && !seen.told_to_end;
        // Without those of iterations that a loop has left behind, which are not run through again.
        let mut all = seen.said.before.iter().chain(&seen.said.now);
        let heard: BTreeSet<_> = items.iter().collect();
        let lost = all.find(|item| whole && !heard.contains(item)).cloned();
        if let Some(item) = strange {
            self.violation(format!("{id} has said {item}, which its code never said"));
        }
        if heard.len() != items.len() || lost.is_some() {
            self.violation(format!("{id} has said {items:?}, some of it twice or not {lost:?}"));
        }
    }

    /// The code draws an id.
    pub(crate) fn draws(&mut self, place: &Place, uuid: &str) {
        self.note(format!("{} draws {uuid}", place.path));
        let rewound = self.instance(&place.instance).renewals > 0;
        let before = self
            .uuids
            .entry(place.clone())
            .or_insert_with(|| uuid.to_owned())
            .clone();
        let theirs = |(other, drawn): (&Place, &String)| (other != place && drawn == uuid).then(|| other.path.clone());
        let twice = self.uuids.iter().find_map(theirs);
        if (before != uuid || twice.is_some()) && !rewound {
            self.violation(format!("{} drew {before} and now {uuid}; so did {twice:?}", place.path));
        }
    }

    /// The code hears whether it is to end.
    pub(crate) fn asks_whether_it_ends(&mut self, place: &Place, ends: bool) {
        if !ends {
            return;
        }
        self.hears_that_it_ends(&place.instance);
        let seen = self.instance(&place.instance);
        if !seen.cancel_asked && seen.deadline_ms.is_none() {
            self.violation(format!(
                "{} heard that it is to end, and nobody asked for that",
                place.path
            ));
        }
    }

    /// An attempt says how far it is.
    pub(crate) fn is_alive(&mut self, place: &Place, progress: &str) {
        let step = self.steps.entry(place.clone()).or_default();
        step.progress.insert(progress.to_owned());
    }

    /// An attempt finds what the one before it has said.
    pub(crate) fn goes_on(&mut self, place: &Place, progress: &str) {
        self.note(format!("{} goes on from {progress}", place.path));
        let said = |place: &Place| {
            self.steps
                .get(place)
                .is_some_and(|step| step.progress.contains(progress))
        };
        if !said(place) && !place.before().any(|before| said(&before)) {
            self.violation(format!("{} goes on from {progress}, which nobody said", place.path));
        }
    }
}

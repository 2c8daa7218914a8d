//! Instances that fail, and what has to follow.
//!
//! Nobody pauses or cancels them, so what they have been told says how they end: a run that may be followed by another
//! one is, what was done is undone, the failure of a child reaches as far as its workflow says, and who is put aside
//! goes on from there when somebody releases it.

use everstep::storage::record::Status;

use super::{Ledger, Place, StepSeen};
use crate::runtime::trial::{Kind, Trial};

/// Panics of a function in a row before it is put aside.
const PANICS: u32 = everstep::limits::PANICS_MAX;

#[derive(Debug)]
pub(super) struct TrialSeen {
    trial: Trial,
    run: u32,
    /// Times that its code came to where it goes wrong, and did.
    wrong: u32,
    /// Panics in this life of the machine, and in the one that had most of them.
    panics: u32,
    panics_most: u32,
    /// It was seen to be put aside, and nobody has asked for its release since.
    aside: bool,
    /// Releases that were asked for, and those that were answered.
    releases: (u64, u64),
    pub(super) ended: Option<Status>,
}

impl Ledger {
    /// A start was acknowledged.
    pub(crate) fn trial_started(&mut self, id: &str, trial: &Trial) {
        self.note(format!("{id} is on trial: {trial:?}"));
        self.trial(id, trial);
    }

    fn trial(&mut self, id: &str, trial: &Trial) -> &mut TrialSeen {
        self.instance(id).offered = true;
        self.trials.entry(id.to_owned()).or_insert_with(|| TrialSeen {
            trial: trial.clone(),
            run: 0,
            wrong: 0,
            panics: 0,
            panics_most: 0,
            aside: false,
            releases: (0, 0),
            ended: None,
        })
    }

    /// Another life of the machine.
    pub(crate) fn trials_go_on(&mut self) {
        for seen in self.trials.values_mut() {
            seen.panics = 0;
            seen.releases.1 = seen.releases.0;
        }
    }

    /// Its code is called.
    pub(crate) fn undergoes(&mut self, id: &str, run: u32, trial: &Trial) {
        self.note(format!("{id} undergoes run {run}"));
        let seen = self.trial(id, trial);
        let (before, ended, aside) = (seen.run, seen.ended, seen.aside);
        seen.run = run;
        if let Some(status) = ended {
            self.violation(format!("{id} runs again though it was {status}"));
        }
        if aside {
            self.violation(format!("{id} runs though it was put aside"));
        }
        if run < before {
            self.violation(format!("{id} is in run {run} after run {before}"));
        }
        if trial.begins_anew() {
            if run > 3 {
                self.violation(format!("{id} makes run {run} of three"));
            }
            let earlier = (1..run).find_map(|run| self.left_to_undo(id, run));
            if let Some(place) = earlier {
                self.violation(format!("{id} makes run {run}, and {place} was not undone"));
            }
            self.instance(id).failed_in = None;
        }
    }

    /// It comes to where it may go wrong. Tells whether it does.
    pub(crate) fn trial_goes_wrong(&mut self, id: &str, run: u32, trial: &Trial) -> bool {
        let seen = self.trial(id, trial);
        // What is undone is what a run that is gone through again comes to again; what is put aside is mended.
        let wrong = match trial.kind {
            Kind::Retried => run <= trial.fails,
            Kind::Cascades | Kind::Ignored => trial.fails > 0,
            Kind::Plain if !trial.panics => trial.fails > 0,
            Kind::Quarantined | Kind::Plain => seen.wrong < trial.fails,
        };
        if wrong {
            seen.wrong += 1;
            seen.panics += u32::from(trial.panics);
            seen.panics_most = seen.panics_most.max(seen.panics);
            self.note(format!("{id} goes wrong"));
        }
        // Who is put aside has not failed yet.
        if wrong && !trial.may_be_put_aside() {
            self.trial_fails(id, run);
        }
        wrong
    }

    /// Its code fails.
    pub(crate) fn trial_fails(&mut self, id: &str, run: u32) {
        self.instance(id).failed_in = Some(run);
    }

    /// Its child ended for it.
    pub(crate) fn child_ended(&mut self, id: &str, child: &Trial, said: &Result<Option<String>, String>) {
        self.note(format!("the child of {id} ended with {said:?}"));
        let right = match (child.fails_for_good(), child.kind) {
            (true, Kind::Ignored) => matches!(said, Ok(None)),
            (true, _) => said.is_err(),
            (false, _) => matches!(said, Ok(Some(_))),
        };
        if !right {
            self.violation(format!("the child of {id} ended with {said:?}: {child:?}"));
        }
        if child.kind == Kind::Cascades && child.fails_for_good() {
            let run = self.trials.get(id).map_or(1, |seen| seen.run);
            self.trial_fails(id, run);
        }
    }

    /// Somebody is about to look at it. Tells which releases are known, if none is on its way.
    pub(crate) fn looks_at_trial(&self, id: &str) -> Option<u64> {
        let seen = self.trials.get(id)?;
        (seen.releases.0 == seen.releases.1).then_some(seen.releases.0)
    }

    /// Somebody looked at it, who knew of these releases.
    pub(crate) fn saw_trial(&mut self, id: &str, releases: Option<u64>, status: Status) {
        self.note(format!("{id} on trial is {status}"));
        let Some(seen) = self.trials.get(id) else { return };
        let (trial, ended, run, panics) = (seen.trial.clone(), seen.ended, seen.run, seen.panics_most);
        if ended.is_some_and(|before| before != status) {
            self.violation(format!("{id} was {ended:?} for good and now is {status}"));
        }
        let life = if trial.begins_anew() { run } else { 0 };
        let right = match status {
            Status::Completed => !trial.fails_for_good(),
            Status::Failed => trial.fails_for_good() && self.undid_nothing(id, life),
            Status::Compensated => trial.fails_for_good(),
            Status::Quarantined => trial.may_be_put_aside() && (trial.kind != Kind::Plain || panics >= PANICS),
            Status::Stuck | Status::Parked | Status::Cancelled | Status::Terminated => false,
            _ => true,
        };
        if !right {
            self.violation(format!("{id} is {status} after {panics} panics: {trial:?}"));
        }
        if status == Status::Compensated
            && let Some(place) = self.left_to_undo(id, life)
        {
            self.violation(format!("{id} is compensated and {place} was not undone"));
        }
        if let Some(seen) = self.trials.get_mut(id) {
            seen.aside |= status == Status::Quarantined && releases == Some(seen.releases.0);
            seen.ended = seen.ended.or(status.is_terminal().then_some(status));
        }
    }

    /// Somebody asks for its release.
    pub(crate) fn trial_is_released(&mut self, id: &str) {
        self.note(format!("{id} is to be released"));
        if let Some(seen) = self.trials.get_mut(id) {
            (seen.aside, seen.panics) = (false, 0);
            seen.releases.0 += 1;
        }
    }

    /// There was an answer.
    pub(crate) fn trial_was_released(&mut self, id: &str) {
        if let Some(seen) = self.trials.get_mut(id) {
            seen.releases.1 += 1;
        }
    }

    /// Those that have not been seen to end.
    pub(crate) fn trials_left(&self) -> Vec<String> {
        let left = self.trials.iter().filter(|(_, seen)| seen.ended.is_none());
        left.map(|(id, _)| id.clone()).collect()
    }

    /// What a run did and has not undone.
    fn left_to_undo(&self, id: &str, life: u32) -> Option<String> {
        self.done_in(id, life)
            .find(|(_, step)| !step.undo.done)
            .map(|(place, _)| place.path.clone())
    }

    /// Whether there was nothing to undo in a run.
    fn undid_nothing(&self, id: &str, life: u32) -> bool {
        self.done_in(id, life).next().is_none()
    }

    fn done_in(&self, id: &str, life: u32) -> impl Iterator<Item = (&Place, &StepSeen)> {
        let within = format!("{id}/{life}/");
        let ours = move |(place, step): &(&Place, &StepSeen)| {
            place.path.starts_with(&within) && step.undo.owed_since.is_some()
        };
        self.steps.iter().filter(ours)
    }
}

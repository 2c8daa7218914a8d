//! Steps: asked for, executed, seen, undone.

use super::{Ledger, Place, StepSeen};

/// The turns of loops that a place is in: what the path of each loop is, and the number of the turn.
fn turns(path: &str) -> impl Iterator<Item = (&str, u32)> {
    let starts = path.match_indices("/i").map(|(at, _)| at);
    starts.filter_map(move |at| {
        let turn = path[at + 2..].split('/').next()?;
        Some((&path[..at], turn.parse().ok()?))
    })
}

impl Ledger {
    /// The code asks for a step.
    pub(crate) fn asks(&mut self, place: &Place) {
        let seen = self.instance(&place.instance);
        seen.asked += 1;
        let asked = seen.asked;
        let first = self.moment(place);
        let step = self.steps.entry(place.clone()).or_insert_with(|| StepSeen {
            first,
            ..StepSeen::default()
        });
        step.asked = asked;
    }

    /// An attempt at a step runs, which waited until what the code had seen was stored or did not. Gives what it has to
    /// return: something that no other execution returns.
    pub(crate) fn executes(&mut self, place: &Place, (attempt, waits): (u32, bool), key: &str) -> String {
        self.executions += 1;
        let asked = self.steps.get(place).map_or(0, |step| step.asked);
        if waits {
            let seen = self.instance(&place.instance);
            seen.followed = seen.followed.max(asked);
        }
        let value = format!("{}#{}", place.path, self.executions);
        self.note(format!("executes {value}, attempt {attempt}"));
        let step = self.steps.entry(place.clone()).or_default();
        step.executions.push(value.clone());
        let before = step.key.get_or_insert_with(|| key.to_owned()).clone();
        let decided = step.result.is_some();
        if decided {
            self.violation(format!("{} ran again after its result was seen", place.path));
        }
        if before != key {
            self.violation(format!("{} has two idempotency keys", place.path));
        }
        if self.instance(&place.instance).held {
            self.violation(format!("{} began though {} is held", place.path, place.instance));
        }
        let first = self.steps.get(place).map(|step| step.first);
        if let Some(first) = first.filter(|first| self.came_too_late(place, *first)) {
            self.violation(format!(
                "{} began behind the end of {}: {first:?}",
                place.path, place.instance
            ));
        }
        if !(1..=3).contains(&attempt) {
            self.violation(format!("{} made attempt {attempt}", place.path));
        }
        value
    }

    /// The code behind a step saw its result.
    pub(crate) fn saw_result(&mut self, place: &Place, result: Result<&String, String>, undoable: bool) {
        let result = result.cloned();
        let commits = self.commits;
        let strange = matches!(&result, Ok(value) if !self.has_returned(place, value));
        let step = self.steps.entry(place.clone()).or_default();
        let changed = step.result.as_ref().is_some_and(|before| *before != result);
        let before = step.result.get_or_insert_with(|| result.clone()).clone();
        if undoable && result.is_ok() {
            step.undo.owed_since.get_or_insert(commits);
        }
        self.note(format!("{} saw {result:?}", place.path));
        if strange {
            self.violation(format!(
                "{} has a result that it never returned: {result:?}",
                place.path
            ));
        }
        if changed {
            self.violation(format!("{} had {before:?} and now has {result:?}", place.path));
        }
    }

    /// The code behind an ephemeral step saw its result.
    pub(crate) fn saw_passing(&mut self, place: &Place, result: &Result<&String, String>) {
        self.note(format!("{} saw {result:?}, for now", place.path));
        if matches!(result, Ok(value) if !self.has_returned(place, value)) {
            self.violation(format!(
                "{} has a result that it never returned: {result:?}",
                place.path
            ));
        }
    }

    /// A step is being undone.
    pub(crate) fn undoes(&mut self, place: &Place, value: &str, attempt: u32) {
        self.note(format!("undoes {value}, attempt {attempt}"));
        let step = self.steps.entry(place.clone()).or_default();
        let first = !std::mem::replace(&mut step.undo.begun, true);
        let since = step.undo.owed_since;
        let decided = matches!(&step.result, Some(Ok(result)) if result != value);
        if !self.has_returned(place, value) || decided {
            self.violation(format!("{} is undone with {value}", place.path));
        }
        let seen = self.instance(&place.instance);
        if seen.failed_in.is_none() && !seen.cancel_asked && seen.deadline_ms.is_none() {
            self.violation(format!("{} is undone though nothing failed", place.path));
        }
        if let Some(other) = self.is_of_another_turn(place) {
            self.violation(format!("{} is undone beside {other}, of another turn", place.path));
        }
        // The undoings of one run begin one after the other, the last one first.
        let run = place.path.split('/').nth(1);
        let mut later = self.steps.iter().filter(|(other, step)| {
            let ours = other.instance == place.instance && other.path.split('/').nth(1) == run;
            ours && !step.undo.begun && step.undo.owed_since > since
        });
        if let Some((other, _)) = later.next().filter(|_| first && since.is_some()) {
            let other = other.path.clone();
            self.violation(format!("{} is undone before {other}", place.path));
        }
    }

    /// The code makes a checkpoint: what the turns before this one did is not undone any more, of every loop around it.
    pub(crate) fn checkpoints(&mut self, place: &Place) {
        self.note(format!("{} can be undone from here on", place.path));
        let turn = |(around, turn)| turns(&place.path).any(|(other, now)| other == around && turn < now);
        for (step, seen) in &mut self.steps {
            if step.instance == place.instance && turns(&step.path).any(turn) {
                seen.undo.owed_since = None;
            }
        }
    }

    /// What is wrong with undoing a step, if another turn of the same loop is being undone.
    fn is_of_another_turn(&self, place: &Place) -> Option<String> {
        let undone = |(other, step): (&Place, &StepSeen)| {
            let ours = other.instance == place.instance && step.undo.begun;
            let turn = |(around, turn)| turns(&other.path).any(|(same, now)| same == around && turn != now);
            (ours && turns(&place.path).any(turn)).then(|| other.path.clone())
        };
        self.steps.iter().find_map(undone)
    }

    /// A step was undone.
    pub(crate) fn has_undone(&mut self, place: &Place) {
        self.note(format!("{} is undone", place.path));
        self.steps.entry(place.clone()).or_default().undo.done = true;
    }

    /// Whether anything of an instance's last run is still to be undone.
    pub(super) fn not_undone(&mut self, id: &str) -> Option<String> {
        let run = self.instance(id).run.to_string();
        let owed = |(place, step): (&Place, &StepSeen)| {
            let ours = place.instance == id && place.path.split('/').nth(1) == Some(&run);
            (ours && step.undo.owed_since.is_some() && !step.undo.done).then(|| place.path.clone())
        };
        self.steps.iter().find_map(owed)
    }
}

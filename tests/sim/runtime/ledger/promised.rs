//! Ends that were promised: cancellations that were acknowledged, and deadlines.
//!
//! Code that is to end may have had all that it waited for, or may never hear of it behind a shield: then it completes,
//! and that is right (docs/GUARANTEES.md, "Two things at once"). So it is not the end alone that tells. What tells is
//! that something still comes to the code which can only have come behind the end: a sleep that had longer to go, a
//! step or a sleep that was asked for afterwards, a message that was sent afterwards.

use everstep::Effect;

use super::{Ledger, Moment, Place};

/// It was acknowledged that an instance is to end.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToEnd {
    /// Behind so many events.
    events: usize,
    /// It was taken when no clock had shown more than this; none if it waits until the instance goes on.
    taken_ms: Option<u64>,
}

/// How long an instance may take, by the starts that were tried.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Limit {
    longest_ms: Option<u64>,
    /// One of the starts gives it all the time there is.
    is_endless: bool,
    /// It has run out of time when a clock shows more than this.
    until_ms: Option<u64>,
}

impl Limit {
    /// The same for another instance with its id: starts that are on their way may be what begins it.
    pub(super) fn forgotten(self) -> Self {
        Self { until_ms: None, ..self }
    }
}

/// Whether a place is out of the reach of a cancellation.
fn is_shielded(place: &Place) -> bool {
    place.path.split(['/', '.']).any(|part| part == "s")
}

impl Ledger {
    /// A start is tried that gives it so long.
    pub(crate) fn limits(&mut self, id: &str, deadline_ms: Option<u64>) {
        let now = self.now_ms;
        let seen = self.instance(id);
        let Some(millis) = deadline_ms else {
            seen.limit.is_endless = true;
            return;
        };
        let at = now + millis;
        seen.deadline_ms = Some(seen.deadline_ms.map_or(at, |before| before.min(at)));
        seen.limit.longest_ms = seen.limit.longest_ms.max(Some(millis));
    }

    /// The code of an instance is called: it was created by now.
    pub(super) fn has_begun(&mut self, id: &str) {
        let latest = self.latest_ms;
        let limit = &mut self.instance(id).limit;
        if let Some(longest) = limit.longest_ms.filter(|_| !limit.is_endless) {
            limit.until_ms.get_or_insert(latest + longest);
        }
    }

    /// An instance is said to have run out of time.
    pub(crate) fn ran_out_of_time(&mut self, id: &str) {
        let (latest, deadline) = (self.latest_ms, self.instance(id).deadline_ms);
        match deadline {
            Some(at) if at <= latest => {}
            other => self.violation(format!("{id} ran out of time at {latest}, and had until {other:?}")),
        }
    }

    /// Somebody was told what became of a cancellation, by an answer that knows of these renewals.
    pub(crate) fn is_acknowledged_to_end(&mut self, id: &str, renewals: u64, effect: Effect) {
        let (events, latest) = (self.trace.len(), self.latest_ms);
        let seen = self.instance(id);
        let renewed = seen.renewals != renewals || seen.renewing > 0 || seen.vanishing || seen.deleted;
        if renewed || !matches!(effect, Effect::Done | Effect::Asked) {
            return;
        }
        let to_end = seen.to_end.get_or_insert(ToEnd { events, taken_ms: None });
        if effect == Effect::Done {
            to_end.taken_ms.get_or_insert(latest);
        }
    }

    /// What is to be known of something that happens now.
    pub(super) fn moment(&mut self, place: &Place) -> Moment {
        let (events, now) = (self.trace.len(), self.now_ms);
        let until = self.instance(&place.instance).limit.until_ms;
        Moment {
            events,
            late: until.is_some_and(|until| now > until),
        }
    }

    /// Whether what was asked for first at this moment comes behind the end that the instance was to have.
    pub(super) fn came_too_late(&mut self, place: &Place, first: Moment) -> bool {
        let seen = self.instance(&place.instance);
        let behind = seen.to_end.is_some_and(|to_end| first.events > to_end.events);
        !is_shielded(place) && (behind || (first.late && seen.renewals == 0))
    }

    /// Whether an instance was told to end before this time had come.
    pub(super) fn was_to_end_before(&mut self, place: &Place, due_ms: u64) -> bool {
        let to_end = self.instance(&place.instance).to_end;
        !is_shielded(place)
            && to_end
                .and_then(|to_end| to_end.taken_ms)
                .is_some_and(|taken| due_ms > taken)
    }

    /// What is wrong with taking a message, if it was sent behind the end that the instance was to have.
    pub(super) fn takes_what_is_too_late(&mut self, place: &Place, id: &str) -> Option<String> {
        let seen = self.instance(&place.instance);
        let taken = seen.to_end.filter(|to_end| to_end.taken_ms.is_some())?;
        let message = seen.messages.get(id).filter(|message| !message.was_taken)?;
        let late = message.tried_at > taken.events && !is_shielded(place);
        late.then(|| format!("{} took {id}, which was sent when it was to end", place.path))
    }
}

//! Waits: sleeps, and messages that are taken.

use super::{Ledger, MessageSeen, Place, SleepSeen};
use crate::runtime::interpreter::News;

impl Ledger {
    /// The code begins to sleep.
    pub(crate) fn lies_down(&mut self, place: &Place, takes_ms: u64) {
        let now = self.now_ms;
        let earlier = place.before().find_map(|before| self.sleeps.get(&before));
        let rewound = self
            .instances
            .get(&place.instance)
            .is_some_and(|seen| seen.renewals > 0);
        let earlier = earlier.filter(|_| rewound);
        let woken = earlier.is_some_and(|sleep| sleep.woken);
        // A sleep that a reset keeps goes on: what the clock has shown since it began counts.
        let shown = earlier.map_or(now, |sleep| sleep.shown_ms.max(now));
        let now = earlier.map_or(now, |sleep| sleep.begun_ms.min(now));
        let first = self.moment(place);
        let sleep = self.sleeps.entry(place.clone()).or_insert(SleepSeen {
            takes_ms,
            begun_ms: now,
            shown_ms: shown,
            woken,
            first,
        });
        if !sleep.woken {
            sleep.begun_ms = sleep.begun_ms.min(now);
        }
    }

    /// The code begins to sleep until this time.
    pub(crate) fn lies_down_until(&mut self, place: &Place, at_ms: u64) {
        if at_ms <= self.now_ms {
            return self.lies_down(place, 0);
        }
        let (mut shown_ms, first) = (self.now_ms, self.moment(place));
        // A sleep that a reset keeps goes on.
        let rewound = self.instance(&place.instance).renewals > 0;
        let earlier = place.before().find_map(|before| self.sleeps.get(&before));
        let at_ms = match earlier.filter(|_| rewound) {
            Some(earlier) => {
                shown_ms = shown_ms.max(earlier.shown_ms);
                at_ms.min(earlier.begun_ms + earlier.takes_ms)
            }
            None => at_ms,
        };
        let sleep = self.sleeps.entry(place.clone()).or_insert(SleepSeen {
            takes_ms: at_ms,
            begun_ms: 0,
            shown_ms,
            woken: false,
            first,
        });
        if !sleep.woken {
            // What the code goes by may not have been stored, and be another time now.
            sleep.takes_ms = sleep.takes_ms.min(at_ms);
        }
    }

    /// The code behind a sleep goes on.
    pub(crate) fn wakes(&mut self, place: &Place) {
        let now = self.now_ms;
        let Some(sleep) = self.sleeps.get_mut(place) else {
            return self.violation(format!("{} woke without having slept", place.path));
        };
        let first = !std::mem::replace(&mut sleep.woken, true);
        let (due, shown) = (sleep.begun_ms + sleep.takes_ms, sleep.shown_ms.max(now));
        let (takes_ms, begun) = (sleep.takes_ms, sleep.first);
        self.note(format!("{} wakes", place.path));
        if first && shown < due {
            self.violation(format!("{} woke at {shown}, not at {due}", place.path));
        }
        if first && takes_ms > 0 && (self.came_too_late(place, begun) || self.was_to_end_before(place, due)) {
            let id = &place.instance;
            self.violation(format!(
                "{} woke though {id} was to end: {begun:?}, due {due}",
                place.path
            ));
        }
    }

    /// The code behind a wait has messages, or none.
    pub(crate) fn took(&mut self, place: &Place, taken: &[News]) {
        let ids: Vec<_> = taken.iter().map(News::id).collect();
        let to: Vec<_> = taken.iter().map(|news| news.to.clone()).collect();
        self.took_messages(place, &ids, &to);
    }

    /// The same by what they are called, and whom they are for.
    pub(crate) fn took_messages(&mut self, place: &Place, ids: &[String], to: &[String]) {
        let ids = ids.to_vec();
        self.note(format!("{} took {ids:?}", place.path));
        let asked = self.instance(&place.instance).asked;
        let (before, _) = self
            .receives
            .entry(place.clone())
            .or_insert_with(|| (ids.clone(), asked))
            .clone();
        if before != ids {
            self.violation(format!("{} took {before:?} and now has {ids:?}", place.path));
        }
        for (id, to) in ids.iter().zip(to) {
            if let Some(said) = self.takes_what_is_too_late(place, id) {
                self.violation(said);
            }
            let seen = self.instance(&place.instance);
            let rewound = seen.renewals > 0;
            let message = seen.messages.entry(id.clone()).or_default();
            message.was_taken = true;
            if message.taken_at.is_none() {
                message.asked = asked;
            }
            let at = message.taken_at.get_or_insert_with(|| place.path.clone()).clone();
            if rewound {
                message.taken_at = Some(place.path.clone());
            }
            if *to != place.instance {
                self.violation(format!("{} got what was for {to}", place.path));
            }
            if at != place.path && !rewound {
                self.violation(format!("{id} was taken at {at} and at {}", place.path));
            }
        }
    }

    /// The code is called anew. What it was given and nothing has followed from may not have been stored.
    pub(super) fn takes_back(&mut self, id: &str) {
        let followed = self.instance(id).followed;
        self.receives
            .retain(|place, (_, before)| place.instance != id || *before < followed);
        let messages = self.instance(id).messages.values_mut();
        for message in messages.filter(|message| message.asked >= followed) {
            message.taken_at = None;
        }
    }

    /// Whether a message was given to the code, and something has followed from that.
    pub(crate) fn has_followed(&self, id: &str, message: &MessageSeen) -> bool {
        let followed = self.instances.get(id).map_or(0, |seen| seen.followed);
        message.taken_at.is_some() && message.asked < followed
    }
}

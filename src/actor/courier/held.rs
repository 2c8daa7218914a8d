//! What the courier could not carry for now, and when it tries again.
//!
//! A row that can't be delivered stays in its outbox. Whenever somebody else has something to carry, what is known to wait
//! is passed over without being read; its own time comes later and later, until some of it gets where it is going.
//!
//! It is all hints: what is forgotten here is read again from the outboxes.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::actor::courier::blocked::Blocked;
use crate::clock::Stopwatch;
use crate::limits::{COURIER_BACKOFF_MAX, COURIER_BACKOFF_MIN, COURIER_HELD_MAX, COURIER_UNREADABLE_MAX};
use crate::storage::Posted;

/// Senders that something waits of.
#[derive(Debug, Default)]
pub(super) struct Held {
    senders: HashMap<String, Waits>,
    /// Rows that can't be read, and were told of.
    told: HashSet<(String, u64, u32)>,
}

/// What waits of one sender.
#[derive(Debug)]
struct Waits {
    blocked: Blocked,
    /// The last row that was looked at.
    last: (u64, u32),
    since: Stopwatch,
    wait: Duration,
    /// Its time has come: all of it is looked at in this round.
    due: bool,
}

impl Waits {
    fn left(&self) -> Duration {
        self.wait.saturating_sub(self.since.elapsed())
    }
}

impl Held {
    /// A round begins: everything is tried again whose time has come. Nothing comes due within a round, in the midst of
    /// which something could overtake what waits.
    pub(super) fn begin_round(&mut self) {
        for waits in self.senders.values_mut() {
            waits.due = waits.left().is_zero();
        }
    }

    /// A round is over. Those whose time had come and that nothing was found of have nothing more on its way.
    pub(super) fn end_round(&mut self) {
        self.senders.retain(|_, waits| !waits.due);
    }

    /// How many there are of whom something waits.
    pub(super) fn senders(&self) -> usize {
        self.senders.len()
    }

    /// Up to where the rows of a sender are passed over, if they are.
    pub(super) fn known(&self, sender: &str) -> Option<(u64, u32)> {
        self.passed_over(sender).map(|waits| waits.last)
    }

    /// Who has to wait behind earlier rows of a sender, when some more of it are looked at.
    pub(super) fn blocked(&self, sender: &str) -> Blocked {
        let behind = self.passed_over(sender);
        behind.map(|waits| waits.blocked.clone()).unwrap_or_default()
    }

    fn passed_over(&self, sender: &str) -> Option<&Waits> {
        self.senders.get(sender).filter(|waits| !waits.due)
    }

    /// Rows of a sender were looked at, up to this one; so many of them got where they were going.
    pub(super) fn looked(&mut self, sender: &str, last: (u64, u32), blocked: Blocked, done: usize) {
        let before = self.senders.remove(sender);
        if blocked.is_empty() {
            return;
        }
        let waits = match before {
            // Only what was new was looked at.
            Some(before) if !before.due => Waits {
                blocked,
                last,
                ..before
            },
            before => {
                let again = before.as_ref().filter(|_| done == 0).map(|before| before.wait * 2);
                // What was looked at before, further behind, waits for the same ones.
                let known = before.filter(|before| blocked.includes(&before.blocked));
                Waits {
                    last: known.map_or(last, |known| known.last.max(last)),
                    blocked,
                    since: Stopwatch::start(),
                    wait: again.unwrap_or(COURIER_BACKOFF_MIN).min(COURIER_BACKOFF_MAX),
                    due: false,
                }
            }
        };
        self.senders.insert(sender.to_owned(), waits);
    }

    /// Forgets that something waits: it is tried again at once.
    pub(super) fn forget(&mut self, sender: &str) {
        self.senders.remove(sender);
    }

    /// Forgets everyone, if they are too many, but the one whose rows are being looked at.
    pub(super) fn trim(&mut self, but: Option<&str>) {
        if self.senders.len() > COURIER_HELD_MAX {
            self.senders.retain(|sender, _| Some(sender.as_str()) == but);
        }
    }

    /// How long until something is tried again, if anything is.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.senders.values().map(Waits::left).min()
    }

    /// Tells of a row that can't be read, once.
    pub(super) fn tell_of(&mut self, row: &Posted) {
        let Err(error) = &row.outgoing else {
            return;
        };
        let Posted {
            from, revision, index, ..
        } = row;
        let known = self.told.len() >= COURIER_UNREADABLE_MAX;
        if !known && self.told.insert((from.to_string(), *revision, *index)) {
            tracing::error!(
                sender = %from, revision, index, %error, code = error.code(),
                "something on its way can't be read; it is passed over"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::record::{Outgoing, Parcel};

    fn blocked(to: &[&str]) -> Blocked {
        let mut blocked = Blocked::default();
        for to in to {
            let parcel = Parcel::Leave {
                key: String::new(),
                place: None,
            };
            let to = (*to).to_owned();
            blocked.add(&Outgoing { to, parcel });
        }
        blocked
    }

    /// Passes the time until something is tried again.
    async fn pass(held: &mut Held) {
        let wait = held.wait().unwrap();
        let over = tokio::time::timeout(wait, std::future::pending::<()>()).await;
        assert!(over.is_err());
        held.begin_round();
    }

    /// Found in review: whenever anybody had something to carry, everything that waited was read and tried again.
    #[tokio::test(start_paused = true)]
    async fn what_waits_is_passed_over_until_its_time_and_that_grows() {
        let mut held = Held::default();
        held.looked("s", (3, 0), blocked(&["full"]), 0);
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert_eq!(held.known("s"), Some((3, 0)));
            waits.push(held.wait().unwrap());
            pass(&mut held).await;
            assert_eq!(held.known("s"), None, "its time has come");
            held.looked("s", (3, 0), blocked(&["full"]), 0);
        }
        assert!(
            waits
                .windows(2)
                .all(|pair| pair[0] < pair[1] || pair[1] == COURIER_BACKOFF_MAX)
        );
        assert_eq!(held.wait(), Some(COURIER_BACKOFF_MAX));
        pass(&mut held).await;
        held.looked("s", (4, 0), blocked(&["full"]), 1);
        assert_eq!(held.wait(), Some(COURIER_BACKOFF_MIN), "some of it got there");
        held.looked("s", (5, 0), Blocked::default(), 1);
        assert_eq!((held.known("s"), held.wait()), (None, None), "nothing waits");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_new_waits_behind_what_waits_and_does_not_hasten_it() {
        let mut held = Held::default();
        held.looked("s", (3, 0), blocked(&["full"]), 0);
        let wait = held.wait();
        assert_eq!(held.blocked("s"), blocked(&["full"]));
        held.looked("s", (9, 0), blocked(&["full", "too"]), 4);
        assert_eq!((held.known("s"), held.wait()), (Some((9, 0)), wait));
        pass(&mut held).await;
        assert!(held.blocked("s").is_empty(), "all of it is tried again");
        held.looked("s", (5, 0), blocked(&["full", "too"]), 0);
        assert_eq!(
            held.known("s"),
            Some((9, 0)),
            "what lies between waits for the same ones"
        );
        pass(&mut held).await;
        held.looked("s", (5, 0), blocked(&["full"]), 1);
        assert_eq!(held.known("s"), Some((5, 0)), "what lies between is looked at");
    }
    /// Its time comes while its rows are being looked at: what is new is not to overtake what was passed over.
    #[tokio::test(start_paused = true)]
    async fn nothing_comes_due_within_a_round() {
        let mut held = Held::default();
        held.looked("s", (3, 0), blocked(&["full"]), 0);
        held.begin_round();
        tokio::time::advance(COURIER_BACKOFF_MAX).await;
        assert_eq!(held.known("s"), Some((3, 0)));
        assert_eq!(held.blocked("s"), blocked(&["full"]));
        held.end_round();
        held.begin_round();
        assert_eq!(held.known("s"), None);
        assert!(held.blocked("s").is_empty());
    }

    /// A sender that was deleted has nothing on its way any more, and is not waited for.
    #[tokio::test(start_paused = true)]
    async fn who_has_nothing_left_is_forgotten() {
        let mut held = Held::default();
        held.looked("s", (3, 0), blocked(&["full"]), 0);
        pass(&mut held).await;
        held.end_round();
        assert_eq!(held.wait(), None);
    }
}

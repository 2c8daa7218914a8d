//! Holds back what breaks down again and again.
//!
//! One instance that breaks down is restarted later and later. When many of one workflow do within a short time, or the
//! store can't be reached, the next ones would too: they are left where they are for a while, and then a few are tried.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::limits::{BREAKER_BACKOFF, BREAKER_BREAKDOWNS_MAX, BREAKER_TRIES, BREAKER_WINDOW};

/// Counts breakdowns of each lane, and of all lanes together.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    circuits: Mutex<BTreeMap<Option<Arc<str>>, Circuit>>,
}

#[derive(Debug, Clone, Copy)]
struct Circuit {
    /// Since when breakdowns are counted.
    since: Stopwatch,
    count: u32,
    /// How long it holds back the next time.
    wait: Duration,
    holds_back: bool,
}

impl Circuit {
    fn new() -> Self {
        Self {
            since: Stopwatch::start(),
            count: 0,
            wait: BREAKER_BACKOFF.0,
            holds_back: false,
        }
    }
}

impl Breaker {
    /// Counts a breakdown of a lane, or of all. If it was one too many, says how long to hold back.
    pub(crate) fn broke_down(&self, lane: Option<&Arc<str>>) -> Option<Duration> {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        let circuit = circuits.entry(lane.cloned()).or_insert_with(Circuit::new);
        if circuit.holds_back {
            return None;
        }
        if circuit.since.elapsed() > BREAKER_WINDOW {
            *circuit = Circuit::new();
        }
        circuit.count += 1;
        if circuit.count < BREAKER_BREAKDOWNS_MAX {
            return None;
        }
        let wait = circuit.wait;
        circuit.holds_back = true;
        circuit.wait = (wait * 2).min(BREAKER_BACKOFF.1);
        Some(wait)
    }

    /// The time is over: a few are tried. If they break down as well, it holds back again, for longer.
    pub(crate) fn try_again(&self, lane: Option<&Arc<str>>) {
        let mut circuits = self.circuits.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(circuit) = circuits.get_mut(&lane.cloned()) {
            circuit.holds_back = false;
            circuit.since = Stopwatch::start();
            circuit.count = BREAKER_BREAKDOWNS_MAX - BREAKER_TRIES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn break_down(breaker: &Breaker, times: u32) -> Option<Duration> {
        (0..times).filter_map(|_| breaker.broke_down(None)).next()
    }

    #[tokio::test(start_paused = true)]
    async fn it_holds_back_longer_each_time_and_forgets_when_all_is_well() {
        let (first, most) = BREAKER_BACKOFF;
        let breaker = Breaker::default();
        assert_eq!(break_down(&breaker, BREAKER_BREAKDOWNS_MAX - 1), None);
        assert_eq!(break_down(&breaker, 1), Some(first));
        assert_eq!(break_down(&breaker, 1000), None, "it holds back already");
        assert_eq!(breaker.broke_down(Some(&Arc::from("another lane"))), None);
        let mut waits = Vec::new();
        for _ in 0..10 {
            breaker.try_again(None);
            waits.extend(break_down(&breaker, BREAKER_TRIES));
        }
        assert_eq!((waits.len(), waits[0], waits[9]), (10, first * 2, most));
        breaker.try_again(None);
        tokio::time::advance(BREAKER_WINDOW + first).await;
        assert_eq!(break_down(&breaker, BREAKER_BREAKDOWNS_MAX - 1), None);
        assert_eq!(break_down(&breaker, 1), Some(first));
    }
}

//! Whose turn it is: by priority, and in turn between those of one priority.

use std::collections::VecDeque;

use crate::storage::record::Priority;

/// Lanes that have something in them, in the order in which they are served.
///
/// Priorities share as [`Priority::share`] says: of a priority with twice the share twice as many are served, for as long
/// as all have something. So the lowest waits longer and is never starved. Lanes of one priority are served in turn.
#[derive(Debug)]
pub(crate) struct Turns<L> {
    /// The lanes of each priority, and how much it has been served, in units that its share makes dearer or cheaper.
    ranks: [(VecDeque<L>, u64); 3],
    /// What the last one that was served had before. Whoever comes back from doing nothing begins here and has saved
    /// nothing up.
    now: u64,
}

impl<L> Default for Turns<L> {
    fn default() -> Self {
        Self {
            ranks: [(VecDeque::new(), 0), (VecDeque::new(), 0), (VecDeque::new(), 0)],
            now: 0,
        }
    }
}

impl<L> Turns<L> {
    /// Adds a lane behind the others of its priority. It must not be there yet.
    pub(crate) fn add(&mut self, priority: Priority, lane: L) {
        let now = self.now;
        let (lanes, served) = &mut self.ranks[priority as usize];
        if lanes.is_empty() {
            *served = now.max(*served);
        }
        lanes.push_back(lane);
    }

    /// Takes the lane whose turn it is, among those that `may` be served. It is put back with [`Turns::add`] if it has
    /// more.
    pub(crate) fn take(&mut self, may: impl Fn(Priority, &L) -> bool) -> Option<(Priority, L)> {
        let mut order = Priority::ALL;
        // The one that was served least comes first; of two that were served alike, the higher.
        order.sort_by_key(|priority| (self.ranks[*priority as usize].1, std::cmp::Reverse(*priority)));
        for priority in order {
            let (lanes, served) = &mut self.ranks[priority as usize];
            let Some(at) = lanes.iter().position(|lane| may(priority, lane)) else {
                continue;
            };
            let lane = lanes.remove(at)?;
            self.now = self.now.max(*served);
            *served += Priority::High.share() / priority.share();
            return Some((priority, lane));
        }
        None
    }

    /// Takes a lane out that has nothing any more.
    pub(crate) fn remove(&mut self, priority: Priority, gone: impl Fn(&L) -> bool) {
        self.ranks[priority as usize].0.retain(|lane| !gone(lane));
    }

    /// Whether there is a lane that may be served.
    pub(crate) fn any(&self, may: impl Fn(Priority, &L) -> bool) -> bool {
        let of = |priority: Priority| self.ranks[priority as usize].0.iter().any(|lane| may(priority, lane));
        Priority::ALL.into_iter().any(of)
    }

    /// Forgets all lanes.
    pub(crate) fn clear(&mut self) {
        self.ranks.iter_mut().for_each(|(lanes, _)| lanes.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many; each lane always has more.
    fn serve(turns: &mut Turns<&'static str>, count: usize) -> Vec<&'static str> {
        (0..count)
            .map(|_| {
                let (priority, lane) = turns.take(|_, _| true).unwrap();
                turns.add(priority, lane);
                lane
            })
            .collect()
    }

    fn count(served: &[&str], lane: &str) -> usize {
        served.iter().filter(|other| **other == lane).count()
    }

    #[test]
    fn priorities_share_as_they_say_and_the_lowest_is_not_starved() {
        let mut turns = Turns::default();
        turns.add(Priority::Low, "low");
        turns.add(Priority::High, "high");
        turns.add(Priority::Normal, "normal");
        let served = serve(&mut turns, 730);
        assert_eq!(
            ["low", "normal", "high"].map(|lane| count(&served, lane)),
            [10, 80, 640]
        );
        assert_eq!(served[0], "high");
    }

    #[test]
    fn lanes_of_one_priority_take_turns() {
        let mut turns = Turns::default();
        for lane in ["a", "b", "c"] {
            turns.add(Priority::Normal, lane);
        }
        assert_eq!(serve(&mut turns, 6), ["a", "b", "c", "a", "b", "c"]);
    }

    /// Whoever did nothing for long has no claim to be served alone afterwards.
    #[test]
    fn nobody_saves_turns_up() {
        let mut turns = Turns::default();
        turns.add(Priority::High, "high");
        serve(&mut turns, 10_000);
        turns.add(Priority::Low, "low");
        let served = serve(&mut turns, 130);
        assert_eq!(count(&served, "low"), 2);
    }

    #[test]
    fn who_may_not_be_served_keeps_nobody_waiting() {
        let mut turns = Turns::default();
        turns.add(Priority::High, "full");
        turns.add(Priority::Low, "free");
        assert_eq!(turns.take(|_, lane| *lane != "full"), Some((Priority::Low, "free")));
        assert!(turns.any(|_, lane| *lane == "full"));
        assert!(!turns.any(|_, lane| *lane == "free"));
    }
}

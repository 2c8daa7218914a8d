//! The next alarms of one shard, in memory.

use std::collections::BTreeSet;

use crate::clock::Millis;
use crate::ids::InstanceId;

/// When, and whom for.
pub(crate) type Alarm = (Millis, InstanceId);

/// Up to where alarms have rung: to that of this instance at this time, or to all of that time.
pub(crate) type Rung = (Millis, Option<InstanceId>);

/// The next alarms of one shard behind the last that rang. If the store has more it is complete up to its last one, and
/// if not, complete altogether.
#[derive(Debug)]
pub(crate) struct Window {
    alarms: BTreeSet<Alarm>,
    most: usize,
    /// Whether the store has alarms behind the window.
    beyond: bool,
    /// Whether somebody reads the store. What is added meanwhile need not be among what is found there.
    reading: bool,
    /// When to read the store again, after it could not be read.
    again_at_ms: Option<Millis>,
    /// Rows up to here may still be there: they go when their instances get that far. Whoever looks and finds that it is
    /// too early says so again.
    rung: Option<Rung>,
}

impl Window {
    /// A window of at most so many, for a shard that nothing is known of. What is due by now is not looked for.
    pub(crate) fn new(most: usize, now: Millis) -> Self {
        Self {
            alarms: BTreeSet::new(),
            most,
            beyond: true,
            reading: false,
            again_at_ms: None,
            rung: Some((now, None)),
        }
    }

    /// Adds an alarm that became durable. Says whether it is the earliest. One that is there already, or that is found
    /// when the window gets there, changes nothing.
    pub(crate) fn add(&mut self, alarm: Alarm) -> bool {
        let inside = self.reading || !self.beyond || self.alarms.last().is_some_and(|last| alarm < *last);
        // What lies before the last that rang is not found by reading on from there.
        if !inside && !has_passed(self.rung.as_ref(), &alarm) {
            return false;
        }
        let earliest = self.alarms.first().is_none_or(|first| alarm < *first);
        self.alarms.insert(alarm);
        self.trim();
        earliest
    }

    /// When there is something to do: the next alarm is due, or the store has to be read.
    pub(crate) fn next_at_ms(&self) -> Option<Millis> {
        let first = self.alarms.first().map(|(at_ms, _)| *at_ms);
        first.or(self.again_at_ms)
    }

    /// Takes the next alarm out if it is due: it rings.
    pub(crate) fn take(&mut self, now: Millis) -> Option<Alarm> {
        self.alarms.first().filter(|(at_ms, _)| *at_ms <= now)?;
        let alarm = self.alarms.pop_first()?;
        if !has_passed(self.rung.as_ref(), &alarm) {
            self.rung = Some((alarm.0, Some(alarm.1.clone())));
        }
        Some(alarm)
    }

    /// How much of the store has to be read, and from where on; [`Window::fill`] or [`Window::spoil`] has to follow.
    pub(crate) fn begin_reading(&mut self, now: Millis) -> Option<(usize, Option<Rung>)> {
        let spoiled = self.again_at_ms.is_some_and(|at_ms| now < at_ms);
        if !self.alarms.is_empty() || !self.beyond || spoiled {
            return None;
        }
        self.reading = true;
        self.again_at_ms = None;
        Some((self.most, self.rung.clone()))
    }

    /// Takes in what was read, in order, and whether there is more behind it.
    pub(crate) fn fill(&mut self, read: Vec<Alarm>, more: bool) {
        self.reading = false;
        self.beyond = more;
        let last = read.last().filter(|_| more).cloned();
        self.alarms.extend(read);
        if let Some(last) = last {
            // It is complete up to here; of what was added meanwhile, the rest is found when the window gets there.
            self.alarms.retain(|alarm| *alarm <= last);
        }
        self.trim();
    }

    /// The store could not be read, and has to be read again, at this time.
    pub(crate) fn spoil(&mut self, again_at_ms: Millis) {
        self.reading = false;
        self.again_at_ms = Some(again_at_ms);
        self.beyond = true;
        let rung = self.rung.as_ref();
        self.alarms.retain(|alarm| has_passed(rung, alarm));
    }

    /// Keeps the earliest.
    fn trim(&mut self) {
        while self.alarms.len() > self.most && !self.reading {
            let Some(last) = self.alarms.pop_last() else { return };
            self.beyond = true;
            // It is read again: from the beginning, if it lies before what rang.
            if has_passed(self.rung.as_ref(), &last) {
                self.rung = None;
            }
        }
    }
}

/// Whether an alarm lies where alarms have rung.
fn has_passed(rung: Option<&Rung>, (at_ms, instance): &Alarm) -> bool {
    rung.is_some_and(|(rung_ms, last)| {
        at_ms < rung_ms || (at_ms == rung_ms && last.as_ref().is_none_or(|last| instance <= last))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Millis = 1000;

    fn alarm(at_ms: Millis) -> Alarm {
        (at_ms, InstanceId::new("a").unwrap())
    }

    /// Up to and with the alarm of this time.
    fn rung(at_ms: Millis) -> Option<Rung> {
        Some((at_ms, Some(alarm(at_ms).1)))
    }

    /// A window of three that has read one, three and five, and knows that there is more.
    fn filled() -> Window {
        let mut window = Window::new(3, 0);
        assert_eq!(window.begin_reading(LATE), Some((3, Some((0, None)))));
        window.fill(vec![alarm(1), alarm(3), alarm(5)], true);
        window
    }

    fn take_all(window: &mut Window) -> Vec<Millis> {
        std::iter::from_fn(|| window.take(LATE))
            .map(|(at_ms, _)| at_ms)
            .collect()
    }

    #[test]
    fn what_lies_behind_the_window_is_left_where_it_is() {
        let mut window = filled();
        assert!(!window.add(alarm(7)));
        assert!(window.add(alarm(0)), "it is the earliest, and lies where all have rung");
        assert!(!window.add(alarm(2)));
        assert_eq!(window.begin_reading(LATE), None);
        assert_eq!(take_all(&mut window), [0, 1, 2]);
        assert_eq!(window.begin_reading(LATE), Some((3, rung(2))), "from there on");
    }

    /// A clock that was set back: the instance says again when it wants to be woken.
    #[test]
    fn what_lies_before_the_last_that_rang_rings_again() {
        let mut window = filled();
        assert_eq!(take_all(&mut window), [1, 3, 5]);
        assert!(window.add(alarm(3)));
        for at_ms in [2, 4, 1] {
            window.add(alarm(at_ms));
        }
        assert_eq!(take_all(&mut window), [1, 2, 3]);
        assert_eq!(
            window.begin_reading(LATE),
            Some((3, rung(3))),
            "the last one was too many"
        );
    }

    #[test]
    fn what_comes_while_the_store_is_read_is_not_missed() {
        let mut window = Window::new(3, 0);
        window.begin_reading(LATE);
        window.add(alarm(2));
        window.add(alarm(9));
        window.fill(vec![alarm(1), alarm(3)], true);
        assert_eq!(take_all(&mut window), [1, 2, 3]);
        window.begin_reading(LATE);
        window.add(alarm(8));
        window.fill(vec![alarm(9)], false);
        assert_eq!(take_all(&mut window), [8, 9]);
        assert_eq!(window.begin_reading(LATE), None, "there is no more");
    }

    /// Found in review: of several shards, some had been read when one could not be. What was read stayed, and hid the
    /// alarms of the others that lay before it.
    #[test]
    fn a_store_that_can_not_be_read_is_read_again() {
        let mut window = filled();
        take_all(&mut window);
        window.begin_reading(LATE);
        window.add(alarm(4));
        window.add(alarm(8));
        window.spoil(LATE + 1);
        assert_eq!(take_all(&mut window), [4]);
        assert_eq!(
            (window.begin_reading(LATE), window.next_at_ms()),
            (None, Some(LATE + 1))
        );
        assert_eq!(window.begin_reading(LATE + 1), Some((3, rung(5))));
    }
}

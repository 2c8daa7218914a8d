//! Moving the time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Harness;
use super::text::or_panic;
use crate::clock::{Millis, wall_ms, whole_ms};
use crate::duration::IntoDuration;
use crate::limits::TEST_PATIENCE;
use crate::runtime::Runtime;
use crate::storage::Store;

impl Harness {
    /// The virtual time.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.inner.now_ms.get())
    }

    /// Lets time pass. Everything happens that comes due meanwhile, each at its time.
    ///
    /// # Panics
    ///
    /// If it is not a duration.
    #[track_caller]
    pub fn advance(&self, duration: impl IntoDuration) {
        let duration = or_panic(duration.into_duration(), |error| format!("{error}"));
        let whole = whole_ms(duration);
        self.pass_until(self.inner.now_ms.get().saturating_add(whole));
    }

    /// Lets time pass until it is this late.
    ///
    /// # Panics
    ///
    /// If it is later already.
    #[track_caller]
    pub fn advance_to(&self, time: SystemTime) {
        let (at, now) = (wall_ms(time), self.inner.now_ms.get());
        assert!(
            at >= now,
            "time does not run backwards: it is {}ms later already",
            now.saturating_sub(at)
        );
        self.pass_until(at);
    }

    fn pass_until(&self, at_ms: Millis) {
        // What is begun at this moment is begun before it is over.
        self.settle();
        self.living(|life| life.run(life.clock().pass_until(at_ms)));
        self.settle();
    }

    /// Lets time pass until nothing happens by itself any more: what is left waits for messages, events, promises or
    /// people.
    ///
    /// # Panics
    ///
    /// If that never comes: a loop that sleeps for ever, a schedule, a step that never ends.
    #[track_caller]
    pub fn run_until_idle(&self) {
        let most = self.most_commits();
        self.settle();
        loop {
            let disk = self.inner.disk.borrow().clone();
            if disk.commits() > most {
                self.never_rests();
            }
            let (attempts, alarm) = self.living(|life| {
                life.run(async {
                    let stats = life.runtime().stats();
                    (stats.attempts + stats.failing, self.next_alarm(life.runtime().store()))
                })
            });
            if attempts == 0 && alarm.is_none() {
                return;
            }
            let patience = self.inner.now_ms.get().saturating_add(whole_ms(TEST_PATIENCE));
            let moved = self.living(|life| {
                life.run(async {
                    tokio::select! {
                        biased;
                        () = disk.committed() => true,
                        () = life.clock().pass_until(alarm.unwrap_or(patience)) => alarm.is_some(),
                    }
                })
            });
            self.settle();
            if !moved {
                let report = self.report();
                panic!("an attempt does not end by itself\n{report}");
            }
        }
    }

    /// The next time at which somebody wakes up.
    fn next_alarm(&self, store: &Store) -> Option<Millis> {
        let now = self.inner.now_ms.get();
        let alarms = store.shards().filter_map(|shard| {
            let page = store.alarms(shard, None).expect("alarms can be read");
            // One that is past and still there belongs to somebody who is held.
            page.rows.into_iter().map(|(at, ..)| at).find(|at| *at > now)
        });
        alarms.min()
    }

    /// How many commits there are when there were too many.
    fn most_commits(&self) -> u64 {
        let commits = self.inner.disk.borrow().commits();
        commits.saturating_add(self.inner.commits_max.get())
    }

    #[track_caller]
    fn never_rests(&self) -> ! {
        let (most, report) = (self.inner.commits_max.get(), self.report());
        panic!(
            "something still happens after {most} commits; use `advance`, or `Harness::commits_max` if that much is to \
             happen\n{report}"
        );
    }

    /// Attempts that are under way, for a report: what they may wait for is nothing that a moved clock brings.
    pub(super) fn hint(&self) -> String {
        match self.living(|life| life.run(async { life.runtime().stats().attempts })) {
            0 => String::new(),
            attempts => format!(
                "{attempts} attempts are under way. The time of a test does not wait for what is real: a step that reads \
                 a file, talks to a network or hears from another thread gets nothing, or gets it too late. Mock it.\n"
            ),
        }
    }

    /// Waits for something to come true, moving the time; none if it never does.
    ///
    /// # Panics
    ///
    /// If too much happens meanwhile.
    #[expect(clippy::needless_pass_by_value, reason = "closures are given as they are written")]
    #[track_caller]
    pub(super) fn wait<T>(&self, work: impl AsyncFn(&Runtime) -> T) -> Option<T> {
        self.settle();
        let disk = self.inner.disk.borrow().clone();
        let most = self.most_commits();
        let patience = self.inner.now_ms.get().saturating_add(whole_ms(TEST_PATIENCE));
        let done = self.living(|life| {
            life.run(async {
                tokio::select! {
                    biased;
                    done = work(life.runtime()) => Ok(Some(done)),
                    () = disk.committed_to(most) => Err(()),
                    () = life.clock().pass_until(patience) => Ok(None),
                }
            })
        });
        self.settle();
        done.unwrap_or_else(|()| self.never_rests())
    }
}

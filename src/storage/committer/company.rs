//! How long the committer's thread waits for requests that are about to come, and when it does not.
//!
//! **For company**, when a group is small: those who were just answered come back at once, and share this sync instead
//! of the next. Without it they fall into two halves, each of which waits for the sync of the other. Nobody is waited
//! for who had no commit under way, so a caller that is alone is never made to wait.
//!
//! **Before its thread sleeps**: who was just answered often comes back with the next step of a chain, and to wake a
//! thread on a core that sleeps takes as long.
//!
//! In both it gives its core up to anybody else meanwhile. In a task nobody comes while it waits, so there it does not.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// How long a group waits for the next of those who had a commit under way while the one before it was written, and
/// never longer than that took.
const GATHER: Duration = Duration::from_micros(50);

/// A group of this many requests is not small any more: the sync is shared by enough, and waiting only costs.
const GATHER_REQUESTS_MAX: usize = 24;

/// How long the committer looks for the next request before it lets its thread sleep. Where somebody else has use for
/// the core, waiting like this costs more than it gains.
const LINGER: Duration = Duration::from_micros(50);

/// After so many times that nobody came, or somebody else had the core, it lingers only now and then, to see whether
/// that has changed.
const LINGER_MISSES_MAX: u32 = 4;
const LINGER_NOW_AND_THEN: u32 = 64;

/// How time passes for a thread that waits.
pub(super) trait Time {
    /// What the clock shows.
    fn now(&self) -> Duration;

    /// Lets anybody else have the core.
    fn pass(&mut self);
}

/// The time of the machine.
pub(super) struct Machine {
    began: Instant,
}

impl Machine {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a thread waits for company decides nothing that is stored"
    )]
    pub(super) fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Time for Machine {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long a thread waits for company decides nothing that is stored"
    )]
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn pass(&mut self) {
        std::thread::yield_now();
    }
}

/// Who may be about to come.
pub(super) struct Company<T> {
    time: T,
    /// How many had a request under way when the group before was written.
    crowd: usize,
    /// How long a group waits for the next of them.
    patience: Duration,
    /// How long that may be. In a task nobody comes while it waits.
    patience_max: Duration,
    /// How often in a row it did not pay to linger.
    linger_misses: u32,
}

impl<T: Time> Company<T> {
    /// Waits for nobody, until [`Company::begin_to_wait`].
    pub(super) fn new(time: T) -> Self {
        Self {
            time,
            crowd: 0,
            patience: Duration::ZERO,
            patience_max: Duration::ZERO,
            linger_misses: 0,
        }
    }

    /// Waits from here on: others run while this thread waits.
    pub(super) fn begin_to_wait(&mut self) {
        self.patience_max = GATHER;
    }

    /// What the clock shows.
    pub(super) fn now(&self) -> Duration {
        self.time.now()
    }

    /// A group was written from `began` until now, and so many have a request under way.
    pub(super) fn wrote(&mut self, began: Duration, crowd: usize) {
        self.crowd = crowd;
        self.patience = (self.time.now() - began).min(self.patience_max);
    }

    /// Another request for a group of which `here` are here: one that waits, or that comes soon and is waited for.
    pub(super) fn another<R>(&mut self, here: usize, requests: &mut mpsc::Receiver<R>) -> Option<R> {
        let waits = here < self.crowd.min(GATHER_REQUESTS_MAX);
        let patience = if waits { self.patience } else { Duration::ZERO };
        self.within(patience, requests)
    }

    /// A request that comes within a moment, for a thread that would otherwise sleep.
    pub(super) fn linger<R>(&mut self, requests: &mut mpsc::Receiver<R>) -> Option<R> {
        let misses = self.linger_misses;
        self.linger_misses = misses.wrapping_add(1);
        if misses >= LINGER_MISSES_MAX && !misses.is_multiple_of(LINGER_NOW_AND_THEN) {
            return None;
        }
        let began = self.time.now();
        let request = self.within(LINGER, requests);
        if request.is_some() && self.time.now() - began < LINGER {
            self.linger_misses = 0;
        }
        request
    }

    /// A request that waits, or that comes within this time.
    fn within<R>(&mut self, patience: Duration, requests: &mut mpsc::Receiver<R>) -> Option<R> {
        let request = requests.try_recv().ok();
        if request.is_some() || patience.is_zero() {
            return request;
        }
        let began = self.time.now();
        while self.time.now() - began < patience {
            self.time.pass();
            if let Ok(request) = requests.try_recv() {
                return Some(request);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    /// Time that passes only while somebody waits, by as much as is wanted; then somebody may come.
    struct Scripted {
        queue: mpsc::Sender<u32>,
        now: Duration,
        /// How long the core is away each time.
        each: Duration,
        passes: u32,
        /// Who comes in which pass.
        coming: Vec<(u32, u32)>,
    }

    impl Time for Scripted {
        fn now(&self) -> Duration {
            self.now
        }

        fn pass(&mut self) {
            self.passes += 1;
            self.now += self.each;
            for (pass, who) in &self.coming {
                if *pass == self.passes {
                    self.queue.try_send(*who).unwrap();
                }
            }
        }
    }

    type Queue = mpsc::Receiver<u32>;

    /// A committer's thread for which a microsecond passes whenever it looks up.
    fn company(coming: &[(u32, u32)]) -> (Company<Scripted>, Queue) {
        let (queue, requests) = mpsc::channel(1_000);
        let mut company = Company::new(Scripted {
            queue,
            now: Duration::ZERO,
            each: MICROSECOND,
            passes: 0,
            coming: coming.to_vec(),
        });
        company.begin_to_wait();
        (company, requests)
    }

    /// Has a group been written that took so long, with so many under way.
    fn wrote(company: &mut Company<Scripted>, took: Duration, crowd: usize) {
        let began = company.now();
        company.time.now += took;
        company.wrote(began, crowd);
    }

    #[test]
    fn a_group_waits_for_those_who_were_under_way_before() {
        let (mut company, mut requests) = company(&[(3, 30), (7, 70)]);
        wrote(&mut company, 20 * MICROSECOND, 3);
        assert_eq!(company.another(1, &mut requests), Some(30));
        assert_eq!(company.another(2, &mut requests), Some(70));
        assert_eq!(company.time.passes, 7);
        // All are here. Somebody else is welcome and not waited for.
        assert_eq!(company.another(3, &mut requests), None);
        assert_eq!(company.time.passes, 7);
        company.time.queue.try_send(4).unwrap();
        assert_eq!(company.another(3, &mut requests), Some(4));
    }

    #[test]
    fn who_is_alone_is_not_made_to_wait() {
        let (mut company, mut requests) = company(&[(1, 1)]);
        assert_eq!(company.another(1, &mut requests), None, "nothing was written yet");
        wrote(&mut company, 20 * MICROSECOND, 1);
        assert_eq!(company.another(1, &mut requests), None);
        assert_eq!(company.time.passes, 0);
    }

    #[test]
    fn a_group_waits_no_longer_than_the_one_before_it_took() {
        let (mut company, mut requests) = company(&[]);
        wrote(&mut company, 20 * MICROSECOND, 2);
        assert_eq!(company.another(1, &mut requests), None);
        assert_eq!(company.time.passes, 20);
        // However long that was.
        wrote(&mut company, 1_000 * GATHER, 2);
        assert_eq!(company.another(1, &mut requests), None);
        assert_eq!(company.time.passes, 20 + 50);
    }

    #[test]
    fn a_group_that_is_large_enough_waits_for_nobody() {
        let (mut company, mut requests) = company(&[(1, 1), (2, 2)]);
        wrote(&mut company, GATHER, 1_000);
        assert_eq!(company.another(GATHER_REQUESTS_MAX - 1, &mut requests), Some(1));
        assert_eq!(company.another(GATHER_REQUESTS_MAX, &mut requests), None);
        assert_eq!(company.time.passes, 1);
    }

    #[test]
    fn in_a_task_nobody_is_waited_for() {
        let (mut company, mut requests) = company(&[(1, 1)]);
        company.patience_max = Duration::ZERO;
        wrote(&mut company, GATHER, 2);
        assert_eq!(company.another(1, &mut requests), None);
        assert_eq!(company.time.passes, 0);
    }

    #[test]
    fn the_next_of_a_chain_finds_the_thread_awake() {
        let chain: Vec<_> = (1..=100).map(|pass| (pass * 10, pass)).collect();
        let (mut company, mut requests) = company(&chain);
        for (_, who) in chain {
            assert_eq!(company.linger(&mut requests), Some(who));
        }
        assert_eq!(company.time.passes, 1_000);
    }

    #[test]
    fn where_nobody_comes_it_lingers_only_now_and_then() {
        let (mut company, mut requests) = company(&[]);
        let waits: Vec<_> = (0..200)
            .filter(|_| {
                let before = company.time.passes;
                assert_eq!(company.linger(&mut requests), None);
                company.time.passes > before
            })
            .collect();
        assert_eq!(waits, [0, 1, 2, 3, 64, 128, 192]);
        // Somebody comes: it pays again.
        company.linger_misses = 256;
        company.time.coming.push((company.time.passes + 1, 9));
        assert_eq!(company.linger(&mut requests), Some(9));
        let before = company.time.passes;
        assert_eq!(company.linger(&mut requests), None);
        assert_eq!(company.time.passes, before + 50);
    }

    /// A thread that gets its core back late waits at the expense of somebody who had use for it.
    #[test]
    fn a_core_that_somebody_else_had_counts_as_a_miss() {
        let chain: Vec<_> = (1..=10).map(|pass| (pass, pass)).collect();
        let (mut company, mut requests) = company(&chain);
        company.time.each = 1_000 * LINGER;
        for who in 1..=LINGER_MISSES_MAX {
            assert_eq!(company.linger(&mut requests), Some(who));
        }
        assert_eq!(company.linger(&mut requests), None);
        assert_eq!(company.time.passes, LINGER_MISSES_MAX);
    }
}

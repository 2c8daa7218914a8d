//! Every knob of a runtime, with its default.

mod bounds;
mod retention;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::duration::IntoDuration;
use crate::limits::{INBOX_BYTES_MAX, INBOX_MAX, QUEUE_RATE_MAX, RESIDENTS_MAX, SHARDS_MAX, WORKERS_MAX};

pub use bounds::Bounds;
pub(crate) use retention::Retention;
pub use retention::{Keep, Outcome};

/// How a runtime behaves. Everything has a default; what is set is checked when the runtime opens, and all that is
/// wrong is told at once.
///
/// ```
/// use everstep::Config;
///
/// let config = Config::default().idle("1s").residents_max(500);
/// assert!(config.check().is_ok());
/// let problems = Config::default().residents_max(0).attempts_max(0).check().unwrap_err();
/// assert_eq!(problems.problems.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    pub(crate) idle: Duration,
    pub(crate) residents_max: usize,
    pub(crate) attempts_max: usize,
    pub(crate) workflows: BTreeMap<String, WorkflowLimits>,
    pub(crate) queues: BTreeMap<String, QueueLimits>,
    pub(crate) grace: Duration,
    pub(crate) crash_limit: u32,
    pub(crate) shards: u16,
    pub(crate) inbox_max: usize,
    pub(crate) inbox_bytes_max: usize,
    pub(crate) poll_warn: Duration,
    pub(crate) workers: Option<usize>,
    pub(crate) retention: Retention,
    pub(crate) bounds: Bounds,
    /// What was said and is no time.
    invalid: Vec<String>,
}

/// What may go through a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub(crate) attempts_max: Option<usize>,
    /// So many may begin in this time.
    pub(crate) rate: Option<(usize, Duration)>,
}

/// What one workflow may use at most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WorkflowLimits {
    pub(crate) residents_max: Option<usize>,
    pub(crate) attempts_max: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(10),
            residents_max: 10_000,
            attempts_max: 1_000,
            workflows: BTreeMap::new(),
            queues: BTreeMap::new(),
            grace: Duration::from_secs(30),
            crash_limit: 5,
            shards: 1,
            inbox_max: INBOX_MAX,
            inbox_bytes_max: INBOX_BYTES_MAX,
            poll_warn: Duration::from_secs(1),
            workers: None,
            retention: Retention::default(),
            bounds: Bounds::default(),
            invalid: Vec::new(),
        }
    }
}

impl Config {
    /// How long an instance that has nothing to do stays in memory: 10 seconds. Zero: not at all.
    #[must_use]
    pub fn idle(mut self, idle: impl IntoDuration) -> Self {
        self.idle = self.time("idle", idle).unwrap_or(self.idle);
        self
    }

    /// How many instances are in memory at most: 10,000. The least recently used idle one makes room for the next.
    #[must_use]
    pub fn residents_max(mut self, most: usize) -> Self {
        self.residents_max = most;
        self
    }

    /// How many attempts at steps run at once: 1,000. The rest wait for their turn; their time begins when they do.
    #[must_use]
    pub fn attempts_max(mut self, most: usize) -> Self {
        self.attempts_max = most;
        self
    }

    /// How many instances of one workflow are in memory at most, beside the bound for all.
    #[must_use]
    pub fn workflow_residents_max(mut self, workflow: &str, most: usize) -> Self {
        self.limits_of(workflow).residents_max = Some(most);
        self
    }

    /// How many attempts of one workflow run at once, beside the bound for all.
    #[must_use]
    pub fn workflow_attempts_max(mut self, workflow: &str, most: usize) -> Self {
        self.limits_of(workflow).attempts_max = Some(most);
        self
    }

    /// How many attempts of a queue run at once, beside the bound for all. A step names its queue
    /// ([`Step::queue`](crate::Step::queue)), and so does an activity or a workflow (`#[workflow(queue = "mail")]`).
    #[must_use]
    pub fn queue_attempts_max(mut self, queue: &str, most: usize) -> Self {
        self.limits_of_queue(queue).attempts_max = Some(most);
        self
    }

    /// How many attempts of a queue begin in any stretch of this length, for systems that take no more. It is counted
    /// from the start of the process.
    #[must_use]
    pub fn queue_rate(mut self, queue: &str, most: usize, per: impl IntoDuration) -> Self {
        if let Some(per) = self.time(&format!("the rate of queue `{queue}`"), per) {
            self.limits_of_queue(queue).rate = Some((most, per));
        }
        self
    }

    /// How long running attempts may go on when the runtime stops: 30 seconds. What is not done by then is made again
    /// after the next start.
    #[must_use]
    pub fn grace(mut self, grace: impl IntoDuration) -> Self {
        self.grace = self.time("grace", grace).unwrap_or(self.grace);
        self
    }

    /// After how many deaths of the process, without getting anywhere in between, an instance is put into quarantine: 5.
    #[must_use]
    pub fn crash_limit(mut self, most: u32) -> Self {
        self.crash_limit = most;
        self
    }

    /// How many shards a new store gets: 1. An existing store keeps its own.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }

    /// How many messages may wait in the inbox of one instance: 10,000. Whoever sends one more from outside is refused;
    /// what other instances send waits in their outboxes until there is room. What an operator asks for, and what an
    /// instance is owed by its children and promises, is never refused.
    #[must_use]
    pub fn inbox_max(mut self, most: usize) -> Self {
        self.inbox_max = most;
        self
    }

    /// How many bytes of messages may wait in the inbox of one instance: 64 MiB. All of them are read when it is
    /// activated. One message is always taken, however large it is; past this it is as with [`Config::inbox_max`].
    #[must_use]
    pub fn inbox_bytes_max(mut self, most: usize) -> Self {
        self.inbox_bytes_max = most;
        self
    }

    /// How long code may run without awaiting anything before that is reported: 1 second.
    #[must_use]
    pub fn poll_warn(mut self, after: impl IntoDuration) -> Self {
        self.poll_warn = self.time("poll_warn", after).unwrap_or(self.poll_warn);
        self
    }

    /// How many threads run workflows and steps: as many as the machine runs at once. They are the runtime's own, so code
    /// that loops or blocks without awaiting anything holds up other workflows at worst, and never callers, alarms or
    /// commits.
    #[must_use]
    pub fn workers(mut self, threads: usize) -> Self {
        self.workers = Some(threads);
        self
    }

    /// How long instances are kept that completed, or were compensated: for ever.
    #[must_use]
    pub fn keep_completed(self, period: impl Keep) -> Self {
        self.keep_all(None, [Outcome::Completed, Outcome::Compensated], period)
    }

    /// How long instances are kept that failed, were cancelled or terminated: for ever.
    #[must_use]
    pub fn keep_failed(self, period: impl Keep) -> Self {
        let ends = [Outcome::Failed, Outcome::Cancelled, Outcome::Terminated];
        self.keep_all(None, ends, period)
    }

    /// How long instances are kept that ended like this: for ever. What was said last of an end holds.
    ///
    /// ```
    /// use everstep::{Config, Outcome};
    ///
    /// let config = Config::default()
    ///     .keep_completed("7d")
    ///     .keep(Outcome::Cancelled, "1d")
    ///     .workflow_keep("payment", Outcome::Completed, "365d")
    ///     .workflow_keep("audit", Outcome::Completed, None);
    /// assert!(config.check().is_ok());
    /// assert!(config.keep(Outcome::Failed, "0s").check().is_err());
    /// ```
    #[must_use]
    pub fn keep(self, ended: Outcome, period: impl Keep) -> Self {
        self.keep_all(None, [ended], period)
    }

    /// The same for the instances of one workflow, whatever holds for the others; none is for ever.
    #[must_use]
    pub fn workflow_keep(self, workflow: &str, ended: Outcome, period: impl Keep) -> Self {
        self.keep_all(Some(workflow), [ended], period)
    }

    /// How long messages are kept that could not be delivered and whose senders want them kept
    /// ([`SendTo::dead_letter`](crate::SendTo::dead_letter)): for ever. Whoever sends many of them to nobody, and has nobody
    /// who looks, fills the disk with them.
    #[must_use]
    pub fn keep_dead_letters(mut self, period: impl Into<Option<Duration>>) -> Self {
        self.retention.dead_letters = period.into();
        self
    }

    /// How much one instance may hold, unless its workflow says otherwise (`#[workflow(bounds(..))]`).
    ///
    /// ```
    /// use everstep::{Bounds, Config};
    ///
    /// let config = Config::default().bounds(Bounds { history_entries_max: 50_000, ..Bounds::default() });
    /// assert!(config.check().is_ok());
    /// let nothing = Bounds { payload_bytes_max: 0, ..Bounds::default() };
    /// assert!(config.bounds(nothing).check().is_err());
    /// ```
    #[must_use]
    pub fn bounds(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Says everything that is wrong.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut problems = Vec::new();
        let mut require = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        let (residents, attempts) = (self.residents_max, self.attempts_max);
        let within = |number: usize| (1..=RESIDENTS_MAX).contains(&number);
        require(
            within(residents),
            format!("residents_max is {residents}, allowed are 1 to {RESIDENTS_MAX}"),
        );
        require(
            within(attempts),
            format!("attempts_max is {attempts}, allowed are 1 to {RESIDENTS_MAX}"),
        );
        require(self.crash_limit > 0, "crash_limit is 0: nothing would ever run".into());
        let shards = self.shards;
        require(
            (1..=SHARDS_MAX).contains(&shards),
            format!("shards is {shards}, allowed are 1 to {SHARDS_MAX}"),
        );
        require(self.inbox_max > 0, "inbox_max is 0: nobody could send anything".into());
        require(
            !self.poll_warn.is_zero(),
            "poll_warn is 0: everything would be reported".into(),
        );
        for invalid in &self.invalid {
            require(false, invalid.clone());
        }
        self.retention.check(&mut require);
        self.bounds.check("", &mut require);
        let workers = self.workers.unwrap_or(1);
        require(
            (1..=WORKERS_MAX).contains(&workers),
            format!("workers is {workers}, allowed are 1 to {WORKERS_MAX}"),
        );
        for (queue, limits) in &self.queues {
            if let Some(most) = limits.attempts_max {
                let all = attempts;
                require(
                    most > 0,
                    format!("attempts_max of queue `{queue}` is 0: none would ever run"),
                );
                require(
                    most <= all,
                    format!("attempts_max of queue `{queue}` is {most}, more than the {all} for all"),
                );
            }
            if let Some((most, per)) = limits.rate {
                require(
                    (1..=QUEUE_RATE_MAX).contains(&most) && !per.is_zero(),
                    format!(
                        "the rate of queue `{queue}` is {most} in {per:?}, allowed are 1 to {QUEUE_RATE_MAX} in some time"
                    ),
                );
            }
        }
        for (workflow, limits) in &self.workflows {
            for (knob, limit, all) in [
                ("residents_max", limits.residents_max, residents),
                ("attempts_max", limits.attempts_max, attempts),
            ] {
                let Some(limit) = limit else { continue };
                require(limit > 0, format!("{knob} of `{workflow}` is 0: none would ever run"));
                require(
                    limit <= all,
                    format!("{knob} of `{workflow}` is {limit}, more than the {all} for all"),
                );
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(InvalidConfig::new(problems))
        }
    }

    fn keep_all<const N: usize>(mut self, workflow: Option<&str>, ends: [Outcome; N], period: impl Keep) -> Self {
        match period.period() {
            Ok(period) => ends
                .into_iter()
                .for_each(|ended| self.retention.keep(workflow, ended, period)),
            Err(error) => self.invalid.push(format!("keep: {error}")),
        }
        self
    }

    /// A time that was given; what is none is told when everything is checked.
    fn time(&mut self, knob: &str, time: impl IntoDuration) -> Option<Duration> {
        let time = time.into_duration();
        time.map_err(|error| self.invalid.push(format!("{knob}: {error}"))).ok()
    }

    fn limits_of_queue(&mut self, queue: &str) -> &mut QueueLimits {
        self.queues.entry(queue.to_owned()).or_default()
    }

    fn limits_of(&mut self, workflow: &str) -> &mut WorkflowLimits {
        self.workflows.entry(workflow.to_owned()).or_default()
    }
}

/// What is wrong with a configuration, all of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the configuration can't be used: {}", .problems.join("; "))]
#[non_exhaustive]
pub struct InvalidConfig {
    /// Each thing that is wrong, for people.
    pub problems: Vec<String>,
}

impl InvalidConfig {
    pub(crate) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "ES0105"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FAULTS 80.
    #[test]
    fn all_problems_are_listed_at_once() {
        let config = Config::default()
            .residents_max(0)
            .attempts_max(10)
            .crash_limit(0)
            .shards(0)
            .inbox_max(0)
            .poll_warn(Duration::ZERO)
            .workers(0)
            .workflow_attempts_max("w", 11)
            .workflow_residents_max("w", 0)
            .queue_attempts_max("q", 0)
            .queue_rate("q", 5, Duration::ZERO)
            .grace("soon")
            .keep_completed("a while");
        let InvalidConfig { problems } = config.check().unwrap_err();
        assert_eq!(problems.len(), 12, "{problems:?}");
        assert!(Config::default().check().is_ok());
        assert!(
            Config::default()
                .idle(Duration::ZERO)
                .grace(Duration::ZERO)
                .check()
                .is_ok()
        );
    }
}

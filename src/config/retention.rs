//! How long instances are kept after they ended.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::duration::{IntoDuration, InvalidDuration};

/// How an instance can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// With a result.
    Completed,
    /// With an error.
    Failed,
    /// Because it was asked to.
    Cancelled,
    /// At once, without cleaning up.
    Terminated,
    /// After undoing what it did.
    Compensated,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
            Self::Compensated => "compensated",
        })
    }
}

/// How long something is kept: a [`Duration`], a text such as `"30d"`, or none, for ever.
pub trait Keep {
    /// The period, if it is one.
    fn period(self) -> Result<Option<Duration>, InvalidDuration>;
}

impl Keep for Duration {
    fn period(self) -> Result<Option<Duration>, InvalidDuration> {
        self.into_duration().map(Some)
    }
}

impl Keep for &str {
    fn period(self) -> Result<Option<Duration>, InvalidDuration> {
        self.into_duration().map(Some)
    }
}

impl Keep for String {
    fn period(self) -> Result<Option<Duration>, InvalidDuration> {
        self.into_duration().map(Some)
    }
}

impl Keep for Option<Duration> {
    fn period(self) -> Result<Option<Duration>, InvalidDuration> {
        self.map(IntoDuration::into_duration).transpose()
    }
}

/// How long instances are kept after they ended, by how that was. Without a period they are kept for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// Of every workflow that is not said otherwise of.
    all: Periods,
    /// What is said of one workflow.
    workflows: BTreeMap<String, Periods>,
    /// How long messages are kept that could not be delivered; none is for ever.
    pub(crate) dead_letters: Option<Duration>,
}

/// By how an instance ended: a period, or for ever.
type Periods = BTreeMap<Outcome, Option<Duration>>;

impl Retention {
    /// Says how long, for one workflow or for all.
    pub(super) fn keep(&mut self, workflow: Option<&str>, ended: Outcome, period: Option<Duration>) {
        let periods = match workflow {
            Some(workflow) => self.workflows.entry(workflow.to_owned()).or_default(),
            None => &mut self.all,
        };
        periods.insert(ended, period);
    }

    /// How long an instance of this workflow that ended like this is kept; none if for ever.
    pub(crate) fn period(&self, workflow: &str, ended: Outcome) -> Option<Duration> {
        let own = self.workflows.get(workflow).and_then(|own| own.get(&ended));
        *own.or_else(|| self.all.get(&ended))?
    }

    /// The shortest of all periods; none if everything is kept for ever.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.each().filter_map(|(_, _, period)| period).min()
    }

    /// Whether everything is kept for ever.
    pub(crate) fn keeps_everything(&self) -> bool {
        self.dead_letters.is_none() && self.shortest().is_none()
    }

    /// Tells what can't be.
    pub(super) fn check(&self, require: &mut impl FnMut(bool, String)) {
        require(
            !self.dead_letters.is_some_and(|period| period.is_zero()),
            "keep_dead_letters is 0: they would be gone before anybody could look".into(),
        );
        for (workflow, ended, period) in self.each() {
            let of = workflow.map_or_else(String::new, |workflow| format!(" of `{workflow}`"));
            require(
                !period.is_some_and(|period| period.is_zero()),
                format!("keep{of} is 0 for what {ended}: it would be gone before anybody could look"),
            );
        }
    }

    /// Everything that is said, with the workflow if it is about one.
    fn each(&self) -> impl Iterator<Item = (Option<&str>, Outcome, Option<Duration>)> {
        let all = self.all.iter().map(|(ended, period)| (None, *ended, *period));
        let own = self.workflows.iter().flat_map(|(workflow, periods)| {
            let of = move |(ended, period): (&Outcome, &Option<Duration>)| (Some(workflow.as_str()), *ended, *period);
            periods.iter().map(of)
        });
        all.chain(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_workflow_comes_before_what_is_said_of_all() {
        const HOUR: Duration = Duration::from_secs(3600);
        let mut retention = Retention::default();
        assert!(retention.keeps_everything());
        retention.keep(Some("audit"), Outcome::Completed, None);
        assert!(retention.keeps_everything());
        retention.keep(None, Outcome::Completed, Some(HOUR));
        retention.keep(Some("payment"), Outcome::Completed, Some(9 * HOUR));
        assert!(!retention.keeps_everything());
        let period = |workflow, ended| retention.period(workflow, ended);
        assert_eq!(period("audit", Outcome::Completed), None);
        assert_eq!(period("payment", Outcome::Completed), Some(9 * HOUR));
        assert_eq!(period("other", Outcome::Completed), Some(HOUR));
        assert_eq!(period("other", Outcome::Failed), None);
    }
}

//! What was measured, as a line for people and as an object for programs.

use std::time::Duration;

use serde_json::{Value, json};

use super::round::{median, percentile};

/// What one turn of a workload came to.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) ops: u64,
    pub(crate) took: Duration,
    pub(crate) cpu: Duration,
    pub(crate) latencies: Vec<Duration>,
}

/// What the disk allows, measured in turns with a workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Commits a second of the bare log, with as many writers.
    pub(crate) commits_per_s: f64,
    /// One write with a sync, by one thread and nothing around it.
    pub(crate) sync_us: f64,
}

/// The figures of one workload.
#[derive(Debug, Default)]
pub(crate) struct Figure {
    pub(crate) workload: &'static str,
    pub(crate) what: String,
    pub(crate) ops_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_op: f64,
    /// Durable commits a second, as a share of what the bare log does with as many writers; where a store is read, what
    /// is read a second, as a share of what the bare log reads back.
    pub(crate) limit_ratio: f64,
    /// The median, in syncs of the same run.
    pub(crate) p50_syncs: Option<f64>,
    /// What else there is to say: a name and a number.
    pub(crate) more: Vec<(&'static str, f64)>,
}

impl Figure {
    /// Of turns that were measured, with the limit of each. An operation takes so many commits, one after the other or
    /// shared.
    pub(crate) fn of(
        workload: &'static str,
        what: impl Into<String>,
        commits_per_op: f64,
        turns: Vec<(Limit, Sample)>,
    ) -> Self {
        let rate = |sample: &Sample| sample.ops as f64 / sample.took.as_secs_f64().max(1e-9);
        let ratio = |(limit, sample): &(Limit, Sample)| rate(sample) * commits_per_op / limit.commits_per_s;
        let ops: u64 = turns.iter().map(|(_, sample)| sample.ops).sum();
        let cpu: Duration = turns.iter().map(|(_, sample)| sample.cpu).sum();
        let limit_ratio = median(turns.iter().map(ratio));
        let ops_per_s = median(turns.iter().map(|(_, sample)| rate(sample)));
        let sync_us = median(turns.iter().map(|(limit, _)| limit.sync_us));
        let mut latencies: Vec<_> = turns.into_iter().flat_map(|(_, sample)| sample.latencies).collect();
        latencies.sort_unstable();
        let p50_us = percentile(&latencies, 0.50);
        Self {
            workload,
            what: what.into(),
            ops_per_s,
            p50_us,
            p99_us: percentile(&latencies, 0.99),
            cpu_us_per_op: cpu.as_secs_f64() * 1e6 / (ops as f64).max(1.0),
            limit_ratio,
            p50_syncs: Some(p50_us / sync_us),
            more: Vec::new(),
        }
    }

    /// With one thing more to say.
    pub(crate) fn and(mut self, name: &'static str, number: f64) -> Self {
        self.more.push((name, number));
        self
    }

    /// As an object for programs.
    pub(crate) fn object(&self, store: &str, durable: bool) -> Value {
        let rounded = |number: f64| (number * 1_000.0).round() / 1_000.0;
        let mut object = json!({
            "workload": self.workload,
            "what": self.what,
            "store": store,
            "durable": durable,
            "ops_per_s": rounded(self.ops_per_s),
            "p50_us": rounded(self.p50_us),
            "p99_us": rounded(self.p99_us),
            "cpu_us_per_op": rounded(self.cpu_us_per_op),
            "limit_ratio": rounded(self.limit_ratio),
            "p50_syncs": self.p50_syncs.map(rounded),
        });
        for (name, number) in &self.more {
            object[*name] = json!(rounded(*number));
        }
        object
    }

    /// The heading of the lines, which are as wide as a terminal is at least.
    pub(crate) fn heading() -> String {
        format!(
            "{:<3} {:<28} {:>7} {:>7} {:>7} {:>7} {:>6} {:>8}",
            "", "", "ops/s", "p50 us", "p99 us", "CPU us", "syncs", "of limit"
        )
    }

    /// As a line for people.
    pub(crate) fn line(&self) -> String {
        let syncs = self.p50_syncs.map_or_else(String::new, |syncs| format!("{syncs:.1}"));
        let ratio = format!("{:.0} %", self.limit_ratio * 100.0);
        let mut line = format!(
            "{:<3} {:<28} {:>7.0} {:>7.0} {:>7.0} {:>7.1} {syncs:>6} {ratio:>8}",
            self.workload, self.what, self.ops_per_s, self.p50_us, self.p99_us, self.cpu_us_per_op
        );
        for (name, number) in &self.more {
            line.push_str(&format!("\n{:>6} {}: {number:.1}", "", name.replace('_', " ")));
        }
        line
    }
}

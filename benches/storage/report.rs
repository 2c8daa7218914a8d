//! What is printed: a table for people, or one JSON object a line.

use crate::round::{Round, median};

/// The figures of one engine with one number of writers: medians of its rounds.
#[derive(Debug)]
pub(crate) struct Line {
    store: &'static str,
    writers: usize,
    rounds: usize,
    middle: Round,
    /// The median of the ratios of each round to the limit's round before it.
    limit_ratio: f64,
}

impl Line {
    pub(crate) fn new(store: &'static str, writers: usize, rounds: &[Round], limit: &[Round]) -> Self {
        let ratios = rounds
            .iter()
            .zip(limit)
            .map(|(its, limit)| its.ops_per_s / limit.ops_per_s);
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
        Self {
            store,
            writers,
            rounds: rounds.len(),
            middle: Round {
                ops_per_s: of(|round| round.ops_per_s),
                p50_us: of(|round| round.p50_us),
                p99_us: of(|round| round.p99_us),
                commits_per_cpu_s: of(|round| round.commits_per_cpu_s),
            },
            limit_ratio: median(ratios),
        }
    }
}

/// Prints lines as they come.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    begun: bool,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self { json, begun: false }
    }

    pub(crate) fn print(&mut self, line: &Line) {
        let middle = &line.middle;
        if self.json {
            let object = serde_json::json!({
                "store": line.store,
                "writers": line.writers,
                "ops_per_s": middle.ops_per_s.round(),
                "p50_us": middle.p50_us.round(),
                "p99_us": middle.p99_us.round(),
                "commits_per_cpu_s": middle.commits_per_cpu_s.round(),
                "limit_ratio": (line.limit_ratio * 1000.0).round() / 1000.0,
                "rounds": line.rounds,
            });
            println!("{object}");
            return;
        }
        if !self.begun {
            self.begun = true;
            println!("store    writers  commits/s    p50 us    p99 us  commits/CPU s  of the limit");
        }
        println!(
            "{:<8} {:>7} {:>10.0} {:>9.0} {:>9.0} {:>14.0} {:>11.0} %",
            line.store,
            line.writers,
            middle.ops_per_s,
            middle.p50_us,
            middle.p99_us,
            middle.commits_per_cpu_s,
            line.limit_ratio * 100.0,
        );
    }
}

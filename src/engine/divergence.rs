//! The report that history and code do not match.

use std::fmt;

use serde::Serialize;

use crate::engine::journal::Journal;
use crate::location::Location;

/// Where history and code went apart, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The path of the operation.
    pub path: String,
    /// What history has there; none if it has nothing.
    pub recorded: Option<String>,
    /// What the code asked for there; none if it asked for nothing.
    pub asked: Option<String>,
    /// Recorded entries around it, in the order of their completion.
    pub neighbours: Vec<String>,
}

impl Divergence {
    pub(crate) fn at(journal: &Journal, location: &Location, asked: &'static str) -> Self {
        let mut ordered: Vec<_> = journal
            .entries
            .iter()
            .map(|(at, entry)| {
                (
                    entry.completed.map_or(u64::MAX, |completed| completed.order),
                    entry.id,
                    at,
                    entry,
                )
            })
            .collect();
        ordered.sort_by_key(|(order, id, ..)| (*order, *id));
        let here = ordered
            .iter()
            .position(|(_, _, at, _)| *at == location)
            .unwrap_or(ordered.len());
        let around = &ordered[here.saturating_sub(2)..ordered.len().min(here + 3)];
        let neighbours = around.iter().map(|(.., at, entry)| {
            let marker = if *at == location { "> " } else { "  " };
            format!("{marker}{} `{}`", entry.kind.name(), journal.names.path(at))
        });
        Self {
            path: journal.names.path(location),
            recorded: journal.entries.get(location).map(|entry| entry.kind.name().to_owned()),
            asked: (asked != "nothing").then(|| asked.to_owned()),
            neighbours: neighbours.collect(),
        }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_nothing = |what: &Option<String>| {
            what.clone()
                .map_or_else(|| "nothing".to_owned(), |what| format!("a {what}"))
        };
        writeln!(
            f,
            "history has {} at `{}`, the code asked for {}",
            or_nothing(&self.recorded),
            self.path,
            or_nothing(&self.asked)
        )?;
        for neighbour in &self.neighbours {
            writeln!(f, "{neighbour}")?;
        }
        f.write_str(
            "deploy code that fits the history (guard the change with `patched` or `version`, account for code that is \
             gone with `removed`), or reset the instance to an entry before the difference",
        )
    }
}

impl std::error::Error for Divergence {}

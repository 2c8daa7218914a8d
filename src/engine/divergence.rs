//! The report that history and code do not match.

use std::fmt;

use serde::Serialize;

use crate::engine::journal::{Journal, has_given_back, is_given_up};
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::record::{Entry, EntryKind};

/// Where history and code went apart, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// The path of the operation.
    pub path: String,
    /// What history has there; none if it has nothing.
    pub recorded: Option<String>,
    /// What the code asked for there or, if that is known, in its place; `end` if it came to its end; none if it asked
    /// for nothing.
    pub asked: Option<String>,
    /// Where in the code it was asked for, if that is known.
    pub asked_at: Option<String>,
    /// Recorded entries around it, in the order of their completion.
    pub neighbours: Vec<String>,
}

impl Divergence {
    pub(crate) fn at(
        journal: &Journal,
        location: &Location,
        asked: Option<String>,
        call_site: Option<CallSite>,
    ) -> Self {
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
            recorded: journal.entries.get(location).map(described),
            asked,
            asked_at: call_site.map(ToString::to_string),
            neighbours: neighbours.collect(),
        }
    }
}

/// What is recorded, with what tells it apart where its place does not.
fn described(entry: &Entry) -> String {
    let kind = &entry.kind;
    let (name, is_complete) = (kind.name(), entry.completed.is_some());
    match kind {
        EntryKind::Sent { to, name: message, .. } => format!("{name}, {message} to {to}"),
        EntryKind::Publish { topic, .. } => format!("{name}, {topic}"),
        EntryKind::Child(child) if child.closed => format!("{name} that was closed, {}", child.instance),
        EntryKind::Child(child) => format!("{name}, {} as {}", child.workflow, child.instance),
        EntryKind::Version { version } | EntryKind::Passed { version, .. } => format!("{name}, {version}"),
        EntryKind::Receive { .. } if has_given_back(kind) => format!("{name} whose message went back unread"),
        EntryKind::Event { .. } if is_given_up(kind) => format!("{name} that was given up"),
        EntryKind::Event { .. } if is_complete && has_given_back(kind) => format!("{name} that went back unread"),
        _ => name.to_owned(),
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = match &self.recorded {
            Some(recorded) => format!("a {recorded}"),
            None => "nothing".to_owned(),
        };
        let asked = match self.asked.as_deref() {
            Some("end") => "came to its end".to_owned(),
            Some(asked) => format!("asked for a {asked}"),
            None => "asked for nothing".to_owned(),
        };
        write!(f, "history has {recorded} at `{}`, the code {asked}", self.path)?;
        if let Some(asked_at) = &self.asked_at {
            write!(f, " at {asked_at}")?;
        }
        writeln!(f)?;
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

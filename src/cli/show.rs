//! `everstep show`: one instance: where it stands, its entries as a tree, its timeline.

use std::io::Write;

use clap::Args;
use everstep::clock::Millis;
use everstep::storage::record::{EntryKind, Status};
use serde_json::{Value, json};

use super::look::{Instance, Line};
use super::problem::Problem;
use super::{Outcome, Output, look, paint, text, width};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep show ./data order-123
  everstep show ./data order-123 --json | jq .failure")]
pub(crate) struct Show {
    /// The store: `./data`, `fjall:./data` or `sled:./data`
    store: String,
    /// The id of the instance
    #[arg(value_parser = look::id)]
    instance: String,
    /// Entries at most; the rest is counted
    #[arg(long, short = 'n', default_value_t = 100)]
    limit: usize,
}

/// Columns of the timeline: the least and the most, and what stands around it beside the names.
const COLUMNS: (usize, usize) = (10, 48);
const AROUND: usize = 14;

/// How many of them fit beside names of this width. What is no terminal takes as many as there can be.
fn columns(names: usize) -> usize {
    let (least, most) = COLUMNS;
    width::terminal().map_or(most, |wide| wide.saturating_sub(names + AROUND).clamp(least, most))
}

impl Show {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let store = look::open(&self.store)?;
        let id = look::find(&store, &self.store, &self.instance)?;
        let none = || Problem::NoInstance(self.instance.clone(), self.store.clone());
        let mut instance = look::instance(&store, &id)?.ok_or_else(none)?;
        if output.json {
            return output.object(&object(&instance));
        }
        head(output, &instance)?;
        if instance.lines.is_empty() {
            return Ok(());
        }
        instance.in_order();
        let shown = &instance.lines[..instance.lines.len().min(self.limit)];
        writeln!(output.out, "\n{}", paint::strong("entries"))?;
        tree(output, &instance, shown)?;
        let left_out = instance.lines.len() - shown.len();
        if left_out > 0 {
            let more = format!("  and {left_out} more; --limit {} shows all", instance.lines.len());
            writeln!(output.out, "{}", paint::faint(&more))?;
        }
        timeline(output, &instance, shown)
    }
}

/// Everything, for programs.
fn object(instance: &Instance) -> Value {
    let (origin, state) = (&instance.origin, &instance.state);
    json!({
        "id": instance.id.as_str(),
        "workflow": origin.workflow,
        "version": origin.version,
        "status": look::status_name(state.status),
        "paused": state.paused,
        "run": state.run,
        "created_at_ms": origin.created_at_ms,
        "updated_at_ms": state.updated_at_ms,
        "wakes_at_ms": state.alarm_at_ms,
        "deadline_at_ms": origin.deadline_at_ms,
        "parent": origin.parent.as_ref().map(|parent| &parent.instance),
        "tags": origin.tags.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "input": instance.input,
        "output": instance.output,
        "failure": instance.failure.as_ref().map(look::failure_object),
        "hold": instance.hold.as_ref().map(|hold| &hold.reason),
        "children": instance.lines.iter().filter_map(child).collect::<Vec<_>>(),
        "inbox": instance.inbox,
        "published": instance.published,
        "entries": instance.lines.iter().map(Line::object).collect::<Vec<_>>(),
    })
}

/// A child that it has started, by its id.
fn child(line: &Line) -> Option<&str> {
    match &line.entry.kind {
        EntryKind::Child(child) => Some(&child.instance),
        _ => None,
    }
}

fn head(output: &mut Output, instance: &Instance) -> Outcome {
    let (origin, state) = (&instance.origin, &instance.state);
    let name = paint::strong(instance.id.as_str());
    writeln!(
        output.out,
        "{name}  {} v{}  {}",
        text::plain(&origin.workflow),
        origin.version,
        paint::status(state.status, 0)
    )?;
    // What is behind the name of a row.
    let wide = width::page().saturating_sub(2 + 9 + 1);
    let mut row = |name: &str, value: &str| writeln!(output.out, "  {} {value}", paint::faint(&format!("{name:9}")));
    let wrapped = |value: &str| width::wrap(value, wide + 12, 12);
    let lasted = text::span(state.updated_at_ms.saturating_sub(origin.created_at_ms));
    row("started", &format!("{} UTC", text::time(origin.created_at_ms)))?;
    let last = if state.status.is_terminal() { "ended" } else { "changed" };
    row(
        last,
        &format!("{} UTC, {lasted} later", text::time(state.updated_at_ms)),
    )?;
    if state.run > 1 {
        row("run", &state.run.to_string())?;
    }
    if let Some(parent) = &origin.parent {
        row("parent", &text::plain(&parent.instance))?;
    }
    if !origin.tags.is_empty() {
        let tags: Vec<_> = origin
            .tags
            .iter()
            .map(|(key, value)| text::plain(&format!("{key}={value}")).into_owned())
            .collect();
        row("tags", &wrapped(&tags.join(" ")))?;
    }
    if let Some(deadline) = origin.deadline_at_ms {
        row("deadline", &format!("{} UTC", text::time(deadline)))?;
    }
    if let Some(alarm) = state.alarm_at_ms.filter(|_| !state.status.is_terminal()) {
        row("wakes at", &format!("{} UTC", text::time(alarm)))?;
    }
    if !instance.inbox.is_empty() {
        row("inbox", &wrapped(&text::plain(&instance.inbox.join(", "))))?;
    }
    if let Some(input) = &instance.input {
        row("input", &text::short(&input.to_string(), wide))?;
    }
    for (name, value) in &instance.published {
        row(&text::short(name, wide / 2), &text::short(&value.to_string(), wide))?;
    }
    if let Some(value) = &instance.output {
        row("output", &paint::good(&text::short(&value.to_string(), wide)))?;
    }
    if let Some(failure) = &instance.failure {
        row("failure", &wrapped(&paint::bad(&failure.to_string())))?;
    }
    if let Some(hold) = &instance.hold {
        let since = text::time(hold.since_ms);
        row(
            "held",
            &wrapped(&format!("{} (since {since} UTC)", paint::bad(&hold.reason))),
        )?;
    }
    Ok(())
}

/// How an entry stands: its mark, in its colour.
fn mark(instance: &Instance, line: &Line) -> String {
    match instance.state.status {
        _ if line.failure().is_some() => paint::bad("✗"),
        _ if line.is_done() => paint::good("✓"),
        // It is over with its items, and nothing is recorded of that.
        status if is_over(instance, line, status) => paint::good("✓"),
        status if status.is_terminal() => paint::faint("·"),
        Status::Running => paint::busy("▶"),
        _ => paint::busy("…"),
    }
}

/// Whether this is a map that is over.
fn is_over(instance: &Instance, line: &Line, status: Status) -> bool {
    let EntryKind::Map { items } = line.entry.kind else {
        return false;
    };
    status == Status::Completed || instance.items_over(&line.path) >= items
}

fn tree(output: &mut Output, instance: &Instance, lines: &[Line]) -> Outcome {
    let mut before: &[String] = &[];
    for (at, line) in lines.iter().enumerate() {
        // A scope (an item of a map, an iteration, a branch) has no entry of its own; it gets a line when it begins.
        let shared = before.iter().zip(&line.path).take_while(|(a, b)| a == b).count();
        for depth in shared..line.path.len() {
            let branch = branches(&lines[at..], &line.path, depth);
            let name = text::plain(&line.path[depth]);
            if depth + 1 < line.path.len() {
                writeln!(output.out, "  {}{name}", paint::faint(&branch))?;
                continue;
            }
            let failed = line.attempts.as_ref().map_or(0, |attempts| attempts.count);
            let again = match failed {
                0 => String::new(),
                1 => paint::odd("  1 failed attempt"),
                _ => paint::odd(&format!("  {failed} failed attempts")),
            };
            // On one line, with what stands before and behind it; a few words of it in any case.
            let around = 2 + branch.chars().count() + 2 + name.chars().count() + 2 + line.entry.kind.name().len() + 2;
            let failing = if failed == 0 { 0 } else { 2 + "99 failed attempts".len() };
            let room = width::page().saturating_sub(around + failing).clamp(20, 60);
            let told = line.told().map(|told| text::short(&told, room));
            let told = match told {
                Some(told) if line.failure().is_some() => format!("  {}", paint::bad(&told)),
                Some(told) => format!("  {told}"),
                None => String::new(),
            };
            let kind = paint::faint(line.entry.kind.name());
            let (branch, mark) = (paint::faint(&branch), mark(instance, line));
            writeln!(output.out, "  {branch}{mark} {name}  {kind}{told}{again}")?;
        }
        before = &line.path;
    }
    Ok(())
}

/// The lines that lead to a name: whether something follows at each depth above it.
fn branches(rest: &[Line], path: &[String], depth: usize) -> String {
    let follows = |depth: usize| {
        let mut later = rest.iter().skip(1).filter(|line| line.path.len() > depth);
        later.any(|line| line.path[..depth] == path[..depth] && line.path[depth] != path[depth])
    };
    let above = (0..depth).map(|depth| if follows(depth) { "│  " } else { "   " });
    above.chain([if follows(depth) { "├─ " } else { "└─ " }]).collect()
}

/// When each entry was decided, on one scale.
fn timeline(output: &mut Output, instance: &Instance, lines: &[Line]) -> Outcome {
    let (from, to) = (instance.origin.created_at_ms, instance.state.updated_at_ms);
    let length = to.saturating_sub(from).max(1);
    let mut timed: Vec<_> = lines.iter().filter(|line| line.at_ms().is_some()).collect();
    if timed.is_empty() {
        return Ok(());
    }
    timed.sort_by_key(|line| line.entry.completed.map(|completed| completed.order));
    let width = timed
        .iter()
        .map(|line| line.path.join("/").chars().count())
        .max()
        .unwrap_or(0)
        .min(30);
    let columns = columns(width);
    let column = |at: Millis| (at.saturating_sub(from).min(length) * (columns as u64 - 1) / length) as usize;
    let scale = format!("{:>1$}", text::span(length), columns - 1);
    writeln!(
        output.out,
        "\n{}  {:w$}0{}",
        paint::strong("timeline"),
        "",
        paint::faint(&scale),
        w = width.saturating_sub(6)
    )?;
    let mut before = from;
    for line in timed {
        let at = line.at_ms().unwrap_or(to);
        let mut cells = vec!["·"; columns];
        // From what was decided before it: a chain reads as one line, from left to right.
        // A clock that was set back makes no line.
        for cell in &mut cells[column(before.min(at))..=column(at)] {
            *cell = "━";
        }
        for attempt in line.attempts.iter().flat_map(|attempts| &attempts.failed) {
            cells[column(attempt.started_at_ms + attempt.duration_ms)] = "x";
        }
        cells[column(at)] = if line.failure().is_some() { "✗" } else { "●" };
        let name = text::short(&line.path.join("/"), width);
        let bar = cells.concat();
        let bar = if line.failure().is_some() {
            paint::bad(&bar)
        } else {
            paint::busy(&bar)
        };
        let after = paint::faint(&format!("+{}", text::span(at.saturating_sub(from))));
        writeln!(output.out, "  {name:width$}  {bar} {after}")?;
        before = at;
    }
    Ok(())
}

//! `everstep history`: what an instance did, in the order in which it was decided.

use std::io::Write;

use clap::Args;
use everstep::clock::Millis;
use serde_json::Value;

use super::look::{self, Line};
use super::problem::Problem;
use super::{Outcome, Output, paint, text, width};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep history ./data order-123
  everstep history ./data order-123 --json | jq -r '.path + \": \" + .kind'")]
pub(crate) struct History {
    /// The store: `./data`, `fjall:./data` or `sled:./data`
    store: String,
    /// The id of the instance
    #[arg(value_parser = look::id)]
    instance: String,
}

impl History {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let store = look::open(&self.store)?;
        let id = look::find(&store, &self.store, &self.instance)?;
        let none = || Problem::NoInstance(self.instance.clone(), self.store.clone());
        let mut instance = look::instance(&store, &id)?.ok_or_else(none)?;
        // First what is decided, then what is not.
        let order = |line: &Line| line.entry.completed.map_or(u64::MAX, |completed| completed.order);
        instance.lines.sort_by_key(|line| (order(line), line.entry.id));
        if output.json {
            return instance.lines.iter().try_for_each(|line| output.object(&line.object()));
        }
        // A time, a mark, and what stands between.
        const BEFORE: usize = 19 + 2 + 1 + 1;
        let wide = width::page().saturating_sub(BEFORE);
        let mut tell = |at: Millis, mark: String, what: &str| {
            let time = paint::faint(&text::time(at));
            let what = width::wrap(what.trim_end(), BEFORE + wide, BEFORE);
            writeln!(output.out, "{time}  {mark} {what}")
        };
        let begun = format!("started {}", instance.input.clone().unwrap_or(Value::Null));
        tell(
            instance.origin.created_at_ms,
            paint::busy("▶"),
            &text::short(&begun, wide),
        )?;
        for line in &instance.lines {
            let path = paint::strong(&line.path.join("/"));
            for attempt in line.attempts.iter().flat_map(|attempts| &attempts.failed) {
                let at = attempt.started_at_ms + attempt.duration_ms;
                let failure = text::plain(&attempt.failure.message);
                let what = format!("{path}  attempt {} failed: {failure}", attempt.number);
                tell(at, paint::odd("x"), &what)?;
            }
            let kind = line.entry.kind.name();
            let took = line.took().unwrap_or_default();
            let around = line.path.join("/").chars().count() + 2 + kind.len() + 2 + took.len() + 2;
            let room = wide.saturating_sub(around).clamp(20, 80);
            let detail = text::short(&line.told().unwrap_or_default(), room);
            let mut what = format!("{path}  {}  {detail}", paint::faint(kind));
            if !took.is_empty() {
                what = format!("{}  {}", what.trim_end(), paint::faint(&took));
            }
            match line.at_ms() {
                Some(at) if line.failure().is_some() => tell(at, paint::bad("✗"), &what)?,
                Some(at) => tell(at, paint::good("✓"), &what)?,
                None if line.is_done() => tell(instance.state.updated_at_ms, paint::good("✓"), &what)?,
                None if instance.state.status.is_terminal() => {}
                None => tell(instance.state.updated_at_ms, paint::busy("…"), &what)?,
            }
        }
        let state = &instance.state;
        tell(state.updated_at_ms, paint::strong("■"), &paint::status(state.status, 0))?;
        Ok(())
    }
}

//! `everstep list`: the instances of a store.

use std::collections::VecDeque;
use std::io::Write;

use clap::Args;
use everstep::clock::Millis;
use everstep::storage::record::{IndexRow, Status};
use everstep::{InstanceId, storage};
use serde_json::json;

use super::{Outcome, Output, look, paint, text};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep list ./data
  everstep list ./data --status failed --status stuck
  everstep list ./data --workflow payment --tag customer=kim --limit 10
  everstep list ./data --workflow __schedule
  everstep list ./data --json | jq -r .id")]
pub(crate) struct List {
    /// The store: `./data`, `fjall:./data` or `sled:./data`
    store: String,
    /// Only instances of this workflow
    #[arg(long, short)]
    workflow: Option<String>,
    /// Only with this status; may be given several times
    #[arg(long, short, value_parser = status)]
    status: Vec<Status>,
    /// Only with this tag, KEY=VALUE; may be given again
    #[arg(long, short, value_parser = tag)]
    tag: Vec<(String, String)>,
    /// Only children of this instance
    #[arg(long)]
    parent: Option<String>,
    /// At most so many [default: 50; with --json, all]
    #[arg(long, short = 'n')]
    limit: Option<usize>,
    /// The oldest first, and not the newest
    #[arg(long)]
    oldest: bool,
    /// Also built-in ones (topics, schedules): `__` names
    #[arg(long, short)]
    all: bool,
}

/// Instances in a table, unless said otherwise: more than a screen of them is not read.
const SHOWN: usize = 50;

const STATUSES: [Status; 15] = [
    Status::Pending,
    Status::Running,
    Status::Sleeping,
    Status::Waiting,
    Status::BackingOff,
    Status::Paused,
    Status::Compensating,
    Status::Completed,
    Status::Failed,
    Status::Cancelled,
    Status::Terminated,
    Status::Compensated,
    Status::Quarantined,
    Status::Stuck,
    Status::Parked,
];

fn status(text: &str) -> Result<Status, String> {
    let named = |status: &Status| look::status_name(*status);
    let wanted = text.to_lowercase().replace([' ', '_'], "-");
    STATUSES
        .into_iter()
        .find(|status| named(status) == wanted)
        .ok_or_else(|| {
            let known: Vec<_> = STATUSES.iter().map(named).collect();
            format!("known are {}", known.join(", "))
        })
}

fn tag(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("a tag is KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

type Found = (Millis, InstanceId, IndexRow);

impl List {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        let store = look::open(&self.store)?;
        let limit = self.limit.unwrap_or(if output.json { usize::MAX } else { SHOWN });
        let (found, all) = self.find(&store, limit)?;
        if output.json {
            for (started, id, row) in &found {
                let tags: serde_json::Map<_, _> = row.tags.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
                output.object(&json!({
                    "id": id.as_str(),
                    "workflow": row.workflow,
                    "status": look::status_name(row.status),
                    "created_at_ms": started,
                    "updated_at_ms": row.updated_at_ms,
                    "parent": row.parent,
                    "tags": tags,
                }))?;
            }
            return Ok(());
        }
        self.table(output, &found)?;
        let shown = found.len();
        let rest = if shown < all {
            format!("; --limit {all} shows all")
        } else {
            String::new()
        };
        let summary = format!("{shown} of {}{rest}", text::many(all as u64, "instance"));
        Ok(writeln!(output.out, "{}", paint::faint(&summary))?)
    }

    fn table(&self, output: &mut Output, found: &[Found]) -> Outcome {
        let width =
            |least: usize, length: &dyn Fn(&Found) -> usize| found.iter().map(length).max().unwrap_or(0).max(least);
        let id = width(2, &|(_, id, _)| text::plain(id.as_str()).chars().count());
        let workflow = width(8, &|(_, _, row)| text::plain(&row.workflow).chars().count());
        let status = width(6, &|(_, _, row)| row.status.to_string().len());
        let head = format!(
            "{:id$}  {:workflow$}  {:status$}  {:19}  {:>9}  TAGS",
            "ID", "WORKFLOW", "STATUS", "STARTED (UTC)", "LASTED"
        );
        writeln!(output.out, "{}", paint::strong(head.trim_end()))?;
        for (started, name, row) in found {
            let tags: Vec<_> = row.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let (name, tags) = (text::plain(name.as_str()), tags.join(" "));
            let line = format!(
                "{:id$}  {:workflow$}  {}  {}  {:>9}  {}",
                name,
                text::plain(&row.workflow),
                paint::status(row.status, status),
                text::time(*started),
                text::span(row.updated_at_ms.saturating_sub(*started)),
                text::plain(&tags),
            );
            writeln!(output.out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// What is asked for, in the order that is asked for, and how many there are in all.
    fn find(&self, store: &storage::Store, limit: usize) -> Outcome<(Vec<Found>, usize)> {
        let (mut found, mut all) = (VecDeque::new(), 0);
        for shard in store.shards() {
            let mut after = None;
            loop {
                let page = store.instances(shard, after.as_ref())?;
                for instance in page.rows.into_iter().filter(|(_, id, row)| self.wants(id, row)) {
                    all += 1;
                    found.push_back(instance);
                    // The oldest come first, in each shard: what can no longer be shown is not kept.
                    if !self.oldest && store.shards().count() == 1 && found.len() > limit {
                        found.pop_front();
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        let mut found: Vec<_> = found.into();
        found.sort_by(|a, b| (a.0, a.1.as_str()).cmp(&(b.0, b.1.as_str())));
        if !self.oldest {
            found.reverse();
        }
        found.truncate(limit);
        Ok((found, all))
    }

    fn wants(&self, id: &InstanceId, row: &IndexRow) -> bool {
        // Whoever names a built-in workflow wants to see it.
        (self.all || self.workflow.is_some() || !id.as_str().starts_with("__"))
            && self.workflow.as_ref().is_none_or(|workflow| *workflow == row.workflow)
            && (self.status.is_empty() || self.status.contains(&row.status))
            && self
                .parent
                .as_ref()
                .is_none_or(|parent| row.parent.as_ref() == Some(parent))
            && self.tag.iter().all(|tag| row.tags.contains(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_can_be_asked_for() {
        for known in STATUSES {
            assert_eq!(status(&known.to_string()), Ok(known));
        }
        assert_eq!(status("BACKING_OFF"), Ok(Status::BackingOff));
        assert!(status("gone").is_err_and(|error| error.contains("backing-off")));
    }
}

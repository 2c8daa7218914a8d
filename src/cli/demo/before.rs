//! What an earlier start of the demo left in its store.

use std::collections::BTreeMap;

use everstep::storage::record::{EntryKind, Status};

use crate::cli::look::{self, Instance};
use crate::cli::problem::{Outcome, Problem};

/// What was there when this start began, by order.
#[derive(Default)]
pub(crate) struct Before(BTreeMap<String, Left>);

struct Left {
    status: Status,
    operations: usize,
    told: String,
}

impl Before {
    /// Reads the store, if there is one.
    pub(crate) fn read(url: &str) -> Outcome<Self> {
        match look::existing(url) {
            Ok(_) => {}
            Err(Problem::NoStore(_)) => return Ok(Self::default()),
            Err(problem) => return Err(problem),
        }
        let store = look::open(url)?;
        let mut left = BTreeMap::new();
        for shard in store.shards() {
            let mut after = None;
            loop {
                let page = store.instances(shard, after.as_ref())?;
                for (_, id, _) in page.rows {
                    if let Some(instance) = look::instance(&store, &id)? {
                        left.insert(id.to_string(), Left::of(&instance));
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        store.close()?;
        Ok(Self(left))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn orders(&self) -> usize {
        self.0.len()
    }

    /// Operations that were done.
    pub(crate) fn operations(&self) -> usize {
        self.0.values().map(|left| left.operations).sum()
    }

    /// Where an order stood, in words.
    pub(crate) fn of(&self, id: &str) -> Option<&str> {
        self.0.get(id).map(|left| left.told.as_str())
    }

    pub(crate) fn had_ended(&self, id: &str) -> bool {
        self.0.get(id).is_some_and(|left| left.status.is_terminal())
    }
}

impl Left {
    fn of(instance: &Instance) -> Self {
        let status = instance.state.status;
        let mut done: Vec<_> = instance.lines.iter().filter(|line| line.at_ms().is_some()).collect();
        done.sort_by_key(|line| line.entry.completed.map(|completed| completed.order));
        let first = done.iter().filter_map(|line| line.path.first());
        let mut names: Vec<&String> = first.collect();
        names.dedup();
        let names: Vec<_> = names.into_iter().map(|name| told(instance, name)).collect();
        let told = match names.as_slice() {
            _ if status.is_terminal() => format!("had ended before: {status}"),
            [] => "carries on from its start".to_owned(),
            names => format!("carries on; done before, and not again: {}", names.join(", ")),
        };
        Self {
            status,
            operations: done.len(),
            told,
        }
    }
}

/// What was done, by its name; of a map that was not over, how many of its items.
fn told(instance: &Instance, name: &str) -> String {
    let map = instance.lines.iter().find(|line| line.path == [name]);
    match map.map(|line| &line.entry.kind) {
        Some(EntryKind::Map { items }) => {
            let over = instance.items_over(&[name.to_owned()]);
            if over < *items {
                return format!("{name} ({over} of {items})");
            }
            name.to_owned()
        }
        _ => name.trim_end_matches("~0").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Message, Serialize, Deserialize)]
    struct Go;

    #[workflow(accepts(Go))]
    async fn packs(ctx: Ctx<Packs>, waits: bool) -> Result<()> {
        let pack = |ctx: Ctx<Packs>, item| async move {
            if waits && item == 1 {
                ctx.receive::<Go>().await?;
            }
            ok(ctx.step("wrap", move || async move { ok(item) }).await?)
        };
        ctx.map("pack", [0, 1], 2, pack).await?;
        ctx.receive::<Go>().await?;
        ok(())
    }

    /// Found by a user: "done before, and not again: pack", and then the rest was packed.
    #[test]
    fn a_map_is_done_when_all_its_items_are() {
        let directory = tempfile::tempdir().unwrap();
        let url = directory.path().join("store").display().to_string();
        let executor = tokio::runtime::Runtime::new().unwrap();
        executor.block_on(async {
            let runtime = Runtime::builder().workflow(packs).open(&url).await.unwrap();
            for (id, waits) in [("partly", true), ("wholly", false)] {
                let packs = runtime.start(packs, waits).id(id).await.unwrap();
                let here = async || {
                    let history = packs.history().await.unwrap();
                    let wrapped = history.entries.iter().filter(|entry| entry.path.ends_with("wrap"));
                    let wrapped = wrapped.filter(|entry| entry.completed.is_some()).count();
                    wrapped == if waits { 1 } else { 2 }
                };
                let mut changes = packs.watch();
                while !here().await {
                    changes.next().await.unwrap();
                }
            }
            runtime.stop().await;
        });
        drop(executor);
        let before = Before::read(&url).unwrap();
        let told = "carries on; done before, and not again: ";
        assert_eq!(before.of("partly"), Some(format!("{told}pack (1 of 2)").as_str()));
        assert_eq!(before.of("wholly"), Some(format!("{told}pack").as_str()));
    }
}

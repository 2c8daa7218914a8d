//! The process that is killed: commits with many writers and says what was acknowledged.

use everstep::storage::key::{Local, Meta};
use everstep::storage::record::State;
use everstep::storage::{OpenOptions, Store};

use super::workload::{WRITERS, Writer};
use crate::victim::say;

pub(crate) fn run(url: &str) -> Result<(), String> {
    let store = OpenOptions::new()
        .open(url)
        .map_err(|error| format!("{} {error}", error.code()))?;
    say("open");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..WRITERS {
            writers.spawn(write(store.clone(), number));
        }
        while let Some(ended) = writers.join_next().await {
            ended.map_err(|error| error.to_string())??;
        }
        Ok(())
    })
}

/// Commits revision after revision, from where the store is.
async fn write(store: Store, number: u64) -> Result<(), String> {
    let mut writer = Writer::new(number);
    let namespace = writer.namespace(&store);
    let revision = {
        let snapshot = store.snapshot(namespace.shard()).map_err(|error| error.to_string())?;
        let state = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State));
        state
            .map_err(|error| error.to_string())?
            .map_or(0, |state| state.revision)
    };
    while writer.revision < revision {
        writer.advance();
    }
    loop {
        let commit = writer.commit(&namespace);
        store
            .commit(commit)
            .await
            .map_err(|error| format!("{} {error}", error.code()))?;
        say(&format!("{number} {}", writer.revision));
    }
}

//! Histories from production, and today's code against them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::double::{Nobody, replay};
use super::text::or_panic;
use crate::engine::Witness;
use crate::ids::InstanceId;
use crate::runtime::Builder;
use crate::storage::OpenOptions;
use crate::storage::engines::Memory;

/// Runs today's code through histories that were exported, and writes nothing. Tells how many instances it were.
///
/// Export instances from production (`everstep export STORE --instance ID`), keep the files beside your tests, and a
/// change of the code that would leave such instances stuck fails here, before it is deployed. Each report says where
/// history and code went apart, what history has there, what the code asked for, and in which line of the code.
///
/// `path` is such a file, or a directory of them (`*.jsonl` or `*.ndjson`).
///
/// ```
/// # use everstep::testing::{Harness, replay_check};
/// # use everstep::{Builder, Ctx, Result, Runtime, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>) -> Result<u32> { ok(ctx.step("charge", || async { ok(7) }).await?) }
/// fn app() -> Builder {
///     Runtime::builder().workflow(payment)
/// }
/// # let histories = tempfile::tempdir()?;
/// # let finished = Harness::new(app()).start(payment, ());
/// # std::fs::write(histories.path().join("order-17.jsonl"), finished.export())?;
///
/// assert_eq!(replay_check(app(), histories.path()), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
///
/// If the code does not fit a history, with a report for each; or if a file is not a whole export.
#[track_caller]
#[expect(
    clippy::needless_pass_by_value,
    reason = "a test has nothing else to do with its builder"
)]
pub fn replay_check(builder: Builder, path: impl AsRef<Path>) -> usize {
    let (mut checked, mut reports) = (0, Vec::new());
    for file in files(path.as_ref()) {
        let name = file.display();
        let text = or_panic(std::fs::read_to_string(&file), |error| {
            format!("{name} can't be read: {error}")
        });
        let engine = Arc::new(Memory::new());
        let options = OpenOptions::new().codecs(builder.codecs().clone());
        let imported = options.import_engine(engine, &mut text.as_bytes());
        let (store, _) = or_panic(imported, |error| format!("{name} is not a whole export: {error}"));
        let witness: Arc<dyn Witness> = Arc::new(Nobody);
        for shard in store.shards() {
            let listed = or_panic(store.listed_ids(shard), |error| format!("{name}: {error}"));
            let instances = listed.iter().filter_map(|id| InstanceId::new(id.as_str()).ok());
            for instance in instances {
                checked += 1;
                if let Err(refused) = replay(&store, &builder, &instance, &witness) {
                    reports.push(format!("{name}: today's code does not fit `{instance}`\n{refused}"));
                }
            }
        }
    }
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    assert!(checked > 0, "{} holds no history", path.as_ref().display());
    checked
}

/// The files that are meant by a path, in order.
#[track_caller]
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = or_panic(std::fs::read_dir(path), |error| {
        format!("{} can't be read: {error}", path.display())
    });
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
        })
        .collect();
    files.sort();
    files
}

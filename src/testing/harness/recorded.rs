//! Recorded histories: an instance as a file, and today's code against it.

use std::sync::Arc;

use serde::Deserialize;

use super::{End, Harness, Plan, executor, machine};
use crate::engine::{Divergence, Workflow};
use crate::storage::engines::Memory;

/// The first line of a file that holds one instance.
#[derive(Deserialize)]
struct Header {
    scope: Scope,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    Instance(String),
}

impl<W: Workflow> Harness<W> {
    /// An instance as a file, as `everstep export` writes it: what [`replay_check`] reads.
    ///
    /// # Panics
    ///
    /// If there is no such instance.
    pub fn export(&self, id: &str) -> String {
        let mut file = Vec::new();
        let exported = self.store.export_instance(self.namespace(id).instance(), &mut file);
        exported.expect("the instance can be exported");
        String::from_utf8(file).expect("an export is text")
    }
}

/// Runs today's code of a workflow through the history of an instance that was exported, and tells how it ends: none
/// if the instance had not ended. Code that does not fit the history is told as a [`Divergence`].
///
/// Export an instance from production (`everstep export STORE --instance ID`), keep the file beside your tests, and a
/// change of the code that would leave such instances stuck fails before it is deployed:
///
/// ```
/// # use everstep::testing::harness::{End, Harness, Plan, replay_check};
/// # use everstep::{Ctx, Result, Workflow, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>) -> Result<u32> { ok(ctx.step("charge", || async { ok(7) }).await?) }
/// # let tests = tempfile::tempdir()?;
/// # let mut harness = Harness::<Payment>::new(Plan::Live, 1);
/// # harness.start("order-17", &());
/// # harness.run("order-17")?;
/// # std::fs::write(tests.path().join("order-17.ndjson"), harness.export("order-17"))?;
/// let file = std::fs::read_to_string(tests.path().join("order-17.ndjson"))?;
/// assert_eq!(replay_check::<Payment>(&file)?, Some(End::Completed(7)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the file is not the whole export of one instance.
pub fn replay_check<W: Workflow>(file: &str) -> Result<Option<End<W::Output>>, Divergence> {
    let first = file.lines().next().unwrap_or_default();
    let header: Header = serde_json::from_str(first).expect("the file begins like the export of one instance");
    let Scope::Instance(id) = header.scope;
    let (options, clock) = machine();
    let imported = options.import_engine(Arc::new(Memory::new()), &mut file.as_bytes());
    let (store, _) = imported.expect("the file is a whole export");
    Harness::<W>::over(store, clock, executor(), Plan::Live, 0).replay(&id)
}

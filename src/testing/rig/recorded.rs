//! Recorded histories: an instance as a file, and today's code against it.

use std::sync::Arc;

use serde::Deserialize;

use super::{End, Plan, Rig, executor, machine};
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

impl<W: Workflow> Rig<W> {
    /// An instance as a file, as `everstep export` writes it: what [`replay_file`] reads.
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
/// What users call is [`replay_check`](crate::testing::replay_check), which needs no more than their builder.
///
/// Export an instance from production (`everstep export STORE --instance ID`), keep the file beside your tests, and a
/// change of the code that would leave such instances stuck fails before it is deployed:
///
/// ```
/// # use everstep::testing::rig::{End, Plan, Rig, replay_file};
/// # use everstep::{Ctx, Result, Workflow, ok, workflow};
/// # #[workflow] async fn payment(ctx: Ctx<Payment>) -> Result<u32> { ok(ctx.step("charge", || async { ok(7) }).await?) }
/// # let tests = tempfile::tempdir()?;
/// # let mut rig = Rig::<Payment>::new(Plan::Live, 1);
/// # rig.start("order-17", &());
/// # rig.run("order-17")?;
/// # std::fs::write(tests.path().join("order-17.ndjson"), rig.export("order-17"))?;
/// let file = std::fs::read_to_string(tests.path().join("order-17.ndjson"))?;
/// assert_eq!(replay_file::<Payment>(&file)?, Some(End::Completed(7)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Panics
///
/// If the file is not the whole export of one instance.
pub fn replay_file<W: Workflow>(file: &str) -> Result<Option<End<W::Output>>, Divergence> {
    let first = file.lines().next().unwrap_or_default();
    let header: Header = serde_json::from_str(first).expect("the file begins like the export of one instance");
    let Scope::Instance(id) = header.scope;
    let (options, clock) = machine();
    let imported = options.import_engine(Arc::new(Memory::new()), &mut file.as_bytes());
    let (store, _) = imported.expect("the file is a whole export");
    Rig::<W>::over(store, clock, executor(), Plan::Live, 0).replay(&id)
}

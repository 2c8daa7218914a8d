//! `ctx.set`: values that can be read from outside.

use serde::Serialize;

use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::journal::Said;
use crate::engine::names::Names;
use crate::storage::record::Failure;

impl<W> Ctx<W> {
    /// Publishes a value under a name, in place of the one before. It is stored with what the code does next, and can
    /// be read from outside without waking the instance.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// #[workflow]
    /// async fn copies(ctx: Ctx<Copies>) -> Result<()> {
    ///     ctx.set("progress", 50)?;
    ///     ok(ctx.sleep("a rest", "1d").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(copies).open("memory:").await?;
    /// # let copies = runtime.start(copies, ()).await?;
    /// # copies.reached(|status| status == Status::Sleeping).await?;
    /// assert_eq!(copies.query("progress").await?, Some(50));
    /// # Ok(()) }
    /// ```
    pub fn set(&self, name: &str, value: impl Serialize) -> Result<(), Failure> {
        Names::check(name).map_err(Misuse::from)?;
        let payload = self.scope().codecs().pack(&value)?;
        let mut journal = self.scope().journal().lock();
        let (bytes, said) = (payload.bytes.len(), Said::Published(name.to_owned(), payload));
        Ok(journal.say(self.scope().location(), bytes, said)?)
    }
}

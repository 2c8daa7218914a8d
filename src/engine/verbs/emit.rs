//! `ctx.emit` and `ctx.broadcast`: items for whoever follows the instance.

use serde::Serialize;

use crate::engine::context::Ctx;
use crate::engine::journal::Said;
use crate::storage::record::Failure;

impl<W> Ctx<W> {
    /// Gives an item to whoever follows the instance, now or later: it is stored, once, with what the code does next.
    /// The newest ten thousand are kept.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn writes(ctx: Ctx<Writes>) -> Result<()> {
    ///     for page in 1..=3 {
    ///         let text = ctx.step(&format!("page {page}"), move || async move { ok(format!("text {page}")) }).await?;
    ///         ctx.emit(text)?;
    ///     }
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(writes).open("memory:").await?;
    /// let mut pages = runtime.start(writes, ()).await?.stream::<String>();
    /// while let Some(page) = pages.next().await? {
    ///     println!("{}", page.value);
    /// #   assert!(page.value.starts_with("text "));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn emit(&self, item: impl Serialize) -> Result<(), Failure> {
        let payload = self.scope().codecs().pack(&item)?;
        let mut journal = self.scope().journal().lock();
        Ok(journal.say(self.scope().location(), payload.bytes.len(), Said::Emitted(payload))?)
    }

    /// Gives an item to whoever follows the instance right now. It is not stored, replay does not repeat it, and when
    /// nobody listens it is gone: for a cursor, a percentage, the next word of a long text.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// #[workflow]
    /// async fn copies(ctx: Ctx<Copies>) -> Result<()> {
    ///     ctx.step("the first half", || async { ok(()) }).await?;
    ///     ctx.broadcast("half way there")?;
    ///     ok(ctx.step("the second half", || async { ok(()) }).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(copies).open("memory:").await?;
    /// # let copies = runtime.start(copies, ()).await?;
    /// # copies.result().await?;
    /// // Who comes later finds nothing: it was not stored.
    /// assert!(copies.stream::<String>().next().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn broadcast(&self, item: impl Serialize) -> Result<(), Failure> {
        let payload = self.scope().codecs().pack(&item)?;
        let mut journal = self.scope().journal().lock();
        Ok(journal.broadcast(self.scope().location(), payload)?)
    }
}

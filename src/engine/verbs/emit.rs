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
    /// # use everstep::{Ctx, Result, Workflow, ok};
    /// # async fn example<W: Workflow>(ctx: Ctx<W>) -> Result<()> {
    /// for page in 1..=3 {
    ///     let text = ctx.step(&format!("page {page}"), move || async move { ok(format!("text {page}")) }).await?;
    ///     ctx.emit(text)?;
    /// }
    /// # ok(()) }
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
    /// # use everstep::{Ctx, Result, Workflow, ok};
    /// # async fn example<W: Workflow>(ctx: Ctx<W>) -> Result<()> {
    /// ctx.broadcast("half way there")?;
    /// # ok(()) }
    /// ```
    pub fn broadcast(&self, item: impl Serialize) -> Result<(), Failure> {
        let payload = self.scope().codecs().pack(&item)?;
        let mut journal = self.scope().journal().lock();
        Ok(journal.broadcast(self.scope().location(), payload)?)
    }
}

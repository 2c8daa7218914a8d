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
    /// # use everstep::{Ctx, Result, Workflow, ok};
    /// # async fn example<W: Workflow>(ctx: Ctx<W>) -> Result<()> {
    /// ctx.set("progress", 50)?;
    /// # ok(()) }
    /// ```
    pub fn set(&self, name: &str, value: impl Serialize) -> Result<(), Failure> {
        Names::check(name).map_err(Misuse::from)?;
        let payload = self.scope().codecs().pack(&value)?;
        let mut journal = self.scope().journal().lock();
        let (bytes, said) = (payload.bytes.len(), Said::Published(name.to_owned(), payload));
        Ok(journal.say(self.scope().location(), bytes, said)?)
    }
}

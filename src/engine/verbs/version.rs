//! `ctx.version`, `ctx.patched`, `ctx.removed`: changing code under running instances.

use crate::engine::context::Ctx;
use crate::storage::record::{EntryKind, Failure};

impl<W> Ctx<W> {
    /// The version of the code that this run of the instance began with. A run that goes on from a part of another's
    /// history, after a reset or a retry, keeps the version of that one.
    pub fn instance_version(&self) -> u32 {
        self.scope().facts().version
    }

    /// Which version of a change this instance follows: the latest, if it comes here for the first time, and from
    /// then on always the same; 1, if it had passed this place before the change existed. Code that does not know the
    /// version, because it is older, diverges from the history.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn greeting(ctx: Ctx<Greeting>, name: String) -> Result<String> {
    ///     // The second change of this place: instances that began before it go on as they did.
    ///     ok(match ctx.version("words", 3)? {
    ///         1 => format!("hello {name}"),
    ///         2 => format!("good day {name}"),
    ///         _ => format!("welcome, {name}"),
    ///     })
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(greeting).open("memory:").await?;
    /// assert_eq!(runtime.start(greeting, "kim".into()).await?.result().await?, "welcome, kim");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn version(&self, change: &str, latest: u32) -> Result<u32, Failure> {
        let call_site = std::panic::Location::caller();
        let mut journal = self.scope().journal().lock();
        let location = journal.locate(self.scope().location(), change)?;
        // Asked before the gate itself becomes known: is there anything in the past that the code has yet to reach?
        let recorded = journal.entries.get(&location).map(|entry| entry.kind.clone());
        let caught_up = journal.caught_up() && !journal.is_gone_through_again(&location);
        match recorded {
            Some(EntryKind::Version { version } | EntryKind::Passed { version, .. }) => {
                journal.know(&location, "version", call_site)?;
                if version > latest {
                    journal.diverge(&location, &format!("version, {latest} at most"));
                }
                Ok(version)
            }
            Some(_) => {
                journal.know(&location, "version", call_site)?;
                Ok(1)
            }
            None if !caught_up => {
                journal.know(&location, "version", call_site)?;
                Ok(1)
            }
            None => {
                journal.know(&location, "version", call_site)?;
                journal.pass_gate(&location, latest);
                Ok(latest)
            }
        }
    }

    /// Whether this instance follows a change: the boolean form of [`Ctx::version`].
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn order(ctx: Ctx<Order>) -> Result<bool> {
    ///     let sends_receipt = ctx.patched("send the receipt")?;
    ///     if sends_receipt {
    ///         ctx.step("receipt", || async { ok(()) }).await?;
    ///     }
    ///     ok(sends_receipt)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// // It is new. One that was past this place before the change would go on without a receipt.
    /// assert!(runtime.start(order, ()).await?.result().await?);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn patched(&self, change: &str) -> Result<bool, Failure> {
        Ok(self.version(change, 2)? > 1)
    }

    /// Accounts for an operation whose code is gone: history may have it here, whatever it was, with all that was
    /// inside it. A wait for a message goes by the name of the message, what was sent or published by `send` or
    /// `publish`; called once for each of those that are gone.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn order(ctx: Ctx<Order>) -> Result<u32> {
    ///     // There was a step `check stock` here. Instances that have it behind them step over it.
    ///     ctx.removed("check stock")?;
    ///     ok(ctx.step("charge", || async { ok(20) }).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(order).open("memory:").await?;
    /// assert_eq!(runtime.start(order, ()).await?.result().await?, 20);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn removed(&self, name: &str) -> Result<(), Failure> {
        let call_site = std::panic::Location::caller();
        let mut journal = self.scope().journal().lock();
        Ok(journal.remove(self.scope().location(), name, call_site)?)
    }
}

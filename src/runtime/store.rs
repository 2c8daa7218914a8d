//! The store under a runtime: how it is, and a copy of it.

use super::Runtime;
use crate::handle::{self, Result};
use crate::storage::{Copied, Health, Report};

impl Runtime {
    /// Whether the store works. One that has failed acknowledges nothing any more: nothing goes on, whoever waits is
    /// told why, and a restart recovers. What asks whether a service is alive should ask this.
    ///
    /// ```
    /// # use everstep::{Health, Runtime};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::open("memory:").await?;
    /// if let Health::Failed(error) = runtime.health() {
    ///     eprintln!("{}: {error}", error.code());
    ///     std::process::exit(1);
    /// }
    /// # Ok(()) }
    /// ```
    pub fn health(&self) -> Health {
        self.shared.store.health()
    }

    /// Copies the store into a new one while everything goes on: a backup. The target must not exist, or be an empty
    /// directory, and need not be of the same engine. When this returns the copy is durable; until then there is nothing
    /// under its name.
    ///
    /// Each shard is copied as it is at one moment, so the copy is as good as a store that was killed then. It holds
    /// everything, what the tokens of promises are made of included: keep it like the store itself.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name).display().to_string();
    /// let runtime = Runtime::builder().workflow(payment).open(&path("data")).await?;
    /// runtime.start(payment, 20).await?.result().await?;
    /// let copied = runtime.backup(&path("monday")).await?;
    /// assert!(copied.rows > 0);
    /// # Ok(()) }
    /// ```
    pub async fn backup(&self, url: &str) -> Result<Copied> {
        let (store, url) = (self.shared.store.clone(), url.to_owned());
        let copying = store.clone();
        handle::blocking(&copying, move || Ok(store.backup(&url)?)).await
    }

    /// Reads everything that is stored and reports all that is wrong, while everything goes on. An error means that the
    /// store could not be read, not that something is wrong with it.
    pub async fn verify(&self) -> Result<Report> {
        let store = self.shared.store.clone();
        let reading = store.clone();
        handle::blocking(&reading, move || Ok(store.verify()?)).await
    }
}

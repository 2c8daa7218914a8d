//! `instance.export`: an instance as a file.

use crate::handle::{AnyHandle, Error, Result, list, look};
use crate::storage::{self, Refusal};

impl AnyHandle {
    /// The instance as a file, with its whole history: what `everstep export --instance` writes. It can be imported into
    /// another store, and today's code can be tried against it (`testing::replay_check`). The instance is not
    /// disturbed; the file shows it as it was at one moment.
    ///
    /// The file holds its input, results and messages as they are stored. It does not hold what the tokens of its promises
    /// are made of: whoever reads it can decide none of them, and the copy has tokens of its own.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> { ok(amount) }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let payment = runtime.start(payment, 20).id("order-123").await?;
    /// payment.result().await?;
    /// let file = payment.export().await?;
    /// assert!(file.starts_with("{\"everstep_export\":1"));
    /// # Ok(()) }
    /// ```
    pub async fn export(&self) -> Result<String> {
        let (store, instance) = (self.shared.store.clone(), self.instance.clone());
        let reading = store.clone();
        let exported = list::blocking(&reading, move || {
            let mut file = Vec::new();
            store.export_instance(&instance, &mut file)?;
            Ok(file)
        });
        let file = match exported.await {
            Err(Error::Storage(storage::Error::Refused(Refusal::Missing))) => {
                return Err(look::absent(&self.shared, &self.instance));
            }
            exported => exported?,
        };
        let text = String::from_utf8(file).map_err(|error| storage::Error::Corrupt(error.to_string()))?;
        Ok(text)
    }
}

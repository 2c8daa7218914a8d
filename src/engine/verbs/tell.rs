//! `ctx.now`, `ctx.random`, `ctx.uuid`: what would differ from run to run, made the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::engine::context::Ctx;

impl<W> Ctx<W> {
    /// The time at which the last thing that the code has seen was decided. It goes on with every completed
    /// operation, and replay tells the same. Before the first, it is when the run began.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn nap(ctx: Ctx<Nap>) -> Result<u128> {
    ///     let began = ctx.now();
    ///     ctx.sleep("nap", "5ms").await?;
    ///     ok(ctx.now().duration_since(began)?.as_millis())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(nap).open("memory:").await?;
    /// assert!(runtime.start(nap, ()).await?.result().await? >= 5);
    /// # Ok(()) }
    /// ```
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.scope().now_ms())
    }

    /// A random number that is the same in replay: drawn from the instance, the run, and the place in the code.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn dice(ctx: Ctx<Dice>) -> Result<u64> {
    ///     ok(1 + ctx.random() % 6)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(dice).open("memory:").await?;
    /// assert!((1..=6).contains(&runtime.start(dice, ()).await?.result().await?));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// In a step or in another task: there, a draw would shift those of the function.
    pub fn random(&self) -> u64 {
        self.scope().draw()
    }

    /// A random UUID (version 4) that is the same in replay, as text.
    ///
    /// ```
    /// use everstep::{Ctx, Result, Runtime, ok, workflow};
    ///
    /// #[workflow]
    /// async fn ticket(ctx: Ctx<Ticket>) -> Result<String> {
    ///     let number = ctx.uuid();
    ///     ok(ctx.step("print", move || { let number = number.clone(); async move { ok(number) } }).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Runtime::builder().workflow(ticket).open("memory:").await?;
    /// assert_eq!(runtime.start(ticket, ()).await?.result().await?.len(), 36);
    /// # Ok(()) }
    /// ```
    pub fn uuid(&self) -> String {
        let mut bytes = [self.random().to_be_bytes(), self.random().to_be_bytes()].concat();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

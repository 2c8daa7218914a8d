//! The calls of a runtime, from the side of the workflow: `Payment::start(&runtime, order)`.

use crate::engine::{Accepts, Message, Workflow};
use crate::handle::{Description, Handle, Operated, Result, Sent, Start};
use crate::runtime::Runtime;

/// Every workflow can be called by the name of its type. Each of these is short for the same call of the runtime or of
/// a [`Handle`].
///
/// ```
/// use everstep::{Ctx, Message, Result, Runtime, WorkflowExt, ok, workflow};
///
/// #[derive(Message, serde::Serialize, serde::Deserialize)]
/// struct Approval { by: String }
///
/// #[workflow(accepts(Approval))]
/// async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> {
///     let by = ctx.receive::<Approval>().await?.by;
///     ok(format!("{amount} approved by {by}"))
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
/// Payment::start(&runtime, 20).id("order-123").await?;
/// Payment::pause(&runtime, "order-123").await?;
/// assert!(Payment::status(&runtime, "order-123").await?.paused);
/// Payment::resume(&runtime, "order-123").await?;
/// Payment::send(&runtime, "order-123", Approval { by: "kim".into() }).await?;
/// let payment = Payment::handle(&runtime, "order-123")?;
/// assert_eq!(payment.result().await?, "20 approved by kim");
/// # Payment::start(&runtime, 20).id("b").await?;
/// # assert!(Payment::cancel(&runtime, "b", "test").await?.is_done());
/// # Payment::start(&runtime, 20).id("c").await?;
/// # assert!(Payment::terminate(&runtime, "c", "test").await?.is_done());
/// # Ok(()) }
/// ```
pub trait WorkflowExt: Workflow + Sized {
    /// Starts an instance; see [`Runtime::start`].
    fn start(runtime: &Runtime, input: Self::Input) -> Start<Self> {
        Start::new(runtime.shared(), input)
    }

    /// The handle of an instance that was started before.
    fn handle(runtime: &Runtime, id: &str) -> Result<Handle<Self>> {
        Handle::of(&runtime.shared(), id)
    }

    /// Where an instance stands.
    fn status(runtime: &Runtime, id: &str) -> impl Future<Output = Result<Description>> + Send {
        let handle = Self::handle(runtime, id);
        async move { handle?.status().await }
    }

    /// Sends a message to an instance.
    fn send<M: Message>(runtime: &Runtime, id: &str, message: M) -> impl Future<Output = Result<Sent>> + Send
    where
        Self: Accepts<M>,
    {
        let sending = Self::handle(runtime, id).map(|handle| handle.send(message).into_future());
        async move { sending?.await }
    }

    /// Holds an instance until somebody resumes it.
    fn pause(runtime: &Runtime, id: &str) -> impl Future<Output = Result<Operated>> + Send {
        let handle = Self::handle(runtime, id);
        async move { handle?.pause().await }
    }

    /// Lets an instance go on that was paused.
    fn resume(runtime: &Runtime, id: &str) -> impl Future<Output = Result<Operated>> + Send {
        let handle = Self::handle(runtime, id);
        async move { handle?.resume().await }
    }

    /// Asks an instance to end.
    fn cancel(runtime: &Runtime, id: &str, reason: &str) -> impl Future<Output = Result<Operated>> + Send {
        let (handle, reason) = (Self::handle(runtime, id), reason.to_owned());
        async move { handle?.cancel(reason).await }
    }

    /// Ends an instance at once, without cleaning up.
    fn terminate(runtime: &Runtime, id: &str, reason: &str) -> impl Future<Output = Result<Operated>> + Send {
        let (handle, reason) = (Self::handle(runtime, id), reason.to_owned());
        async move { handle?.terminate(reason).await }
    }
}

impl<W: Workflow> WorkflowExt for W {}

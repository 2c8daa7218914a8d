//! `ctx.run`: a step that is a function of its own, with a name, options and a stored input.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::engine::attempt::Attempt;
use crate::engine::context::Ctx;
use crate::engine::error::{Result, WorkflowError};
use crate::engine::request::Work;
use crate::engine::scope::Facts;
use crate::engine::verbs::step::Step;
use crate::storage::payload::{Codecs, Payload, PayloadError};

/// An activity: a function with an effect, together with how it is tried.
///
/// Most activities are written with [`#[activity]`](macro@crate::activity), which implements this trait; implementing
/// it by hand gives the same:
///
/// ```
/// use everstep::{Activity, Attempt, Result, Step, ok};
/// # use everstep::{Ctx, Runtime, workflow};
///
/// struct Charge;
///
/// impl Activity for Charge {
///     const NAME: &'static str = "charge";
///     type Input = u32;
///     type Output = String;
///
///     fn options(step: Step<String>) -> Step<String> {
///         step.retries(5).timeout("30s")
///     }
///
///     async fn run(attempt: Attempt, amount: u32) -> Result<String> {
///         ok(format!("charged {amount} at attempt {}", attempt.number()))
///     }
/// }
/// # #[workflow] async fn dinner(ctx: Ctx<Dinner>) -> Result<String> { ok(ctx.run(Charge, 20).await?) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(dinner).open("memory:").await?;
/// # assert_eq!(runtime.start(dinner, ()).await?.result().await?, "charged 20 at attempt 1");
/// # Ok(()) }
/// ```
pub trait Activity: Send + Sync + 'static {
    /// The name that a run of it is recorded under.
    const NAME: &'static str;
    /// What it is given. Every attempt gets one of its own, so it need not be `Clone`.
    type Input: Serialize + DeserializeOwned + Send + 'static;
    /// What it returns.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// Sets the options that every run begins with; a caller's options come after them and win.
    fn options(step: Step<Self::Output>) -> Step<Self::Output> {
        step
    }

    /// Makes one attempt.
    fn run(attempt: Attempt, input: Self::Input) -> impl Future<Output = Result<Self::Output>> + Send + 'static
    where
        Self: Sized;
}

/// Whatever stands for an activity: a value of a type that is one (`Charge`), or the function that
/// [`#[activity]`](macro@crate::activity) leaves under the name of what was written (`charge`).
///
/// `As` tells the two apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity",
    label = "not an activity",
    note = "put `#[activity]` on the `async fn`, or implement `Activity` for a type and pass a value of it"
)]
pub trait IntoActivity<As> {
    /// The activity.
    type Activity: Activity;
}

impl<A: Activity> IntoActivity<A> for A {
    type Activity = A;
}

impl<A: Activity, F: FnOnce() -> A> IntoActivity<fn() -> A> for F {
    type Activity = A;
}

impl<W> Ctx<W> {
    /// Runs an activity, once: it is a [step](Ctx::step) whose name, work and options come from the activity.
    ///
    /// What is set on the call wins over what the activity says. To run the same activity twice in one scope, give the
    /// second run another name.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, activity, ok, workflow};
    /// #[activity(retries = 5, timeout = "30s")]
    /// async fn charge(amount: u32) -> Result<String> {
    ///     ok(format!("charged {amount}"))
    /// }
    ///
    /// #[workflow]
    /// async fn dinner(ctx: Ctx<Dinner>) -> Result<String> {
    ///     let meal = ctx.run(charge, 20).await?;
    ///     let tip = ctx.run(charge, 2).named("charge the tip").retries(1).await?;
    ///     ok(format!("{meal}, {tip}"))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(dinner).activity(charge).open("memory:").await?;
    /// assert_eq!(runtime.start(dinner, ()).await?.result().await?, "charged 20, charged 2");
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn run<A: Activity, As>(
        &self,
        _activity: impl IntoActivity<As, Activity = A>,
        input: A::Input,
    ) -> Step<A::Output> {
        let work = attempts_at::<A>(input, self.scope().shared_facts());
        A::options(Step::new(self.scope(), A::NAME, work))
    }
}

/// The input of an activity. A replayed run makes no attempt, so nothing is packed before the first one.
enum Input<T> {
    Given(T),
    Packed(Payload),
}

impl<T: Serialize> Input<T> {
    /// The input as every attempt reads it, the first one too: what does not survive being stored shows at once, and
    /// not in the first retry.
    fn packed(&mut self, codecs: &Codecs) -> std::result::Result<Payload, PayloadError> {
        let packed = match self {
            Self::Given(input) => codecs.pack(input)?,
            Self::Packed(payload) => return Ok(payload.clone()),
        };
        *self = Self::Packed(packed.clone());
        Ok(packed)
    }
}

/// Begins an attempt where it stays: its copies on the way there leave the stack before it is polled.
fn begin<A: Activity>(attempt: Attempt, input: A::Input) -> Pin<Box<impl Future<Output = Result<A::Output>> + Send>> {
    Box::pin(A::run(attempt, input))
}

fn attempts_at<A: Activity>(input: A::Input, facts: Arc<Facts>) -> Work {
    let input = Arc::new(Mutex::new(Input::Given(input)));
    let (shown, codecs) = (Arc::clone(&input), facts.codecs.clone());
    let packed = |input: &Mutex<Input<A::Input>>, codecs: &Codecs| {
        let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
        input.packed(codecs)
    };
    let work = Work::new(move |attempt| {
        let packed = packed(&input, &facts.codecs);
        let facts = Arc::clone(&facts);
        Box::pin(async move {
            let input = facts.codecs.unpack(&packed?)?;
            let output = begin::<A>(attempt, input).await.map_err(WorkflowError::into_failure)?;
            facts.pack(&output)
        })
    });
    work.of_activity(A::NAME)
        .called_with(move || packed(&shown, &codecs).ok())
}

//! What stands in for an activity or a step.

use std::any::{type_name, type_name_of_val};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::calls::Call;
use crate::duration::IntoDuration;
use crate::engine::{Result, WorkflowError};
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Failure, FailureKind};

/// What stands in for an activity or a step: results and failures, one after the other, or a function.
///
/// Each call gets the next of them; the last one is for all that follow. An attempt that is made again because the
/// process died gets what it got before, so a crash makes no difference.
///
/// ```
/// # use everstep::testing::{Harness, Mock};
/// # use everstep::{Ctx, Result, Runtime, activity, ok, workflow};
/// #[activity(retries = 5)]
/// async fn charge(amount: u32) -> Result<String> {
///     unreachable!("no bank in a test: {amount}")
/// }
///
/// #[workflow]
/// async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> {
///     ok(ctx.run(charge, amount).await?)
/// }
///
/// let harness = Harness::new(Runtime::builder().workflow(payment));
/// harness.mock("charge", Mock::fails("the bank is closed").then_returns("paid"));
/// let payment = harness.start(payment, 20);
/// assert_eq!(payment.run_until_complete().unwrap(), "paid");
/// assert_eq!(harness.calls("charge").len(), 2);
/// ```
#[derive(Clone)]
pub struct Mock {
    turns: Vec<Turn>,
}

/// What one call comes to.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) outcome: Outcome,
    /// How long it takes, in virtual time.
    pub(super) takes: Duration,
    /// The name of the type that it returns, if it returns anything.
    pub(super) returns: Option<&'static str>,
    /// Says what is wrong with the input, if it is not what a function takes.
    pub(super) misreads: fn(&Call) -> Option<String>,
}

type Function = dyn Fn(&Call) -> std::result::Result<Payload, Failure> + Send + Sync;

#[derive(Clone)]
pub(super) enum Outcome {
    Decided(std::result::Result<Payload, Failure>),
    Function(Arc<Function>),
    Never,
}

impl Mock {
    fn of(outcome: Outcome) -> Self {
        let turn = Turn {
            outcome,
            takes: Duration::ZERO,
            returns: None,
            misreads: |_| None,
        };
        Self { turns: vec![turn] }
    }

    fn returning(mut self, of: &'static str) -> Self {
        self.turns.iter_mut().for_each(|turn| turn.returns = Some(of));
        self
    }

    /// Returns this. It has to read as what the step returns: if it does not, the test fails, with both types.
    ///
    /// # Panics
    ///
    /// If the value can't be stored.
    pub fn returns(value: impl Serialize) -> Self {
        let packed = Codecs::plain().pack(&value);
        let packed = packed.expect("the value of a mock can be stored");
        Self::of(Outcome::Decided(Ok(packed))).returning(type_name_of_val(&value))
    }

    /// Fails like an error of the code: it is tried again, as the step says.
    pub fn fails(message: impl Into<String>) -> Self {
        let failure = Failure::new(FailureKind::Error, message);
        Self::of(Outcome::Decided(Err(failure)))
    }

    /// Fails with an error that is not worth another attempt.
    pub fn fails_for_good(message: impl Into<String>) -> Self {
        Self::of(Outcome::Decided(Err(Failure::new(FailureKind::Critical, message))))
    }

    /// Fails with an error that asks for what was done to be undone.
    pub fn rolls_back(message: impl Into<String>) -> Self {
        Self::of(Outcome::Decided(Err(Failure::new(FailureKind::Rollback, message))))
    }

    /// Never comes to an end, so that only a timeout, a heartbeat or a cancellation ends it.
    pub fn hangs() -> Self {
        Self::of(Outcome::Never)
    }

    /// Calls a function with the input of the activity.
    ///
    /// ```
    /// # use everstep::testing::{Harness, Mock};
    /// # use everstep::{Ctx, Result, Runtime, activity, ok, workflow};
    /// # #[activity] async fn charge(amount: u32) -> Result<String> { unreachable!("{amount}") }
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> { ok(ctx.run(charge, amount).await?) }
    /// let harness = Harness::new(Runtime::builder().workflow(payment));
    /// harness.mock("charge", Mock::calls(|amount: u32| ok(format!("paid {amount}"))));
    /// assert_eq!(harness.start(payment, 20).run_until_complete().unwrap(), "paid 20");
    /// ```
    pub fn calls<I: DeserializeOwned, T: Serialize>(function: impl Fn(I) -> Result<T> + Send + Sync + 'static) -> Self {
        let mut mock = Self::sees(move |call| function(call.input()));
        mock.turns
            .iter_mut()
            .for_each(|turn| turn.misreads = Call::misread::<I>);
        mock
    }

    /// Calls a function with all that is known of the call. For steps, which have no input, and for what depends on the
    /// number of the attempt.
    pub fn sees<T: Serialize>(function: impl Fn(&Call) -> Result<T> + Send + Sync + 'static) -> Self {
        let function = move |call: &Call| {
            let value = function(call).map_err(WorkflowError::into_failure)?;
            Ok(Codecs::plain().pack(&value)?)
        };
        Self::of(Outcome::Function(Arc::new(function))).returning(type_name::<T>())
    }

    /// After that, does what another one does: `Mock::fails("503").times(2).then(Mock::calls(..))`.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        self.turns.extend(next.turns);
        self
    }

    /// After that, returns this.
    #[must_use]
    pub fn then_returns(self, value: impl Serialize) -> Self {
        self.then(Self::returns(value))
    }

    /// After that, fails like an error of the code.
    #[must_use]
    pub fn then_fails(self, message: impl Into<String>) -> Self {
        self.then(Self::fails(message))
    }

    /// After that, fails with an error that is not worth another attempt.
    #[must_use]
    pub fn then_fails_for_good(self, message: impl Into<String>) -> Self {
        self.then(Self::fails_for_good(message))
    }

    /// After that, never comes to an end.
    #[must_use]
    pub fn then_hangs(self) -> Self {
        self.then(Self::hangs())
    }

    /// The same thing this many times in a row: of the last that was said.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        if let Some(last) = self.turns.last().cloned() {
            self.turns.extend(std::iter::repeat_n(last, times.saturating_sub(1)));
        }
        self
    }

    /// The last that was said takes this long, in virtual time.
    ///
    /// # Panics
    ///
    /// If it is not a duration.
    #[must_use]
    pub fn taking(mut self, duration: impl IntoDuration) -> Self {
        let takes = duration.into_duration().expect("a mock takes a duration that there is");
        if let Some(last) = self.turns.last_mut() {
            last.takes = takes;
        }
        self
    }

    /// What the call with this number, from zero, comes to.
    pub(super) fn turn(&self, number: usize) -> Turn {
        let last = self.turns.len() - 1;
        self.turns[number.min(last)].clone()
    }
}

impl std::fmt::Debug for Mock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mock").field("turns", &self.turns.len()).finish()
    }
}

//! What an operation asks for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::clock::Millis;
use crate::engine::attempt::Attempt;
use crate::engine::retry::Retry;
use crate::storage::payload::Payload;
use crate::storage::record::Failure;

/// An attempt at a step that is running.
pub(crate) type Attempting = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

/// The work of a step: makes one attempt after the other.
pub(crate) type Work = Box<dyn FnMut(Attempt) -> Attempting + Send>;

/// A step that has to run.
pub(crate) struct StepRequest {
    pub(crate) work: Work,
    pub(crate) options: StepOptions,
}

/// How a step is run.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepOptions {
    pub(crate) retry: Retry,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry_on_timeout: bool,
}

/// What an operation asks for.
pub(crate) enum Request {
    /// Run a step.
    Step(StepRequest),
    /// Wait.
    Sleep(Until),
    /// Take messages with one of these names.
    Receive(ReceiveRequest),
}

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// This long from the moment that the wait is recorded.
    After(Duration),
    /// Until this time.
    At(Millis),
}

impl Until {
    pub(crate) fn at_ms(self, now: Millis) -> Millis {
        match self {
            Self::After(wait) => now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(Millis::MAX)),
            Self::At(at) => at,
        }
    }
}

/// Which messages to take.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveRequest {
    pub(crate) names: Vec<&'static str>,
    /// At least one, at most this many.
    pub(crate) most: usize,
    pub(crate) until: Option<Until>,
}

impl Request {
    /// What people call it; the same word as the entry has that it will become.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::Sleep(_) => "sleep",
            Self::Receive(_) => "receive",
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

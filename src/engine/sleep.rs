//! `ctx.sleep`: a wait for a point in time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::engine::context::{Ctx, Operation};
use crate::engine::error::StepFailed;
use crate::engine::journal::{Outcome, Request, SleepFor};

/// A sleep on its way; await it.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    operation: Operation,
}

impl Sleep {
    pub(crate) fn new(ctx: Ctx, name: &str, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Sleep(SleepFor::Duration(millis));
        Self {
            operation: Operation::new(ctx, name, request),
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), StepFailed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.operation).poll(cx))? {
            Outcome::Slept => Poll::Ready(Ok(())),
            Outcome::Step(_) | Outcome::Message(_) => unreachable!("the journal delivers what was asked for"),
        }
    }
}

impl std::fmt::Debug for Sleep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sleep")
            .field("name", &self.operation.name())
            .finish_non_exhaustive()
    }
}

//! Running one attempt: guarded against panics, silence and taking too long, and cancelled when nobody waits for it.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Either;
use tokio::task::AbortHandle;

use crate::engine::{AttemptEnd, Begin};
use crate::limits::CANCELLED_GRACE;
use crate::spawn;

/// Runs an attempt to its end; none if it was cancelled. `beat` is called when it has told of its progress.
///
/// `permits` are dropped when the code of the attempt is over. A thread that goes on after its attempt timed out or was
/// cancelled keeps them: it is still there, and so many may be there at once.
pub(crate) async fn run(begin: Begin, permits: impl Send + 'static, beat: impl Fn()) -> Option<AttemptEnd> {
    let Begin {
        attempting,
        timeout,
        heartbeat,
        blocking,
        pulse,
        ..
    } = begin;
    let guarded = AssertUnwindSafe(attempting).catch_unwind();
    let mut ending = std::pin::pin!(if blocking {
        Either::Left(on_a_thread(guarded, permits))
    } else {
        Either::Right(async move {
            let _permits = permits;
            AttemptEnd::of(guarded.await)
        })
    });
    let mut too_long = std::pin::pin!(after(timeout));
    loop {
        tokio::select! {
            biased;
            end = &mut ending => return Some(end),
            () = pulse.cancelled() => {
                if pulse.listens() {
                    // What it returns is of no interest, only that it had its moment.
                    let _ = tokio::time::timeout(CANCELLED_GRACE, &mut ending).await;
                }
                return None;
            }
            () = &mut too_long => {
                // A thread can't be stopped. It can ask.
                pulse.cancel();
                return Some(AttemptEnd::TimedOut);
            }
            () = pulse.beaten() => beat(),
            () = after(heartbeat) => {
                pulse.cancel();
                return Some(AttemptEnd::Silent(heartbeat.unwrap_or_default()));
            }
        }
    }
}

/// Runs an attempt that may block, and is over when it was polled once, where that harms nobody. One that still waits
/// for a thread when this is dropped does not begin.
async fn on_a_thread(
    attempting: impl Future<Output = Result<Returned, Box<dyn std::any::Any + Send>>> + Send + 'static,
    permits: impl Send + 'static,
) -> AttemptEnd {
    let running = spawn::blocking(move || {
        let _permits = permits;
        attempting.now_or_never()
    });
    let _waiting = NotBegun(running.abort_handle());
    #[cfg(feature = "testing")]
    let _blocking = spawn::Blocking::begin();
    match running.await {
        Ok(Some(returned)) => AttemptEnd::of(returned),
        Ok(None) => unreachable!("what blocks is over when it was polled"),
        Err(error) => AttemptEnd::Panicked(error.to_string()),
    }
}

/// Takes back what waits for a thread. What has one goes on.
struct NotBegun(AbortHandle);

impl Drop for NotBegun {
    fn drop(&mut self) {
        self.0.abort();
    }
}

type Returned = Result<crate::storage::payload::Payload, crate::storage::record::Failure>;

/// This long; for ever if there is no bound.
async fn after(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}

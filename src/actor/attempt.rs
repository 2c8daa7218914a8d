//! Running one attempt: guarded against panics, silence and taking too long, and cancelled when nobody waits for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Span;

use crate::clock::Stopwatch;
use crate::engine::{AttemptEnd, Begin, Pulse};
use crate::limits::CANCELLED_GRACE;
use crate::spawn;

/// Runs an attempt to its end; none if it was cancelled. `began` is called when its code begins (of one that blocks, once
/// more when it has a thread), `beat` when it has told of its progress.
///
/// `permits` are dropped when the code of the attempt is over. A thread that goes on after its attempt timed out or was
/// cancelled keeps them: it is still there, and so many may be there at once.
pub(crate) async fn run(
    begin: Begin,
    permits: impl Send + 'static,
    began: impl Fn(),
    beat: impl Fn(),
) -> Option<AttemptEnd> {
    let Begin {
        mut attempting,
        timeout,
        heartbeat,
        blocking,
        pulse,
        ..
    } = begin;
    began();
    if blocking {
        let (begins, begun) = oneshot::channel();
        let guarded = AssertUnwindSafe(attempting).catch_unwind();
        let mut ending = std::pin::pin!(on_a_thread(guarded, permits, begins));
        // Its time begins when it has a thread.
        let since = tokio::select! {
            biased;
            () = pulse.cancelled() => return None,
            end = &mut ending => return Some(end),
            Ok(since) = begun => since,
        };
        began();
        let timeout = timeout.map(|timeout| timeout.saturating_sub(since.elapsed()));
        return Bounds { timeout, heartbeat }.watch(ending, &pulse, beat).await;
    }
    let guarded = AssertUnwindSafe(&mut attempting).catch_unwind();
    let ending = guarded.map(AttemptEnd::of);
    let end = Bounds { timeout, heartbeat }.watch(ending, &pulse, beat).await;
    // What it had may panic when it is dropped. That is how it was cancelled, and not how it ended.
    if std::panic::catch_unwind(AssertUnwindSafe(|| drop(attempting))).is_err() {
        tracing::error!("a step panicked when it was dropped");
    }
    drop(permits);
    end
}

/// How long an attempt may take.
struct Bounds {
    timeout: Option<Duration>,
    /// Without a sign of life.
    heartbeat: Option<Duration>,
}

impl Bounds {
    /// Waits for the end of an attempt, or for what is the end of it to others.
    async fn watch(
        &self,
        ending: impl Future<Output = AttemptEnd>,
        pulse: &Pulse,
        beat: impl Fn(),
    ) -> Option<AttemptEnd> {
        let mut ending = std::pin::pin!(ending);
        let mut too_long = std::pin::pin!(after(self.timeout));
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
                () = after(self.heartbeat) => {
                    pulse.cancel();
                    return Some(AttemptEnd::Silent(self.heartbeat.unwrap_or_default()));
                }
            }
        }
    }
}

/// Runs an attempt that may block, and is over when it was polled once, where that harms nobody. One that still waits
/// for a thread when this is dropped does not begin.
async fn on_a_thread(
    attempting: impl Future<Output = Result<Returned, Box<dyn std::any::Any + Send>>> + Send + 'static,
    permits: impl Send + 'static,
    begins: oneshot::Sender<Stopwatch>,
) -> AttemptEnd {
    let (late, span) = (Arc::new(AtomicBool::new(false)), Span::current());
    let is_late = Arc::clone(&late);
    let running = spawn::blocking(move || {
        let _permits = permits;
        let _ = begins.send(Stopwatch::start());
        let returned = attempting.now_or_never();
        if is_late.load(Ordering::Acquire) {
            span.in_scope(|| tracing::warn!("a blocking step has ended too late; what it came to is dropped"));
        }
        returned
    });
    let mut waiting = Waiting {
        thread: Some(running.abort_handle()),
        late,
    };
    #[cfg(feature = "testing")]
    let _blocking = spawn::Blocking::begin();
    let ended = running.await;
    waiting.thread = None;
    match ended {
        Ok(Some(returned)) => AttemptEnd::of(returned),
        Ok(None) => unreachable!("what blocks is over when it was polled"),
        Err(error) => AttemptEnd::Panicked(error.to_string()),
    }
}

/// Takes back what waits for a thread. What has one goes on, and nobody waits for what it comes to.
struct Waiting {
    thread: Option<AbortHandle>,
    late: Arc<AtomicBool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            self.late.store(true, Ordering::Release);
            thread.abort();
        }
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

//! Waiting for something of an instance to come true.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::actor::{Shared, Waiters};
use crate::clock::Clock;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::handle::{Error, Result};
use crate::ids::InstanceId;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A wait for something of an instance; await it. Whoever stops waiting changes nothing.
#[must_use = "nothing is waited for until it is awaited"]
pub struct Waiting<T> {
    clock: Arc<dyn Clock>,
    timeout: std::result::Result<Option<Duration>, InvalidDuration>,
    future: Boxed<T>,
}

impl<T> Waiting<T> {
    pub(crate) fn new(shared: &Shared, future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self {
            clock: Arc::clone(&shared.clock),
            timeout: Ok(None),
            future: Box::pin(future),
        }
    }

    /// Gives up after this long.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.timeout = timeout.into_duration().map(Some);
        self
    }

    /// The same, when it was read before there was anything to wait for.
    pub(super) fn within(mut self, timeout: std::result::Result<Option<Duration>, InvalidDuration>) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<T: Send + 'static> IntoFuture for Waiting<T> {
    type Output = Result<T>;
    type IntoFuture = Boxed<T>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { clock, timeout, future } = self;
        Box::pin(async move {
            let Some(timeout) = timeout? else {
                return future.await;
            };
            let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
            let at = clock.now_ms().saturating_add(millis);
            tokio::select! {
                biased;
                done = future => done,
                () = over(&*clock, at) => Err(Error::TimedOut(timeout)),
            }
        })
    }
}

/// Waits until the clock shows this time; a single wait of the clock may be shorter.
async fn over(clock: &dyn Clock, at_ms: u64) {
    while clock.now_ms() < at_ms {
        clock.wait_until(at_ms).await;
    }
}

/// Looks at an instance again and again, whenever something of it was committed, until there is something to see.
pub(crate) async fn until<T>(
    shared: &Shared,
    instance: &InstanceId,
    look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let waiter = Waiter::new(shared, instance);
    again_and_again(&waiter.changes().any, look).await
}

/// The same for what there is to see only when the instance has ended, or is gone.
pub(crate) async fn until_end<T>(
    shared: &Shared,
    instance: &InstanceId,
    look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let waiter = Waiter::new(shared, instance);
    again_and_again(&waiter.changes().end, look).await
}

async fn again_and_again<T>(changes: &Notify, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    loop {
        let changed = changes.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        changed.await;
    }
}

/// Somebody who waits, and is forgotten when they go away, whether or not they have seen what they waited for.
struct Waiter<'a> {
    shared: &'a Shared,
    instance: &'a InstanceId,
    changes: Option<Arc<Waiters>>,
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Shared, instance: &'a InstanceId) -> Self {
        let changes = Some(shared.changes.of(instance));
        Self {
            shared,
            instance,
            changes,
        }
    }

    fn changes(&self) -> &Waiters {
        self.changes.as_ref().expect("it is there until this is dropped")
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.changes = None;
        self.shared.changes.forget(self.instance);
    }
}

//! Waiting for something of an instance to come true.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::actor::{Shared, Waiters};
use crate::clock;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::handle::operate::is_held;
use crate::handle::{AnyHandle, Error, Result, look};
use crate::ids::InstanceId;
use crate::storage::Health;
use crate::storage::key::{Local, Meta};
use crate::storage::record::Hold;

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A wait for something of an instance; await it. Nothing is done before that, and whoever stops waiting takes nothing
/// back. It ends with the failure of the store if that fails, and with [`Error::Stopped`] if the runtime stops.
#[must_use = "nothing is done or waited for until it is awaited"]
pub struct Waiting<T> {
    whose: AnyHandle,
    timeout: std::result::Result<Option<Duration>, InvalidDuration>,
    or_held: bool,
    future: Boxed<T>,
}

impl<T> Waiting<T> {
    pub(crate) fn new(whose: &AnyHandle, future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self {
            whose: whose.clone(),
            timeout: Ok(None),
            or_held: false,
            future: Box::pin(future),
        }
    }

    /// Gives up after this long. What was asked for stays asked for.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.timeout = timeout.into_duration().map(Some);
        self
    }

    /// Gives up with [`Error::Held`] when the instance is stuck, parked or quarantined: then it may take a person until
    /// it goes on, and without this the wait lasts as long. Asked for again it waits again.
    ///
    /// ```
    /// # use everstep::{Ctx, Error, Result, Runtime, ok, workflow};
    /// #[workflow(strategy = "quarantine")]
    /// async fn payment(ctx: Ctx<Payment>) -> Result<u32> {
    ///     let charge = || async { Err::<u32, _>(std::io::Error::other("no money")) };
    ///     ok(ctx.step("charge", charge).retries(0).await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// let payment = runtime.start(payment, ()).await?;
    /// let held = payment.result().or_held().await.unwrap_err();
    /// assert!(matches!(held, Error::Held { .. }));
    /// # Ok(()) }
    /// ```
    pub fn or_held(mut self) -> Self {
        self.or_held = true;
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
        let Self {
            whose,
            timeout,
            or_held,
            future,
        } = self;
        Box::pin(async move {
            let timeout = timeout?;
            if timeout.is_none() && !or_held {
                return future.await;
            }
            tokio::select! {
                biased;
                done = future => done,
                held = held(&whose), if or_held => Err(held),
                () = clock::pass(timeout.unwrap_or_default()), if timeout.is_some() => {
                    Err(Error::TimedOut(timeout.unwrap_or_default()))
                }
            }
        })
    }
}

/// Waits until the instance does not go on by itself.
async fn held(AnyHandle { shared, instance }: &AnyHandle) -> Error {
    let held = until(shared, instance, || {
        let (state, snapshot) = look::existing_state(shared, instance)?;
        if !is_held(state.status) {
            return Ok(None);
        }
        let namespace = shared.store.namespace(instance);
        let hold: Option<Hold> = namespace.get(&*snapshot, &Local::Meta(Meta::Hold))?;
        Ok(Some((state.status, hold)))
    });
    match held.await {
        Ok((status, hold)) => Error::Held {
            instance: instance.clone(),
            status,
            reason: hold.map_or_else(String::new, |hold| hold.reason),
        },
        Err(error) => error,
    }
}

/// Looks at an instance again and again, whenever something of it was committed, until there is something to see.
pub(crate) async fn until<T>(
    shared: &Shared,
    instance: &InstanceId,
    look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let waiter = Waiter::new(shared, instance);
    again_and_again(shared, &waiter.changes().any, look).await
}

/// The same for what there is to see only when the instance has ended, or is gone.
pub(crate) async fn until_end<T>(
    shared: &Shared,
    instance: &InstanceId,
    look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let waiter = Waiter::new(shared, instance);
    again_and_again(shared, &waiter.changes().end, look).await
}

async fn again_and_again<T>(
    shared: &Shared,
    changes: &Notify,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    loop {
        let changed = changes.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        // Asked before looking: what became of it until the end is seen all the same.
        let over = goes_on(shared);
        if let Some(seen) = look()? {
            return Ok(seen);
        }
        over?;
        changed.await;
    }
}

/// Refuses whatever needs a runtime that has not stopped, on a store that works.
pub(crate) fn goes_on(shared: &Shared) -> Result<()> {
    if shared.changes.are_over() {
        return Err(Error::Stopped);
    }
    match shared.store.health() {
        Health::Good => Ok(()),
        Health::Failed(error) => Err(error.into()),
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

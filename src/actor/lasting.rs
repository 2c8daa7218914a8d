//! What goes on when whoever waits for it goes away.
//!
//! A caller may drop its future at any await: a timeout, a client that hangs up. What it has handed over by then is done
//! all the same, and somebody has to see it to its end: wake the instance, tell the alarms, give back what was taken.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::actor::shared::Shared;
use crate::spawn;

/// Something that comes to its end once it has begun.
pub(crate) trait Errand: Send + 'static {
    /// What it comes to.
    type Output: Send;

    /// Goes on with it.
    fn poll(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) -> Poll<Self::Output>;

    /// Whoever waited for it has gone away. Tells whether it has to go on; if not, it is as if nobody had asked for it.
    fn goes_on(&mut self) -> bool;
}

/// An errand that is driven by whoever waits for it, and by a task of its own from the moment they go away. For as long
/// as they stay, it costs nothing.
pub(crate) struct Lasting<E: Errand> {
    shared: Arc<Shared>,
    errand: Option<E>,
}

impl<E: Errand> Lasting<E> {
    pub(crate) fn new(shared: &Arc<Shared>, errand: E) -> Self {
        let (shared, errand) = (Arc::clone(shared), Some(errand));
        Self { shared, errand }
    }
}

/// An errand is moved to its task in the middle: it never relies on where it lies.
impl<E: Errand> Unpin for Lasting<E> {}

impl<E: Errand> Future for Lasting<E> {
    type Output = E::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<E::Output> {
        let Self { shared, errand } = &mut *self;
        let going = errand
            .as_mut()
            .expect("nobody waits for it once it has come to its end");
        let output = ready!(going.poll(shared, context));
        *errand = None;
        Poll::Ready(output)
    }
}

impl<E: Errand> Drop for Lasting<E> {
    fn drop(&mut self) {
        let Some(mut errand) = self.errand.take() else {
            return;
        };
        if errand.goes_on() {
            let shared = Arc::clone(&self.shared);
            // Not where the caller is: its executor may be the very thing that ends.
            spawn::task_on(&self.shared.workers, async move {
                poll_fn(|context| errand.poll(&shared, context)).await;
            });
        }
    }
}

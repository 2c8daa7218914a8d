//! A stream made of calls that are awaited one after the other.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Something that is asked for the next of what it gives, again and again. Whoever stops waiting in the middle loses
/// nothing: the next who asks waits on.
pub(super) struct Polled<S, T> {
    state: State<S, T>,
    /// Whether nothing more comes.
    over: bool,
}

type Asking<S, T> = Pin<Box<dyn Future<Output = (S, T)> + Send>>;

enum State<S, T> {
    Resting(S),
    Asking(Asking<S, T>),
    /// Between the two, and after a panic.
    Nothing,
}

impl<S, T> Polled<S, T> {
    pub(super) fn new(state: S) -> Self {
        let (state, over) = (State::Resting(state), false);
        Self { state, over }
    }

    /// Changes it before it is asked for the first time.
    pub(super) fn set(&mut self, change: impl FnOnce(&mut S)) {
        if let State::Resting(state) = &mut self.state {
            change(state);
        }
    }

    /// Asks, or waits on.
    pub(super) fn poll<F>(&mut self, cx: &mut Context<'_>, ask: impl FnOnce(S) -> F) -> Poll<T>
    where
        F: Future<Output = (S, T)> + Send + 'static,
    {
        let mut asking = match std::mem::replace(&mut self.state, State::Nothing) {
            State::Resting(state) => Box::pin(ask(state)) as Asking<S, T>,
            State::Asking(asking) => asking,
            State::Nothing => panic!("a stream that panicked was asked again"),
        };
        match asking.as_mut().poll(cx) {
            Poll::Pending => {
                self.state = State::Asking(asking);
                Poll::Pending
            }
            Poll::Ready((state, given)) => {
                self.state = State::Resting(state);
                Poll::Ready(given)
            }
        }
    }
}

impl<S, T, E> Polled<S, Result<Option<T>, E>> {
    /// The same for a stream that ends: after what `ends`, there is nothing more.
    pub(super) fn poll_next<F>(
        &mut self,
        cx: &mut Context<'_>,
        ask: impl FnOnce(S) -> F,
        ends: impl FnOnce(&E) -> bool,
    ) -> Poll<Option<Result<T, E>>>
    where
        F: Future<Output = (S, Result<Option<T>, E>)> + Send + 'static,
    {
        if self.over {
            return Poll::Ready(None);
        }
        self.poll(cx, ask).map(|given| {
            self.over = match &given {
                Ok(given) => given.is_none(),
                Err(error) => ends(error),
            };
            given.transpose()
        })
    }
}

impl<S, T> std::fmt::Debug for Polled<S, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Polled")
            .field("over", &self.over)
            .finish_non_exhaustive()
    }
}

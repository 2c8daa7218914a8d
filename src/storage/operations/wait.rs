//! Waiting for a future on a thread that may wait.
//!
//! What the committer answers through needs no runtime, so neither do operations: they work in a plain program and
//! on a thread of a runtime alike.
//!
//! On such a thread tokio gives each task a number of steps, and lets everything of its own wait when they are used up,
//! until the task has given way. A thread that waits here does not give way, so it would wait forever: the budget does
//! not hold inside.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until the future is ready.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake-up that came since the poll is remembered: then this returns at once.
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Is ready whenever it is asked, or ends the test: whoever waited for it here would wait forever.
    struct AtOnce<F>(F);

    impl<F: Future + Unpin> Future for AtOnce<F> {
        type Output = F::Output;

        fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let polled = std::pin::Pin::new(&mut self.0).poll(context);
            assert!(polled.is_ready(), "the answer is there and is held back");
            polled
        }
    }

    /// The index of a store with some hundred missing rows was written anew from inside a runtime, and the call never
    /// came back: after 128 answers tokio held every further one back until the task gave way, which it could not.
    #[test]
    fn more_is_waited_for_than_a_task_has_budget() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for number in 0..1_000 {
                let (sender, receiver) = tokio::sync::oneshot::channel();
                sender.send(number).unwrap();
                assert_eq!(wait(AtOnce(receiver)), Ok(number));
            }
        });
    }
}

//! A commit that was handed over, and who has to hear of it.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::actor::lasting::{Errand, Lasting};
use crate::actor::shared::Shared;
use crate::storage::{Pending, Receipt, Result};

/// A commit on its way, and what is to be told when it is durable.
pub(crate) struct Handed<T> {
    pending: Pending,
    tell: Option<T>,
}

/// Waits until a commit is durable, and tells; also if whoever waits goes away. Whoever hands something over that others
/// have to hear of waits like this: once it was handed over, nobody can take it back.
pub(crate) fn handed_over<T>(shared: &Arc<Shared>, pending: Pending, tell: T) -> Lasting<Handed<T>>
where
    T: FnOnce(&Arc<Shared>) + Send + 'static,
{
    let tell = Some(tell);
    Lasting::new(shared, Handed { pending, tell })
}

impl<T: FnOnce(&Arc<Shared>) + Send + 'static> Errand for Handed<T> {
    type Output = Result<Receipt>;

    fn poll(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) -> Poll<Result<Receipt>> {
        let outcome = ready!(self.pending.poll_durable(context));
        if let (Ok(_), Some(tell)) = (&outcome, self.tell.take()) {
            tell(shared);
        }
        Poll::Ready(outcome)
    }

    fn goes_on(&mut self) -> bool {
        true
    }
}

//! The iterations that the code is in.
//!
//! A loop that is taken up again skips the iterations before the state that is recorded. What an iteration asked for in
//! the scope around it would not be asked for again then, so it is refused where it is first done. And the last
//! iteration that can be undone is gone through once more: that is the past, whatever comes after it.

use std::future::{Future, poll_fn};
use std::pin::pin;

use crate::engine::error::Misuse;
use crate::engine::journal::{Journal, SharedJournal};
use crate::location::Location;

/// Calls and awaits the body of an iteration. Whatever it asks for has to lie in the iteration.
pub(crate) async fn poll_inside<T, Fut: Future<Output = T>>(
    journal: &SharedJournal,
    iteration: &Location,
    body: impl FnOnce() -> Fut,
) -> T {
    let body = {
        let _inside = Inside::enter(journal, iteration);
        body()
    };
    let mut body = pin!(body);
    poll_fn(|cx| {
        let _inside = Inside::enter(journal, iteration);
        body.as_mut().poll(cx)
    })
    .await
}

/// While it lives, an iteration is being polled.
struct Inside<'a>(&'a SharedJournal);

impl<'a> Inside<'a> {
    fn enter(journal: &'a SharedJournal, iteration: &Location) -> Self {
        journal.lock().inside.push(iteration.clone());
        Self(journal)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.lock().inside.pop();
    }
}

/// While it lives, an iteration is gone through that is over.
#[derive(Debug)]
pub(crate) struct Again {
    journal: SharedJournal,
    iteration: Location,
}

impl Again {
    pub(crate) fn begin(journal: &SharedJournal, iteration: &Location) -> Self {
        journal.lock().again.push(iteration.clone());
        Self {
            journal: journal.clone(),
            iteration: iteration.clone(),
        }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let mut journal = self.journal.lock();
        journal.again.retain(|again| *again != self.iteration);
    }
}

impl Journal {
    /// What is asked for in an iteration lies in it.
    pub(crate) fn check_inside(&self, location: &Location) -> Result<(), Misuse> {
        match self.inside.last() {
            Some(iteration) if !location.is_at_or_below(iteration) => Err(Misuse::AroundLoop {
                iteration: self.names.path(iteration),
            }),
            _ => Ok(()),
        }
    }

    /// The iteration that is being polled, if a place lies outside of it.
    pub(crate) fn iteration_inside(&self, location: &Location) -> Option<Location> {
        let iteration = self.inside.last()?;
        (!location.is_at_or_below(iteration)).then(|| iteration.clone())
    }

    /// Whether a place lies in an iteration that is over and gone through once more.
    pub(crate) fn is_gone_through_again(&self, location: &Location) -> bool {
        self.again.iter().any(|iteration| location.is_at_or_below(iteration))
    }

    /// The code rests, and there is nothing left to deliver. An iteration that is over asks for nothing new.
    pub(crate) fn expect_nothing_again(&mut self) {
        if self.again.is_empty() {
            return;
        }
        let new = self.fresh.iter().find(|(at, _)| self.is_gone_through_again(at));
        match new.map(|(at, request)| (at.clone(), request.kind())) {
            Some((at, kind)) => self.diverge(&at, kind),
            None => self.diverge(&self.again[0].clone(), "loop that waits where it is over"),
        }
    }
}

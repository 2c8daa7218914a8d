//! The future behind every verb that waits: asks when it is first polled, then waits for its outcome.

use std::task::{Context, Poll};

use crate::engine::error::Misuse;
use crate::engine::journal::{Outcome, SharedJournal};
use crate::engine::request::Request;
use crate::engine::scope::Scope;
use crate::location::Location;
use crate::storage::payload::Codecs;
use crate::storage::record::{EntryKind, Failure};

/// Where an operation stands in its scope.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// At this name, which may occur once.
    Named(String),
    /// At the next place of this name.
    Next(&'static str),
}

/// One operation. Dropping it takes back what it asked for.
pub(crate) struct Operation {
    scope: Scope,
    place: Found,
    location: Option<Location>,
}

/// A place that has been looked for as far as it can be before the operation is asked for.
enum Found {
    Named(String),
    Numbered(Result<Location, Misuse>),
}

impl Operation {
    pub(crate) fn new(scope: Scope, place: Place) -> Self {
        // Numbers are given when operations are made: that is in the order of the code, whichever `select!` polls first.
        let place = match place {
            Place::Named(name) => Found::Named(name),
            Place::Next(name) => Found::Numbered(scope.journal().lock().locate_next(scope.location(), name)),
        };
        Self {
            scope,
            place,
            location: None,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    pub(crate) fn codecs(&self) -> &Codecs {
        self.scope.codecs()
    }

    /// Where the operation is, as people read it.
    pub(crate) fn path(&self) -> String {
        self.location
            .as_ref()
            .map_or_else(String::new, |location| self.scope.journal().lock().names.path(location))
    }

    /// Polls; `request` says what to ask for and is called once.
    pub(crate) fn poll_with(
        &mut self,
        cx: &Context<'_>,
        request: impl FnOnce() -> Result<Request, Misuse>,
    ) -> Poll<Result<EntryKind, Failure>> {
        let journal: SharedJournal = self.scope.journal().clone();
        let mut journal = journal.lock();
        if !journal.token().is_polled_here() {
            return Poll::Ready(Err(Misuse::OutsideWorkflow.into()));
        }
        if self.location.is_none() {
            let asked = request().and_then(|request| {
                let location = match &self.place {
                    Found::Named(name) => journal.locate(self.scope.location(), name),
                    Found::Numbered(location) => location.clone(),
                }?;
                journal.ask(&location, request, self.scope.is_shielded())?;
                Ok(location)
            });
            match asked {
                Ok(location) => self.location = Some(location),
                Err(misuse) => return Poll::Ready(Err(misuse.into())),
            }
        }
        let Some(location) = &self.location else {
            return Poll::Pending;
        };
        match journal.take(location, cx.waker()) {
            Some(Outcome::Entry(kind)) => Poll::Ready(Ok(kind)),
            Some(Outcome::Ended(failure)) => Poll::Ready(Err(failure.at(journal.names.path(location)))),
            None => Poll::Pending,
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(location) = &self.location {
            self.scope.journal().lock().drop_op(location);
        }
    }
}

//! The future behind every verb that waits: asks when it is first polled, then waits for its outcome.

use std::any::type_name;
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;

use crate::engine::error::Misuse;
use crate::engine::journal::{Journal, Outcome};
use crate::engine::request::{Request, Until};
use crate::engine::scope::Scope;
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::payload::{Codecs, Payload, PayloadError};
use crate::storage::record::{EntryKind, Failure};

/// Where an operation stands in its scope.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// At this name, which may occur once.
    Named(String),
    /// At the next place of this name.
    Next(&'static str),
    /// Here.
    At(Result<Location, Misuse>),
}

/// One operation. Dropping it takes back what it asked for.
pub(crate) struct Operation {
    scope: Scope,
    place: Found,
    location: Option<Location>,
    /// Whether its outcome was taken: there is nothing left to take back.
    over: bool,
    call_site: CallSite,
}

/// A place that has been looked for as far as it can be before the operation is asked for.
enum Found {
    Named(String),
    Numbered(Result<Location, Misuse>),
}

impl Operation {
    #[track_caller]
    pub(crate) fn new(scope: Scope, place: Place) -> Self {
        // Numbers are given when operations are made: that is in the order of the code, whichever `select!` polls first.
        let place = match place {
            Place::Named(name) => Found::Named(name),
            Place::At(location) => Found::Numbered(location),
            Place::Next(name) => Found::Numbered(scope.journal().lock().locate_next(scope.location(), name)),
        };
        Self {
            scope,
            place,
            location: None,
            over: false,
            call_site: std::panic::Location::caller(),
        }
    }

    /// The same operation, asked for by this part of the code.
    pub(crate) fn called_at(mut self, call_site: CallSite) -> Self {
        self.call_site = call_site;
        self
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether it was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.location.is_some()
    }

    /// The id of the child that this stands for, if it is recorded.
    pub(crate) fn child_id(&self) -> Option<String> {
        let location = self.location.as_ref()?;
        self.scope.journal().lock().child_at(location)
    }

    /// Whatever becomes of the child that this stands for, it is nobody's business here.
    pub(crate) fn let_child_go(&self) {
        if let Some(location) = &self.location {
            self.scope.journal().lock().let_child_go(location);
        }
    }

    /// What is recorded of it.
    pub(crate) fn recorded(&self) -> Option<EntryKind> {
        let location = self.location.as_ref()?;
        let journal = self.scope.journal().lock();
        journal.entries.get(location).map(|entry| entry.kind.clone())
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

    /// Reads what the code of this instance, or of its child, has recorded. If that can't be read, the code is not the
    /// code that it was recorded for.
    pub(crate) fn read<T: DeserializeOwned>(&self, recorded: &Payload) -> Result<T, Failure> {
        let read = self.codecs().unpack(recorded);
        read.map_err(|error| self.unreadable::<T>(error, true))
    }

    /// Reads what others have sent. That it is something else is their mistake; that its key is not known here is not.
    pub(crate) fn read_from_others<T: DeserializeOwned>(&self, sent: &Payload) -> Result<T, Failure> {
        let read = self.codecs().unpack(sent);
        read.map_err(|error| {
            let diverges = !matches!(error, PayloadError::Decode(_));
            self.unreadable::<T>(error, diverges)
        })
    }

    fn unreadable<T>(&self, error: PayloadError, diverges: bool) -> Failure {
        if diverges {
            self.diverge(&format!(
                "value of type {} there, which says: {error}",
                type_name::<T>()
            ));
        }
        Failure::from(error).at(self.path())
    }

    /// What is recorded of it is not what the code takes it for.
    pub(crate) fn diverge(&self, taken_for: &str) {
        if let Some(location) = &self.location {
            self.scope.journal().lock().diverge(location, taken_for);
        }
    }

    /// Polls; `request` says what to ask for and is called once, while nothing is locked: it may ask the code of users.
    pub(crate) fn poll_with(
        &mut self,
        cx: &Context<'_>,
        request: impl FnOnce() -> Result<Request, Misuse>,
    ) -> Poll<Result<EntryKind, Failure>> {
        if !self.scope.journal().is_polled_here() {
            return Poll::Ready(Err(Misuse::OutsideWorkflow.into()));
        }
        let request = self.location.is_none().then(request);
        let mut journal = self.scope.journal().lock();
        if let Some(request) = request {
            match request.and_then(|request| self.ask(&mut journal, request)) {
                Ok(location) => self.location = Some(location),
                // Whoever asks for more than it may gets no answer, or code that takes no notice of errors would ask for
                // ever.
                Err(_) if journal.is_refused() => return Poll::Pending,
                Err(misuse) => return Poll::Ready(Err(misuse.into())),
            }
        }
        let polled = self.poll_asked(&mut journal, cx);
        drop(journal);
        self.over |= polled.is_ready();
        polled
    }

    /// Asks for the operation. Gives the place where it stands.
    fn ask(&self, journal: &mut Journal, request: Request) -> Result<Location, Misuse> {
        let location = match &self.place {
            Found::Named(name) => journal.locate(self.scope.location(), name),
            Found::Numbered(location) => location.clone().and_then(|location| {
                // It may have been made in another scope than that in which it is awaited.
                journal.check_inside(&location).map(|()| location)
            }),
        };
        let location = match location {
            Ok(location) => location,
            Err(misuse) => {
                journal.bury(request);
                return Err(misuse);
            }
        };
        let checked = journal.bounds.check_scope(self.scope.count());
        // What is recorded was within the bounds of its time.
        if checked.is_err() && !journal.entries.contains_key(&location) {
            journal.within(checked);
        }
        journal.ask(&location, request, self.scope.is_shielded(), self.call_site)?;
        Ok(location)
    }

    /// Asks for an operation before it is awaited, and records it at once. Gives the number of its entry.
    pub(crate) fn begin(&mut self, request: Request, kind: EntryKind) -> Result<u64, Failure> {
        if !self.scope.journal().is_polled_here() {
            return Err(Misuse::OutsideWorkflow.into());
        }
        let mut journal = self.scope.journal().lock();
        let location = &*self.location.insert(self.ask(&mut journal, request)?);
        if !journal.entries.contains_key(location) {
            if let Some(ended) = journal.ended.clone().filter(|_| !self.scope.is_shielded()) {
                journal.told_of_end = true;
                return Err(ended.at(journal.names.path(location)));
            }
            journal.record(location, kind, None);
            // The code sees the number, and may tell it to others.
            journal.observed_undurable = true;
        }
        Ok(journal.entries[location].id)
    }

    /// Gives an operation that was begun a time at which it gives up.
    pub(crate) fn limit(&self, until: Until) {
        if let Some(location) = &self.location {
            self.scope.journal().lock().limit(location, until);
        }
    }

    /// Polls an operation that was begun.
    pub(crate) fn poll_begun(&mut self, cx: &Context<'_>) -> Poll<Result<EntryKind, Failure>> {
        if !self.scope.journal().is_polled_here() {
            return Poll::Ready(Err(Misuse::OutsideWorkflow.into()));
        }
        let mut journal = self.scope.journal().lock();
        let polled = self.poll_asked(&mut journal, cx);
        drop(journal);
        self.over |= polled.is_ready();
        polled
    }

    /// Whoever gets the outcome has to note that it is over.
    fn poll_asked(&self, journal: &mut Journal, cx: &Context<'_>) -> Poll<Result<EntryKind, Failure>> {
        let Some(location) = &self.location else {
            return Poll::Pending;
        };
        let Some(outcome) = journal.take(location, cx.waker()) else {
            return Poll::Pending;
        };
        Poll::Ready(match outcome {
            Outcome::Entry(kind) => Ok(kind),
            Outcome::Ended(failure) => Err(failure.at(journal.names.path(location))),
        })
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(location) = self.location.as_ref().filter(|_| !self.over) {
            self.scope.journal().lock().drop_op(location);
        }
    }
}

//! The journal as its futures and its execution share it, and what becomes of the code that they let go of.
//!
//! A closure may hold anything: a promise, a guard that publishes something when it goes. Dropping it runs the code of
//! users, which may come back to the journal. So while the journal is locked nothing of theirs is dropped: it is buried,
//! and goes when the lock is gone. That is not while the function runs, or its context would take what it says: a step that
//! has run lets go of its closure when it has ended, one that is replayed when it is asked for, and nobody may see the
//! difference.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::engine::journal::Journal;
use crate::engine::polling::{Token, poll_nothing};
use crate::engine::request::Request;
use crate::engine::undo::Undo;
use crate::location::Location;

/// Shared by the futures of a workflow and the execution that polls them.
#[derive(Debug, Clone)]
pub(crate) struct SharedJournal {
    /// That of the journal, which stays what it is.
    token: Token,
    journal: Arc<Mutex<Journal>>,
}

impl SharedJournal {
    pub(crate) fn new(journal: Journal) -> Self {
        Self::of(Arc::new(Mutex::new(journal)))
    }

    fn of(journal: Arc<Mutex<Journal>>) -> Self {
        let token = journal.lock().unwrap_or_else(PoisonError::into_inner).token();
        Self { token, journal }
    }

    /// Whether this thread is polling the function whose journal it is. Nothing is locked for that.
    pub(crate) fn is_polled_here(&self) -> bool {
        self.token.is_polled_here()
    }

    /// The journal for somebody who looks into it now and then, and does not keep it.
    pub(crate) fn downgrade(&self) -> Weak<Mutex<Journal>> {
        Arc::downgrade(&self.journal)
    }

    /// The journal again, if its instance still has it.
    pub(crate) fn upgrade(journal: &Weak<Mutex<Journal>>) -> Option<Self> {
        journal.upgrade().map(Self::of)
    }

    /// The journal. Never held while user code runs.
    pub(crate) fn lock(&self) -> Locked<'_> {
        Locked(Some(self.journal.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The journal, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Locked<'a>(Option<MutexGuard<'a, Journal>>);

impl Deref for Locked<'_> {
    type Target = Journal;

    fn deref(&self) -> &Journal {
        self.0.as_ref().expect("it is locked until it is dropped")
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Journal {
        self.0.as_mut().expect("it is locked until it is dropped")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let Some(buried) = self.0.as_mut().map(|journal| std::mem::take(&mut journal.buried)) else {
            return;
        };
        self.0 = None;
        if !buried.is_empty() {
            let _outside = poll_nothing();
            drop(buried);
        }
    }
}

/// Code of users that nobody needs any more.
#[derive(Debug)]
pub(crate) enum Buried {
    Request(#[expect(dead_code, reason = "it is kept to be dropped")] Request),
    Undo(#[expect(dead_code, reason = "it is kept to be dropped")] Undo),
}

impl From<Request> for Buried {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Undo> for Buried {
    fn from(undo: Undo) -> Self {
        Self::Undo(undo)
    }
}

impl Journal {
    /// Lets go of code that nobody needs any more, when the journal is unlocked.
    pub(crate) fn bury(&mut self, code: impl Into<Buried>) {
        self.buried.push(code.into());
    }

    /// Buries what was asked for and is not begun, as far as `goes` says so.
    pub(crate) fn bury_fresh(&mut self, goes: impl Fn(&Location) -> bool) {
        for (at, request) in self.fresh.extract_if(.., |(at, _)| goes(at)) {
            let had_row = request.has_row() && !self.entries.contains_key(&at);
            self.begun = self.begun.saturating_sub(usize::from(had_row));
            self.buried.push(request.into());
        }
    }
}

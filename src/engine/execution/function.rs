//! The live function: polled to rest, and watched for who wakes it.
//!
//! What a function awaits comes from its context. Something else (a timer of the executor, a channel that a step
//! writes to) would wake it at a moment that no replay could find again. It is noticed by who wakes: operations of the
//! context, and what parts of the function tell each other, wake during a poll or a delivery; the rest of the world
//! does not. Such a wait ends the instance with a misuse, as does one that nothing can ever end.
//!
//! It ends at once: whoever runs the instance is told of such a wake. And it ends whether the instance is left in memory
//! or not. A wake that comes when the function is gone finds nobody (a timer even goes with it), and what comes of the
//! function would depend on when it was dropped. So an instance whose function has handed out more wakers than its
//! operations have taken is not dropped for being idle. Nobody can tell whether it is a timer that has the other one or a
//! part of the function itself, a channel between two of them, so that alone is no misuse. It is a matter of idleness
//! only: whoever needs the place gets it, and a process that stops does not wait. The function is called again then, and
//! what it waits for begins anew.
//!
//! Two habits of the executor would look like that and are none of the code's business. A task of tokio has a budget,
//! and what it awaits is not ready when the budget is used up: the function is polled without one. And what yields with
//! `tokio::task::yield_now` is woken by the executor, after the poll. If the function waits for nothing else it is simply
//! polled again; if it does, nobody can tell the two apart, and that is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::unconstrained;
use tracing::{Dispatch, Span, dispatcher};

use crate::engine::divergence::Divergence;
use crate::engine::error::{Misuse, Result, WorkflowError};
use crate::engine::execution::{Execution, steps};
use crate::engine::journal::{Journal, SharedJournal};
use crate::engine::polling::Token;
use crate::limits::YIELDS_MAX;
use crate::storage::payload::Payload;
use crate::storage::record::{Failure, FailureKind};

impl Execution {
    /// Polls as far as it gets. A function that waits for what replay could not repeat, or that has become too large,
    /// has come to its end.
    pub(super) fn advance_or_refuse(&mut self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        let foreign = self.woken.foreign.load(Ordering::Acquire);
        let ended = self.advance()?;
        let mut journal = self.journal.lock();
        // The bounds of the past were perhaps other ones.
        if ended.is_none()
            && !journal.is_replaying()
            && let Some(exceeded) = journal.exceeded.take()
        {
            return Ok(Some(Err(Failure::from(exceeded).into())));
        }
        // What is left to deliver may be what it waits for.
        let full = journal.is_full();
        if foreign || (ended.is_none() && !journal.is_waiting() && !full) {
            return Ok(Some(Err(Failure::from(Misuse::ForeignWait).into())));
        }
        drop(journal);
        match ended {
            None if !full => self.has_failed_before(),
            ended => Ok(ended),
        }
    }

    /// Polls to rest, delivers the next completion, and so on until nothing is left to deliver.
    pub(crate) fn advance(&mut self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        let ended = self.go_on()?;
        if self.begin_again() { self.go_on() } else { Ok(ended) }
    }

    fn go_on(&mut self) -> Result<Option<Result<Payload, WorkflowError>>, Divergence> {
        let _polling = self.woken.token.poll_here();
        let mut yields = 0;
        // It may rest since the last turn, and nothing has woken it: then it would only say once more that it waits.
        let mut rests = !self.woken.has_to_be_polled();
        loop {
            let poll = if std::mem::take(&mut rests) {
                self.journal.lock().outlive_rest();
                Poll::Pending
            } else {
                self.poll_to_rest()
            };
            let mut journal = self.journal.lock();
            let poll = match journal.misused.clone() {
                Some(misuse) => Poll::Ready(Err(misuse.into())),
                None => poll,
            };
            if poll.is_ready() {
                journal.expect_nothing_unasked(true);
            } else if journal.is_idle() && yields < YIELDS_MAX {
                yields += 1;
                drop(journal);
                // Whoever holds the waker that it had was to wake it for this, and does not matter any more.
                self.woken = self.woken(self.woken.token);
                continue;
            } else if journal.is_refused() {
                // It goes no further, and what is delivered could make it ask for ever.
            } else if journal.divergence.is_none() && journal.deliver_next() {
                yields = 0;
                continue;
            } else if !journal.is_full() {
                journal.expect_nothing_unasked(false);
                journal.expect_nothing_given_up();
                journal.expect_nothing_again();
            }
            return match (journal.divergence.take(), poll) {
                (Some(divergence), _) => Err(divergence),
                (None, Poll::Ready(result)) => Ok(Some(result)),
                (None, Poll::Pending) => Ok(None),
            };
        }
    }

    /// At rest: pending, and not woken by itself meanwhile. A combinator that yields is polled again. A panic is the
    /// end of the function, with that failure.
    fn poll_to_rest(&mut self) -> Poll<Result<Payload, WorkflowError>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        let mut journal = self.journal.lock();
        journal.begin_poll();
        // Nothing is delivered before it rests.
        let silent = journal.is_silent();
        drop(journal);
        loop {
            self.woken.own.store(false, Ordering::Release);
            let span = (!silent).then(|| self.span());
            let mut poll = || Pin::new(&mut unconstrained(self.function.as_mut())).poll(&mut context);
            let function = AssertUnwindSafe(|| match span {
                Some(span) => span.in_scope(poll),
                // What the code has logged on its way here before, it does not log again.
                None => dispatcher::with_default(&Dispatch::none(), &mut poll),
            });
            match catch_unwind(function) {
                Ok(Poll::Pending) if self.woken.own.load(Ordering::Acquire) => {}
                Ok(poll) => return poll,
                Err(panic) => {
                    let failure = Failure::new(FailureKind::Panicked, steps::panic_text(&*panic));
                    return Poll::Ready(Err(failure.into()));
                }
            }
        }
    }

    /// Tells `nudge` whenever something from outside wakes the function: a turn is due then.
    pub(crate) fn tell_of_wakes(&mut self, nudge: Waker) {
        self.nudge = Some(nudge);
        self.woken = self.woken(self.woken.token);
    }

    /// Notices who wakes the function from now on.
    pub(super) fn woken(&self, token: Token) -> Arc<Woken> {
        Arc::new(Woken::new(token, self.nudge.clone()))
    }

    /// Whether something may be about to wake the function that is no operation of its context. Every operation that is
    /// waited for has one waker at most, and the execution has one itself.
    pub(crate) fn may_be_woken(&self) -> bool {
        Arc::strong_count(&self.woken) > 1 + self.journal.lock().wakers_max()
    }

    /// The span of this stay in memory. It begins when replay has caught up.
    pub(crate) fn span(&mut self) -> Span {
        let (origin, run) = (&self.origin, self.state.run);
        let instance = self.namespace.instance();
        let begin = || tracing::info_span!("instance", %instance, workflow = origin.workflow, run);
        self.span.get_or_insert_with(begin).clone()
    }

    /// Where the code is: a handle for whoever watches it from another thread.
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        Whereabouts(self.journal.clone())
    }
}

/// Where the code of an instance is, for whoever watches it.
#[derive(Debug, Clone)]
pub(crate) struct Whereabouts(SharedJournal);

impl Whereabouts {
    /// The path of what the code asked for last; none if it has asked for nothing yet. Safe to call while the function
    /// is being polled: the journal is never held while user code runs.
    pub(crate) fn last_asked(&self) -> Option<String> {
        let journal = self.0.lock();
        journal.last_asked.as_ref().map(|location| journal.names.path(location))
    }
}

impl Whereabouts {
    /// The same for whoever keeps it: it does not keep the code from being dropped where it should be.
    pub(crate) fn outside(&self) -> FromOutside {
        FromOutside(self.0.downgrade())
    }
}

/// Where the code of an instance is, for as long as that is in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct FromOutside(Weak<Mutex<Journal>>);

impl FromOutside {
    /// What the code waits for: paths and kinds.
    pub(crate) fn awaited(&self) -> Vec<(String, &'static str)> {
        SharedJournal::upgrade(&self.0).map_or_else(Vec::new, |journal| journal.lock().awaited())
    }
}

/// Notices who wakes the function.
#[derive(Debug)]
pub(super) struct Woken {
    token: Token,
    /// It has not been polled with this, or woke itself, or was woken by what was delivered to it.
    own: AtomicBool,
    /// It was woken from outside.
    foreign: AtomicBool,
    /// Who is told of that.
    nudge: Option<Waker>,
}

impl Woken {
    pub(super) fn new(token: Token, nudge: Option<Waker>) -> Self {
        Self {
            token,
            own: AtomicBool::new(true),
            foreign: AtomicBool::new(false),
            nudge,
        }
    }

    /// Whether the function may have something to say that it has not said when it rested.
    fn has_to_be_polled(&self) -> bool {
        self.own.load(Ordering::Acquire) || self.foreign.load(Ordering::Acquire)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.token.is_polled_here() {
            self.own.store(true, Ordering::Release);
        } else if !self.foreign.swap(true, Ordering::AcqRel)
            && let Some(nudge) = &self.nudge
        {
            nudge.wake_by_ref();
        }
    }
}

//! Steps: attempts, and what becomes of them.

use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Millis;
use crate::engine::attempt::Attempt;
use crate::engine::execution::{Begin, Execution, at};
use crate::engine::request::{StepOptions, StepRequest, Work};
use crate::limits::ATTEMPTS_KEPT_MAX;
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::{self, Attempts, EntryKind, Failure, FailureKind, StepOutcome};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    /// It returned.
    Returned(Result<Payload, Failure>),
    /// It took too long and was cancelled.
    TimedOut,
    /// It panicked with this message.
    Panicked(String),
}

impl AttemptEnd {
    /// The end of an attempt that was guarded against panics.
    pub(crate) fn of(returned: Result<Result<Payload, Failure>, Box<dyn std::any::Any + Send>>) -> Self {
        match returned {
            Ok(returned) => Self::Returned(returned),
            Err(panic) => Self::Panicked(panic_text(&*panic)),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&'static str>().copied());
    text.unwrap_or("no message").to_owned()
}

/// A step that the code waits for.
pub(crate) struct RunningStep {
    /// Shared with the attempt that is running: calling it is the attempt's own business.
    work: Arc<Mutex<Work>>,
    options: StepOptions,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// An attempt is running.
    Running { number: u32, since_ms: Millis },
    /// The next attempt is due then.
    Due { number: u32, at_ms: Millis },
}

impl RunningStep {
    /// When there is something to do, if nothing is running.
    pub(crate) fn due_at_ms(&self) -> Option<Millis> {
        match self.phase {
            Phase::Running { .. } => None,
            Phase::Due { at_ms, .. } => Some(at_ms),
        }
    }
}

impl Execution {
    pub(crate) fn begin_step(&mut self, location: &Location, request: StepRequest, now: Millis) {
        let id = self.journal.lock().entries.get(location).map(|entry| entry.id);
        let made = id.and_then(|id| self.attempts.get(&id));
        let count = made.map_or(0, |attempts| attempts.count);
        let due = made.and_then(|attempts| attempts.next_at_ms).unwrap_or(now);
        let StepRequest { work, options } = request;
        let number = count + 1;
        self.steps.insert(
            location.clone(),
            RunningStep {
                work: Arc::new(Mutex::new(work)),
                options,
                phase: Phase::Due { number, at_ms: due },
            },
        );
        // Attempts that ended with the process were not recorded by it.
        for _ in 0..self.crashes {
            self.attempt_failed(
                location,
                Failure::new(FailureKind::Panicked, "the process ended"),
                now,
                now,
            );
        }
    }

    pub(crate) fn begin_due_attempts(&mut self, now: Millis) {
        let (instance, run) = (self.namespace.instance().clone(), self.state.run);
        for (location, step) in &mut self.steps {
            let Phase::Due { number, at_ms } = step.phase else {
                continue;
            };
            if at_ms > now {
                continue;
            }
            let path = self.journal.lock().names.path(location);
            let attempt = Attempt {
                instance: instance.clone(),
                number,
                idempotency_key: format!("{instance}/{run}/{path}"),
            };
            step.phase = Phase::Running { number, since_ms: now };
            let work = Arc::clone(&step.work);
            let attempting = Box::pin(async move {
                // The closure is the user's code: where it is called it may block or panic.
                let attempting = (work.lock().unwrap_or_else(PoisonError::into_inner))(attempt);
                attempting.await
            });
            let timeout = step.options.timeout;
            self.held.push(Begin {
                location: location.clone(),
                path,
                number,
                attempting,
                timeout,
            });
        }
    }

    /// An attempt ended. One that is not the current attempt of a step that the code waits for is passed over.
    pub(crate) fn attempt_ended(&mut self, location: &Location, number: u32, end: AttemptEnd, now: Millis) {
        let Some(step) = self.steps.get(location) else {
            return;
        };
        let Phase::Running {
            number: current,
            since_ms,
        } = step.phase
        else {
            return;
        };
        if current != number {
            return;
        }
        let failure = match end {
            AttemptEnd::Returned(Ok(payload)) => {
                self.steps.remove(location);
                let outcome = StepOutcome::Completed(payload);
                self.finished.push((location.clone(), EntryKind::Step(Some(outcome))));
                return;
            }
            AttemptEnd::Returned(Err(failure)) => failure,
            AttemptEnd::TimedOut => Failure::timed_out("the attempt took too long"),
            AttemptEnd::Panicked(message) => Failure::new(FailureKind::Panicked, message),
        };
        self.attempt_failed(location, failure, since_ms, now);
    }

    /// Records a failed attempt; there is going to be another one, or the step has failed for good.
    fn attempt_failed(&mut self, location: &Location, failure: Failure, since_ms: Millis, now: Millis) {
        let Some(step) = self.steps.get_mut(location) else {
            return;
        };
        let number = match step.phase {
            Phase::Running { number, .. } | Phase::Due { number, .. } => number,
        };
        let path = self.journal.lock().names.path(location);
        let judged = match failure.kind {
            FailureKind::TimedOut if step.options.retry_on_timeout => Failure {
                kind: FailureKind::Error,
                ..failure.clone()
            },
            _ => failure.clone(),
        };
        let seed = xxh3_64(format!("{}\0{path}", self.namespace.instance()).as_bytes());
        let Some(wait) = step.options.retry.next(number, &judged, seed) else {
            self.steps.remove(location);
            let kind = if judged.is_retryable() {
                FailureKind::Exhausted
            } else {
                judged.kind
            };
            let failure = at(Failure { kind, ..failure }, path, number);
            self.finished
                .push((location.clone(), EntryKind::Step(Some(StepOutcome::Failed(failure)))));
            return;
        };
        let at_ms = now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(Millis::MAX));
        step.phase = Phase::Due {
            number: number + 1,
            at_ms,
        };
        let mut journal = self.journal.lock();
        if !journal.entries.contains_key(location) {
            journal.record(location, EntryKind::Step(None), None);
        }
        let id = journal.entries[location].id;
        drop(journal);
        let attempts = self.attempts.entry(id).or_insert_with(|| Attempts {
            failed: Vec::new(),
            count: 0,
            next_at_ms: None,
        });
        let duration_ms = now.saturating_sub(since_ms);
        attempts.failed.push(record::Attempt {
            number,
            started_at_ms: since_ms,
            duration_ms,
            failure,
        });
        let surplus = attempts.failed.len().saturating_sub(ATTEMPTS_KEPT_MAX);
        attempts.failed.drain(..surplus);
        attempts.count = number;
        attempts.next_at_ms = Some(at_ms);
        self.dirty_attempts.push(id);
    }
}

//! Steps: attempts, and what becomes of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::{Millis, whole_ms};
use crate::engine::attempt::{Attempt, AttemptId, Pulse};
use crate::engine::bounds::Warning;
use crate::engine::execution::Execution;
use crate::engine::execution::running::{Phase, RunningStep};
use crate::engine::incident::Consequence;
use crate::engine::journal::SharedJournal;
use crate::engine::request::{Attempting, StepRequest};
use crate::engine::retry::Next;
use crate::engine::witness::Call;
use crate::limits::{ATTEMPTS_KEPT_MAX, PROGRESS_EVERY};
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::{self, Attempts, Decided, EntryKind, Failure, FailureKind};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum AttemptEnd {
    /// It returned.
    Returned(Result<Payload, Failure>),
    /// It took too long and was cancelled.
    TimedOut,
    /// It gave no sign of life for this long.
    Silent(Duration),
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

/// An attempt to begin.
pub(crate) struct Begin {
    pub(crate) location: Location,
    /// What its end is told with.
    pub(crate) id: AttemptId,
    pub(crate) number: u32,
    pub(crate) attempting: Attempting,
    pub(crate) timeout: Option<Duration>,
    /// The longest silence.
    pub(crate) heartbeat: Option<Duration>,
    /// Whether it has to run where it may block. It is over when it was polled once.
    pub(crate) blocking: bool,
    /// The queue that it goes through, if not that of the workflow.
    pub(crate) queue: Option<Arc<str>>,
    /// How the attempt and those who watch it talk.
    pub(crate) pulse: Arc<Pulse>,
    /// Whether it may begin although what the code has seen is not durable.
    pub(super) ephemeral: bool,
    journal: SharedJournal,
}

impl Begin {
    /// The location as people read it.
    pub(crate) fn path(&self) -> String {
        self.journal.lock().names.path(&self.location)
    }
}

impl Execution {
    pub(crate) fn begin_step(&mut self, location: &Location, request: StepRequest, now: Millis) {
        let id = self.journal.lock().entries.get(location).map(|entry| entry.id);
        let made = id.and_then(|id| self.attempts.get(&id));
        let count = made.map_or(0, |attempts| attempts.count);
        let due = made.and_then(|attempts| attempts.next_at_ms);
        let StepRequest { work, options, .. } = request;
        let phase = Phase::Due {
            at_ms: due.unwrap_or(now),
        };
        let step = RunningStep {
            work: Arc::new(Mutex::new(work)),
            options,
            number: count + 1,
            phase,
        };
        self.steps.insert(location.clone(), Box::new(step));
        // Attempts that ended with the process were not recorded by it. An attempt whose time had not come when the
        // last commit was made had not begun either: its beginning would have been another commit.
        if self.crashed.has(location) && due.is_none_or(|due| due <= self.state.updated_at_ms) {
            // It began when what it follows from was durable, or when it was due. When the process died nobody knows.
            let began = due.unwrap_or_default().max(self.state.updated_at_ms).min(now);
            let failure = Failure::new(FailureKind::Crashed, "the process ended");
            self.attempt_failed(location, failure, (began, now.saturating_sub(began)), now);
        }
    }

    pub(crate) fn begin_due_attempts(&mut self, now: Millis) {
        while let Some((location, mut step)) = self.steps.take_due(now) {
            let number = step.number;
            let pulse = Arc::new(Pulse::new(Arc::clone(&self.beats)));
            let progress = if self.attempts.is_empty() {
                None
            } else {
                let id = self.journal.lock().entries.get(&location).map(|entry| entry.id);
                let made = id.and_then(|id| self.attempts.get(&id));
                made.and_then(|attempts| attempts.progress.clone())
            };
            let (facts, journal) = (Arc::clone(&self.facts), self.journal.clone());
            let attempt = Attempt::new(facts, journal, location.clone(), number, progress, Arc::clone(&pulse));
            let witnessed = self.definition.witness.clone().map(|witness| {
                let call = self.call(&location, &step);
                (witness, call)
            });
            let stands_in = witnessed
                .as_ref()
                .is_some_and(|(witness, call)| witness.stands_in(call));
            let work = Arc::clone(&step.work);
            let beginning = Arc::clone(&pulse);
            let attempting: Attempting = Box::pin(async move {
                if !beginning.begin() {
                    return Err(Failure::cancelled("the instance was held before the attempt began"));
                }
                if let Some(instead) = witnessed.and_then(|(witness, call)| witness.begin(call)) {
                    return instead.await;
                }
                // The closure is the user's code: where it is called it may block or panic.
                let attempting = work.lock().unwrap_or_else(PoisonError::into_inner).begin(attempt);
                attempting.await
            });
            let id = AttemptId::new();
            step.phase = Phase::Running {
                id,
                since_ms: now,
                pulse: Arc::clone(&pulse),
                saved_at_ms: None,
            };
            self.held.push(Begin {
                location: location.clone(),
                id,
                number,
                attempting,
                timeout: step.options.timeout,
                heartbeat: step.options.heartbeat,
                // What stands in for work that blocks does not block.
                blocking: step.options.blocking && !stands_in,
                queue: step.options.queue.clone(),
                pulse,
                ephemeral: step.options.ephemeral,
                journal: self.journal.clone(),
            });
            self.steps.insert(location, step);
        }
    }

    /// What is called for the next attempt at a step.
    fn call(&self, location: &Location, step: &RunningStep) -> Call {
        let path = self.journal.lock().names.path(location);
        let mut work = step.work.lock().unwrap_or_else(PoisonError::into_inner);
        Call {
            instance: self.namespace.instance().clone(),
            run: self.state.run,
            path,
            attempt: step.number,
            activity: work.activity,
            input: work.input(),
        }
    }

    /// Takes back the attempts whose code has not been called: those that wait for their turn, or that nobody has got round
    /// to yet. They are due as soon as the instance goes on, whatever the clock says by then. Those that wait for a commit
    /// have not been let go in the first place.
    pub(crate) fn take_back_attempts(&mut self) -> Vec<Location> {
        let held = &self.held;
        let waits = |(location, step): (&Location, &mut RunningStep)| match &step.phase {
            Phase::Running { id, pulse, .. } if held.iter().all(|begin| begin.id != *id) && pulse.take_back() => {
                Some(location.clone())
            }
            _ => None,
        };
        let back: Vec<_> = self.steps.running().filter_map(waits).collect();
        for location in &back {
            if let Some(mut step) = self.steps.remove(location) {
                step.phase = Phase::Due { at_ms: 0 };
                self.steps.insert(location.clone(), step);
            }
        }
        back
    }

    /// Forgets a step that nobody waits for any more. Tells whether an attempt has to be cancelled.
    pub(crate) fn abandon(&mut self, location: &Location) -> bool {
        let Some(step) = self.steps.remove(location) else {
            return false;
        };
        self.held.retain(|begin| begin.location != *location);
        step.cancel();
        true
    }

    /// Keeps what running attempts have said of their progress, so that it survives the process.
    pub(crate) fn save_progress(&mut self, now: Millis) {
        if !Pulse::take_news(&self.beats) {
            return;
        }
        let every = whole_ms(PROGRESS_EVERY);
        let mut said = Vec::new();
        let mut early = false;
        for (location, step) in self.steps.running() {
            let Phase::Running { pulse, saved_at_ms, .. } = &mut step.phase else {
                continue;
            };
            if saved_at_ms.is_some_and(|saved| now < saved.saturating_add(every)) {
                early = true;
            } else if let Some(progress) = pulse.take_progress() {
                *saved_at_ms = Some(now);
                said.push((location.clone(), progress));
            }
        }
        if early {
            Pulse::tell_news(&self.beats);
        }
        for (location, progress) in said {
            self.attempts_at(&location).progress = Some(progress);
        }
    }

    /// An attempt ended. One that is not the current attempt of a step that the code waits for is passed over.
    pub(crate) fn attempt_ended(&mut self, location: &Location, ended: AttemptId, end: AttemptEnd, now: Millis) {
        let Some(Phase::Running {
            id, since_ms, pulse, ..
        }) = self.steps.get(location).map(|step| &step.phase)
        else {
            return;
        };
        if *id != ended {
            return;
        }
        let pulse = Arc::clone(pulse);
        let (began, took) = pulse.measured().unwrap_or((*since_ms, now.saturating_sub(*since_ms)));
        let failure = match end {
            AttemptEnd::Returned(Ok(payload)) => {
                self.weigh(location, payload.bytes.len());
                self.attempt_succeeded(location, began, took);
                self.step_ended(location, Decided::Completed(payload));
                return;
            }
            AttemptEnd::Returned(Err(failure)) => failure,
            AttemptEnd::TimedOut => Failure::timed_out("the attempt took too long"),
            AttemptEnd::Silent(silence) => Failure::new(
                FailureKind::Silent,
                format!("the attempt gave no sign of life for {silence:?}"),
            ),
            AttemptEnd::Panicked(message) => Failure::new(FailureKind::Panicked, message),
        };
        if let Some(progress) = pulse.take_progress() {
            self.attempts_at(location).progress = Some(progress);
        }
        self.attempt_failed(location, failure.bounded(), (began, took), now);
    }

    /// Keeps which attempt it was that succeeded. It goes with the result, into the same row.
    fn attempt_succeeded(&mut self, location: &Location, started_at_ms: Millis, duration_ms: Millis) {
        if let Some(step) = self.steps.get(location) {
            let number = step.number;
            let ran = record::Ran {
                number,
                started_at_ms,
                duration_ms,
            };
            self.journal.lock().succeeded(location.clone(), ran);
        }
    }

    /// A step is over: that becomes durable with the next commit.
    fn step_ended(&mut self, location: &Location, decided: Decided) {
        let Some(step) = self.steps.remove(location) else {
            return;
        };
        let ended = (location.clone(), EntryKind::Step(Some(decided)));
        // The end of an undoing is stored before the next one begins, whatever it was asked to be.
        if step.options.ephemeral && self.undoing.is_none() {
            self.ephemeral.push(ended);
        } else {
            self.finished.push(ended);
        }
    }

    fn weigh(&mut self, location: &Location, bytes: usize) {
        let bounds = &self.facts.bounds;
        if bytes > bounds.payload_bytes_warn {
            let max = bounds.payload_bytes_max;
            let path = self.journal.lock().names.path(location);
            self.warnings.push(Warning::Payload { path, bytes, max });
        }
    }

    /// Records a failed attempt; there is going to be another one, or the step has failed for good.
    fn attempt_failed(&mut self, location: &Location, failure: Failure, ran: (Millis, Millis), now: Millis) {
        let Some(mut step) = self.steps.remove(location) else {
            return;
        };
        let number = step.number;
        let path = self.journal.lock().names.path(location);
        let retryable = match failure.kind {
            FailureKind::TimedOut => step.options.retry_on_timeout,
            _ => failure.is_retryable(),
        };
        let seed = xxh3_64(format!("{}\0{path}", self.namespace.instance()).as_bytes());
        let next = if retryable {
            step.options.retry.next(number, &failure, seed)
        } else {
            Next::NotWorthIt
        };
        let failure = failure.at(path).after(number);
        let wait = match next {
            Next::After(wait) => wait,
            Next::Exhausted | Next::NotWorthIt => {
                let kind = match next {
                    Next::Exhausted => FailureKind::Exhausted,
                    // What a predicate refused is as critical as what the code says is.
                    _ if retryable => FailureKind::Critical,
                    _ => failure.kind,
                };
                self.keep_attempt(location, number, failure.clone(), ran);
                let failure = failure.of_kind(kind);
                self.report(failure.clone(), Consequence::StepFailed);
                self.steps.insert(location.clone(), step);
                self.step_ended(location, Decided::Failed(failure));
                return;
            }
        };
        let at_ms = now.saturating_add(whole_ms(wait));
        self.report(failure.clone(), Consequence::Retry { at_ms });
        step.number = number + 1;
        step.phase = Phase::Due { at_ms };
        self.steps.insert(location.clone(), step);
        self.keep_attempt(location, number, failure, ran);
        let attempts = self.attempts_at(location);
        attempts.count = number;
        attempts.next_at_ms = Some(at_ms);
    }

    /// Keeps how an attempt failed. It may be there already: the end of a step may be too much for the commit that stored
    /// the last attempt at it, and when the process dies in between that attempt is made again.
    fn keep_attempt(&mut self, location: &Location, number: u32, failure: Failure, (began, took): (Millis, Millis)) {
        let failed = &mut self.attempts_at(location).failed;
        failed.retain(|attempt| attempt.number != number);
        failed.push(record::Attempt {
            number,
            started_at_ms: began,
            duration_ms: took,
            failure,
        });
        let surplus = failed.len().saturating_sub(ATTEMPTS_KEPT_MAX);
        failed.drain(..surplus);
    }

    /// What is kept about the attempts at a step, to be changed. A step that is not recorded yet is recorded as begun.
    fn attempts_at(&mut self, location: &Location) -> &mut Attempts {
        let mut journal = self.journal.lock();
        if !journal.entries.contains_key(location) {
            journal.record(location, EntryKind::Step(None), None);
        }
        let id = journal.entries[location].id;
        drop(journal);
        if self.dirty_attempts.last() != Some(&id) {
            self.dirty_attempts.push(id);
        }
        self.attempts.entry(id).or_insert_with(|| Attempts {
            failed: Vec::new(),
            count: 0,
            next_at_ms: None,
            progress: None,
        })
    }
}

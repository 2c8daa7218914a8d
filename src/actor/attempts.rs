//! The running attempts of one resident.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{Instrument, Span};

use crate::actor::attempt;
use crate::actor::shared::Shared;
use crate::actor::watchdog::{At, Watch};
use crate::clock::{Clock, Stopwatch};
use crate::engine::{AttemptEnd, AttemptId, Begin, Pulse};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::scheduler::{Permit, Ticket, Turnstile};
use crate::spawn;
use crate::storage::FlightSlot;
use crate::storage::record::Priority;
use crate::telemetry;

/// What the attempts of a resident are counted for.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    pub(crate) priority: Priority,
    pub(crate) workflow: Arc<str>,
    /// The queue of the workflow, if it has one.
    pub(crate) queue: Option<&'static str>,
}

/// What a running attempt tells.
pub(crate) enum Told {
    /// It has ended; with nothing if it was cancelled.
    Ended(Location, AttemptId, Option<AttemptEnd>),
    /// It has told of its progress.
    Progress,
}

/// The running attempts of one resident. They are cancelled when this is dropped.
pub(crate) struct Attempts {
    watch: Arc<Watch>,
    clock: Arc<dyn Clock>,
    /// In the order in which they began, which is that in which they are cancelled: whoever waits for their places comes
    /// in that order too.
    running: BTreeMap<AttemptId, Running>,
    turnstile: Arc<Turnstile>,
    /// What its attempts are counted for, unless they say otherwise.
    lane: Lane,
    told: mpsc::UnboundedSender<Told>,
    tellings: mpsc::UnboundedReceiver<Told>,
    /// Whether one of them has told of its progress and that was not looked at yet.
    progress: Arc<AtomicBool>,
}

/// An attempt that is about to begin.
pub(crate) struct Entering {
    pub(crate) attempt: Begin,
    ticket: Ticket,
    /// What it needs to run; without it, it has to wait.
    permit: Option<Permit>,
}

impl Entering {
    pub(crate) fn has_to_wait(&self) -> bool {
        self.permit.is_none()
    }
}

/// An attempt that was begun and has not told its end.
struct Running {
    task: AbortHandle,
    pulse: Arc<Pulse>,
}

impl Attempts {
    pub(crate) fn new(shared: &Shared, lane: Lane) -> Self {
        // Bounded all the same: an end for each running attempt, and one for all heartbeats that were not looked at yet.
        let (told, tellings) = mpsc::unbounded_channel();
        Self {
            watch: Arc::clone(&shared.watch),
            clock: Arc::clone(&shared.clock),
            running: BTreeMap::new(),
            turnstile: Arc::clone(&shared.turnstile),
            lane,
            told,
            tellings,
            progress: Arc::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What an attempt needs to run, if it need not wait for it.
    pub(crate) fn enter(&self, attempt: Begin) -> Entering {
        let Lane {
            priority,
            workflow,
            queue,
        } = &self.lane;
        let queue = attempt.queue.as_deref().or(*queue);
        let ticket = self.turnstile.ticket(*priority, workflow, queue);
        Entering {
            permit: self.turnstile.pass_at_once(&ticket),
            attempt,
            ticket,
        }
    }

    /// Runs an attempt in a task of its own: a slow, blocking or panicking one harms nobody else. If it has to wait for
    /// its turn, its time begins when that comes, and it is recorded then.
    pub(crate) fn begin(&mut self, instance: &InstanceId, span: &Span, entering: Entering, flight: Weak<FlightSlot>) {
        let Entering {
            attempt,
            ticket,
            permit,
        } = entering;
        let (id, pulse) = (attempt.id, Arc::clone(&attempt.pulse));
        let mut telling = Telling {
            told: self.told.clone(),
            progress: Arc::clone(&self.progress),
            ends: Some((attempt.location.clone(), id)),
        };
        let (turnstile, workflow) = (Arc::clone(&self.turnstile), Arc::clone(&self.lane.workflow));
        let path = attempt.path();
        let span = tracing::info_span!(parent: span, "attempt", step = path, number = attempt.number);
        let attempt = self.watched(instance, path, attempt);
        let clock = Arc::clone(&self.clock);
        let task = async move {
            let (pulse, watch) = (Arc::clone(&attempt.pulse), Stopwatch::start());
            let pass = async {
                match permit {
                    Some(permit) => permit,
                    None => {
                        let permit = turnstile.pass(ticket).await;
                        if let Some(flight) = flight.upgrade() {
                            flight.begins_now(id.number(), &attempt.location);
                        }
                        permit
                    }
                }
            };
            let end = tokio::select! {
                // In this order: whoever is cancelled together with the one that it waits for does not begin.
                biased;
                () = pulse.cancelled() => None,
                permit = pass => {
                    telemetry::attempt_began(&workflow, watch.elapsed());
                    let watch = Stopwatch::start();
                    let began = || pulse.measure_from(clock.now_ms());
                    let end = attempt::run(attempt, permit, began, || telling.beat()).await;
                    pulse.measure_end();
                    telemetry::attempt_ended(&workflow, outcome(end.as_ref()), watch.elapsed());
                    end
                }
            };
            telling.end(end);
        };
        let task = spawn::task(task.instrument(span)).abort_handle();
        self.running.insert(id, Running { task, pulse });
    }

    /// The same attempt, named by the watchdog when it runs for long without awaiting anything. What blocks where it may
    /// is nobody's concern.
    fn watched(&self, instance: &InstanceId, path: String, mut attempt: Begin) -> Begin {
        if attempt.blocking {
            return attempt;
        }
        let (watch, instance, workflow) = (
            Arc::clone(&self.watch),
            instance.clone(),
            Arc::clone(&self.lane.workflow),
        );
        let (mut attempting, path) = (attempt.attempting, Arc::from(path));
        attempt.attempting = Box::pin(std::future::poll_fn(move |context| {
            let at = At::Step(Arc::clone(&path));
            let _watched = watch.poll(&instance, &workflow, at);
            attempting.as_mut().poll(context)
        }));
        attempt
    }

    /// Waits until an attempt tells something.
    pub(crate) async fn told(&mut self) -> Told {
        let told = self.tellings.recv().await.expect("this side has a sender too");
        self.hear(told)
    }

    /// What an attempt has told already.
    pub(crate) fn try_told(&mut self) -> Option<Told> {
        let told = self.tellings.try_recv().ok()?;
        Some(self.hear(told))
    }

    fn hear(&mut self, told: Told) -> Told {
        match &told {
            Told::Ended(_, id, _) => drop(self.running.remove(id)),
            // Before anybody looks at it: what is told from here on is told again.
            Told::Progress => self.progress.store(false, Ordering::Release),
        }
        told
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        for Running { task, pulse } in self.running.values() {
            task.abort();
            // A thread can't be aborted. It can ask.
            pulse.cancel();
        }
    }
}

/// Tells of an attempt. Whatever becomes of its task, its end is told: a step must not wait for one that is gone.
struct Telling {
    told: mpsc::UnboundedSender<Told>,
    progress: Arc<AtomicBool>,
    ends: Option<(Location, AttemptId)>,
}

impl Telling {
    fn beat(&self) {
        if !self.progress.swap(true, Ordering::AcqRel) {
            let _ = self.told.send(Told::Progress);
        }
    }

    fn end(&mut self, end: Option<AttemptEnd>) {
        if let Some((location, id)) = self.ends.take() {
            // A pump that is gone has no use for it: the attempt is made again when the instance is next activated.
            let _ = self.told.send(Told::Ended(location, id, end));
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.end(Some(AttemptEnd::Panicked("the task of the attempt ended".into())));
    }
}

/// How an attempt ended, in a word.
fn outcome(end: Option<&AttemptEnd>) -> &'static str {
    match end {
        None => "cancelled",
        Some(AttemptEnd::Returned(Ok(_))) => "ok",
        Some(AttemptEnd::Returned(Err(_))) => "failed",
        Some(AttemptEnd::TimedOut) => "timed out",
        Some(AttemptEnd::Silent(_)) => "silent",
        Some(AttemptEnd::Panicked(_)) => "panicked",
    }
}

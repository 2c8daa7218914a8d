//! The running attempts of one resident.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::{Instrument, Span};

use crate::actor::attempt;
use crate::actor::shared::Shared;
use crate::actor::watchdog::{At, Watch};
use crate::clock::Stopwatch;
use crate::engine::{AttemptEnd, AttemptId, Begin};
use crate::ids::InstanceId;
use crate::location::Location;
use crate::scheduler::Turnstile;
use crate::spawn;
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
    running: HashMap<AttemptId, AbortHandle>,
    turnstile: Arc<Turnstile>,
    /// What its attempts are counted for, unless they say otherwise.
    lane: Lane,
    told: mpsc::UnboundedSender<Told>,
    tellings: mpsc::UnboundedReceiver<Told>,
}

impl Attempts {
    pub(crate) fn new(shared: &Shared, lane: Lane) -> Self {
        // One message for each running attempt, and one for each heartbeat that was not looked at yet.
        let (told, tellings) = mpsc::unbounded_channel();
        Self {
            watch: Arc::clone(&shared.watch),
            running: HashMap::new(),
            turnstile: Arc::clone(&shared.turnstile),
            lane,
            told,
            tellings,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Runs an attempt in a task of its own: a slow, blocking or panicking one harms nobody else. It waits for its
    /// turn first; its time begins when that comes.
    pub(crate) fn begin(&mut self, instance: &InstanceId, span: &Span, attempt: Begin) {
        let (id, location) = (attempt.id, attempt.location.clone());
        let (told, beating) = (self.told.clone(), self.told.clone());
        let Lane {
            priority,
            workflow,
            queue,
        } = &self.lane;
        let queue = attempt.queue.as_deref().or(*queue);
        let (turnstile, ticket) = (
            Arc::clone(&self.turnstile),
            self.turnstile.ticket(*priority, workflow, queue),
        );
        let path = attempt.path();
        let span = tracing::info_span!(parent: span, "attempt", step = path, number = attempt.number);
        let workflow = Arc::clone(workflow);
        let attempt = self.watched(instance, path, attempt);
        let task = async move {
            let (pulse, watch) = (Arc::clone(&attempt.pulse), Stopwatch::start());
            let end = tokio::select! {
                // In this order: whoever is cancelled together with the one that it waits for does not begin.
                biased;
                () = pulse.cancelled() => None,
                permit = turnstile.pass(ticket) => {
                    telemetry::attempt_began(&workflow, watch.elapsed());
                    let watch = Stopwatch::start();
                    let end = attempt::run(attempt, permit, || drop(beating.send(Told::Progress))).await;
                    telemetry::attempt_ended(&workflow, outcome(end.as_ref()), watch.elapsed());
                    end
                }
            };
            // A pump that is gone has no use for it: the attempt is made again when the instance is next activated.
            let _ = told.send(Told::Ended(location, id, end));
        };
        let task = spawn::task(task.instrument(span));
        self.running.insert(id, task.abort_handle());
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
        if let Told::Ended(_, id, _) = &told {
            self.running.remove(id);
        }
        told
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.running.values().for_each(AbortHandle::abort);
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

//! What an operation asks for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::{Millis, whole_ms};
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::attempt::Attempt;
use crate::engine::derived;
use crate::engine::retry::Retry;
use crate::engine::undo::Undo;
use crate::ids::InstanceId;
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, Content, Entry, EntryKind, Failure, Flow};

/// An attempt at a step that is running.
pub(crate) type Attempting = Pin<Box<dyn Future<Output = Result<Payload, Failure>> + Send>>;

/// The work of a step: makes one attempt after the other.
pub(crate) struct Work {
    begin: Box<dyn FnMut(Attempt) -> Attempting + Send>,
    /// The name of the activity, if it is one.
    pub(crate) activity: Option<&'static str>,
    /// What it is called with, as it is stored, where that is known.
    input: Option<Box<dyn FnMut() -> Option<Payload> + Send>>,
}

impl Work {
    pub(crate) fn new(begin: impl FnMut(Attempt) -> Attempting + Send + 'static) -> Self {
        Self {
            begin: Box::new(begin),
            activity: None,
            input: None,
        }
    }

    /// The same work, which is an activity.
    pub(crate) fn of_activity(mut self, name: &'static str) -> Self {
        self.activity = Some(name);
        self
    }

    /// The same work, which can tell what it is called with.
    pub(crate) fn called_with(mut self, input: impl FnMut() -> Option<Payload> + Send + 'static) -> Self {
        self.input = Some(Box::new(input));
        self
    }

    /// Begins an attempt.
    pub(crate) fn begin(&mut self, attempt: Attempt) -> Attempting {
        (self.begin)(attempt)
    }

    /// What it is called with, where that is known.
    pub(crate) fn input(&mut self) -> Option<Payload> {
        self.input.as_mut().and_then(|input| input())
    }
}

/// A step that has to run.
pub(crate) struct StepRequest {
    pub(crate) work: Work,
    pub(crate) options: StepOptions,
    /// How it is undone. The journal keeps it from the moment that the step is asked for.
    pub(crate) undo: Option<Undo>,
}

/// How a step is run.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepOptions {
    pub(crate) retry: Retry,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry_on_timeout: bool,
    /// The longest silence of an attempt.
    pub(crate) heartbeat: Option<Duration>,
    /// Stored with the next commit instead of one of its own.
    pub(crate) ephemeral: bool,
    /// Has to run where it may block.
    pub(crate) blocking: bool,
    /// The queue that attempts go through, if not that of the workflow.
    pub(crate) queue: Option<Arc<str>>,
}

impl StepOptions {
    /// As people read it: what is set, and what two runs of the same code set alike.
    fn text(&self) -> String {
        let timeout = self
            .timeout
            .map_or_else(String::new, |timeout| format!(", timeout {timeout:?}"));
        format!("{} attempts{timeout}", self.retry.attempts)
    }
}

/// What an operation asks for.
pub(crate) enum Request {
    /// Run a step.
    Step(StepRequest),
    /// Wait.
    Sleep(Until),
    /// Take messages with one of these names.
    Receive(ReceiveRequest),
    /// Wait for something that is decided elsewhere.
    Outside(OutsideRequest),
    /// Wait for something that was begun before, and not for ever.
    Limit(Until),
    /// Send a message to another instance.
    Send(SendRequest),
    /// Start a child.
    Child(ChildRequest),
    /// Publish an event.
    Publish(PublishRequest),
    /// Wait for an event with this name.
    Event(&'static str, Option<Until>),
    /// Nothing but to be recorded: what it is about is asked for beside it.
    Begun(EntryKind),
}

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// This long from the moment that the wait is recorded.
    After(Duration),
    /// Until this time.
    At(Millis),
}

impl Until {
    /// Until a time, as people have it. One that has passed is as good as now; one that is further from now than the
    /// longest wait is a mistake.
    pub(crate) fn time(time: SystemTime, now_ms: Millis) -> Result<Self, InvalidDuration> {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        since_epoch
            .saturating_sub(Duration::from_millis(now_ms))
            .into_duration()?;
        Ok(Self::At(whole_ms(since_epoch)))
    }

    /// As people read it.
    fn text(self) -> String {
        match self {
            Self::After(wait) => format!(" for {wait:?}"),
            Self::At(at_ms) => format!(" until {at_ms}"),
        }
    }

    pub(crate) fn at_ms(self, now: Millis) -> Millis {
        match self {
            Self::After(wait) => now.saturating_add(whole_ms(wait)),
            Self::At(at) => at,
        }
    }
}

/// Which messages to take.
#[derive(Debug, Clone)]
pub(crate) struct ReceiveRequest {
    pub(crate) names: Vec<&'static str>,
    /// At least one, at most this many.
    pub(crate) most: usize,
    pub(crate) until: Option<Until>,
}

/// Something that is decided elsewhere.
#[derive(Debug, Clone)]
pub(crate) struct OutsideRequest {
    /// The entry, as it is recorded before anything is decided: a child, an event, a promise.
    pub(crate) kind: EntryKind,
    pub(crate) until: Option<Until>,
}

/// A message to another instance.
#[derive(Debug, Clone)]
pub(crate) struct SendRequest {
    pub(crate) to: InstanceId,
    pub(crate) content: Content,
    pub(crate) dead_letter: bool,
}

impl SendRequest {
    /// Whether a message to this instance can be the one that is asked for. A child whose id follows from its place may
    /// have been closed and started once more by a reset, under another id.
    fn is_to(&self, instance: &str) -> bool {
        self.to.as_str() == instance || (derived::is_id(self.to.as_str()) && derived::is_id(instance))
    }

    /// The name by which it is received, or what else people call it.
    pub(crate) fn name(&self) -> &str {
        match &self.content {
            Content::Told { name, .. } => name,
            Content::Settled { .. } => "settled",
            _ => "cancel",
        }
    }
}

/// An event to publish.
#[derive(Debug, Clone)]
pub(crate) struct PublishRequest {
    pub(crate) topic: &'static str,
    pub(crate) payload: Payload,
    pub(crate) to_one: bool,
    pub(crate) keep_ms: Millis,
}

/// A child to start.
#[derive(Debug)]
pub(crate) struct ChildRequest {
    pub(crate) state: ChildState,
    /// Whether the code says which id it has; if not, the id follows from the place, and from the run.
    pub(crate) named: bool,
    pub(crate) version: u32,
    pub(crate) input: Payload,
    /// How it is undone. The journal keeps it from the moment that the child is asked for.
    pub(crate) undo: Option<Undo>,
    pub(crate) manner: Manner,
}

impl ChildRequest {
    /// Whether a child with this id can be the one that is asked for. An id that follows from the place is another one
    /// in another run, and a reset keeps those of the run before.
    fn is_of(&self, instance: &str) -> bool {
        if self.named {
            return self.state.instance == instance;
        }
        derived::is_id(instance)
    }
}

/// What else is said of a child.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manner {
    /// Whether the parent is told of its end although it does not wait for it.
    pub(crate) tells_its_end: bool,
    pub(crate) tags: Vec<(String, String)>,
    /// How long it may take.
    pub(crate) deadline: Option<Duration>,
    /// How it is let in.
    pub(crate) flow: Box<Flow>,
}

impl Request {
    /// How much it puts into the outbox, if it does.
    pub(crate) fn outgoing_bytes(&self) -> Option<usize> {
        match self {
            Self::Step(_) | Self::Sleep(_) | Self::Receive(_) | Self::Outside(_) | Self::Limit(_) => None,
            Self::Begun(_) | Self::Event(..) => Some(0),
            Self::Publish(request) => Some(request.payload.bytes.len()),
            Self::Send(request) => Some(request.content.bytes()),
            Self::Child(request) => Some(request.input.bytes.len()),
        }
    }

    /// Whether the next commit has a row for it: a step has one when it has ended, and a wait that never gives up when it took
    /// something.
    pub(crate) fn has_row(&self) -> bool {
        match self {
            Self::Step(_) | Self::Limit(_) => false,
            Self::Receive(request) => request.until.is_some(),
            _ => true,
        }
    }

    /// What people call it; the same word as the entry has that it will become.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Step(_) => "step",
            Self::Sleep(_) => "sleep",
            Self::Receive(_) => "receive",
            Self::Outside(request) => request.kind.name(),
            Self::Limit(_) => "limit",
            Self::Send(_) => "send",
            Self::Child(_) => "child",
            Self::Publish(_) => "publish",
            Self::Event(..) => "event",
            Self::Begun(kind) => kind.name(),
        }
    }
}

impl Request {
    /// Whether what is recorded can be what this asked for. Places that are numbered say little, so what is told apart by
    /// nothing else is compared: whom a message is for and what it is, the topic of an event, the id of a child. A wait
    /// has taken nothing but messages that it waits for, and a child whose end the code waits for was not let go.
    pub(crate) fn takes(&self, recorded: &Entry) -> bool {
        match (self, &recorded.kind) {
            (Self::Receive(request), EntryKind::Receive { taken, .. }) => {
                let mut names = taken.iter().filter_map(|message| Some(message.told_or_asked()?.0));
                names.all(|name| request.names.contains(&name))
            }
            (Self::Child(request), EntryKind::Child(child)) => {
                let let_go = child.decided.is_none() && recorded.completed.is_some();
                request.is_of(&child.instance) && !(request.state.awaited && let_go)
            }
            (Self::Send(request), EntryKind::Sent { to, name, .. }) => request.is_to(to) && request.name() == name,
            (Self::Publish(request), EntryKind::Publish { topic, .. }) => request.topic == topic,
            _ => true,
        }
    }

    /// What else is said of it, and what goes with it: all that should be the same whenever the code comes here.
    pub(crate) fn detail(&mut self) -> (String, Option<Payload>) {
        match self {
            Self::Step(step) => (step.options.text(), step.work.input()),
            Self::Sleep(until) | Self::Limit(until) => (until.text(), None),
            Self::Receive(request) => {
                let until = request.until.map_or_else(String::new, Until::text);
                (
                    format!("{} of {}{until}", request.most, request.names.join(" or ")),
                    None,
                )
            }
            Self::Outside(request) => (request.until.map_or_else(String::new, Until::text), None),
            Self::Send(request) => {
                let payload = match &request.content {
                    Content::Told { payload, .. } => Some(payload.clone()),
                    _ => None,
                };
                (format!("{} to {}", request.name(), request.to), payload)
            }
            Self::Child(request) => {
                let ChildState { workflow, instance, .. } = &request.state;
                let gate = request.manner.flow.gate.as_ref();
                let gate = gate.map_or_else(String::new, |gate| format!(", at most {} of {}", gate.limit, gate.key));
                (format!("{workflow} as {instance}{gate}"), Some(request.input.clone()))
            }
            Self::Publish(request) => (request.topic.to_owned(), Some(request.payload.clone())),
            Self::Event(topic, until) => {
                let until = until.map_or_else(String::new, Until::text);
                (format!("{topic}{until}"), None)
            }
            Self::Begun(_) => (String::new(), None),
        }
    }

    pub(crate) fn take_undo(&mut self) -> Option<Undo> {
        match self {
            Self::Step(step) => step.undo.take(),
            Self::Child(child) => child.undo.take(),
            _ => None,
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

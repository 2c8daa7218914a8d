//! What an operation asks for.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::Millis;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::attempt::Attempt;
use crate::engine::retry::Retry;
use crate::engine::undo::Undo;
use crate::ids::InstanceId;
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, Content, Entry, EntryKind, Failure};

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
    /// Until a time, as people have it. One that has passed is as good as now.
    pub(crate) fn time(time: SystemTime) -> Result<Self, InvalidDuration> {
        let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let checked = since_epoch.into_duration()?;
        Ok(Self::At(u64::try_from(checked.as_millis()).unwrap_or(u64::MAX)))
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
            Self::After(wait) => now.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(Millis::MAX)),
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
    pub(crate) version: u32,
    pub(crate) input: Payload,
    /// How it is undone. The journal keeps it from the moment that the child is asked for.
    pub(crate) undo: Option<Undo>,
    pub(crate) manner: Manner,
}

/// What else is said of a child that a schedule starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manner {
    /// Whether the parent is told of its end although it does not wait for it.
    pub(crate) tells_its_end: bool,
    pub(crate) tags: Vec<(String, String)>,
    /// How long it may take.
    pub(crate) deadline: Option<Duration>,
}

impl Request {
    /// How much it puts into the outbox, if it does.
    pub(crate) fn outgoing_bytes(&self) -> Option<usize> {
        match self {
            Self::Step(_) | Self::Sleep(_) | Self::Receive(_) | Self::Outside(_) | Self::Limit(_) => None,
            Self::Begun(_) | Self::Event(..) => Some(0),
            Self::Publish(request) => Some(request.payload.bytes.len()),
            Self::Send(request) => match &request.content {
                Content::Told { payload, .. } => Some(payload.bytes.len()),
                _ => Some(0),
            },
            Self::Child(request) => Some(request.input.bytes.len()),
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
    /// Whether what is recorded can be what this asked for: a wait has taken nothing but messages that it waits for, and
    /// a child whose end the code waits for was not let go.
    pub(crate) fn takes(&self, recorded: &Entry) -> bool {
        match (self, &recorded.kind) {
            (Self::Receive(request), EntryKind::Receive { taken, .. }) => {
                let mut names = taken.iter().filter_map(|message| Some(message.told_or_asked()?.0));
                names.all(|name| request.names.contains(&name))
            }
            (Self::Child(request), EntryKind::Child(child)) => {
                !request.state.awaited || child.decided.is_some() || recorded.completed.is_none()
            }
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
            Self::Send(request) => match &request.content {
                Content::Told { name, payload } => (format!("{name} to {}", request.to), Some(payload.clone())),
                _ => (format!("to {}", request.to), None),
            },
            Self::Child(request) => {
                let ChildState { workflow, instance, .. } = &request.state;
                (format!("{workflow} as {instance}"), Some(request.input.clone()))
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

//! What was called, with what, and what stood in for it.

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::de::DeserializeOwned;

use super::mock::{Mock, Outcome};
use super::text;
use super::trace::{Surprise, Trace};
use crate::engine::{self, AskedFor, Attempting, Unreadable, Witness};
use crate::storage::payload::{Codecs, Payload};

/// A call of an activity or of the closure of a step: one attempt.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// Which instance made it.
    pub instance: String,
    /// In which of its runs, from one.
    pub run: u32,
    /// Where in its code: `orders/orders~3/charge`.
    pub path: String,
    /// Which attempt at the step it was, from one.
    pub attempt: u32,
    /// The name of the activity, if it was one.
    pub activity: Option<String>,
    /// Whether a mock stood in.
    pub mocked: bool,
    input: Option<Payload>,
}

impl Call {
    /// What it was called with.
    ///
    /// # Panics
    ///
    /// If that is not of this type, or if it was the closure of a step, which takes nothing.
    #[track_caller]
    pub fn input<T: DeserializeOwned>(&self) -> T {
        let Some(input) = &self.input else {
            panic!("`{}` is a step and not an activity: it has no input", self.path);
        };
        let unpacked = Codecs::plain().unpack(input);
        text::or_panic(unpacked, |error| {
            let shown = text::payload(&Codecs::plain(), input);
            format!("the input of `{}` is of another type: {shown}: {error}", self.path)
        })
    }

    /// What is wrong with its input, if that is not of this type.
    pub(super) fn misread<T: DeserializeOwned>(&self) -> Option<String> {
        let (Self { path, instance, .. }, wanted) = (self, type_name::<T>());
        let Some(input) = &self.input else {
            return Some(format!(
                "`{path}` is a step and has no input: its mock can't take {wanted}; use `Mock::sees`"
            ));
        };
        let error = Codecs::plain().unpack::<T>(input).err()?;
        let shown = text::payload(&Codecs::plain(), input);
        Some(format!(
            "the mock of `{path}` takes {wanted}, and {instance} called it with {shown}: {error}"
        ))
    }

    /// Whether it goes by this name: that of the activity, its whole path, or the end of it.
    fn is(&self, name: &str) -> bool {
        goes_by(name, &self.path, self.activity.as_deref())
    }

    pub(super) fn raw_input(&self) -> Option<&Payload> {
        self.input.as_ref()
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            instance,
            path,
            attempt,
            ..
        } = self;
        write!(f, "`{path}` of {instance}, attempt {attempt}")?;
        self.input.as_ref().map_or(Ok(()), |input| {
            write!(f, ", with {}", text::payload(&Codecs::plain(), input))
        })
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Whether what was done at a path goes by this name.
pub(super) fn goes_by(name: &str, path: &str, activity: Option<&str>) -> bool {
    let at_the_end = || path.strip_suffix(name).is_some_and(|before| before.ends_with('/'));
    activity == Some(name) || path == name || at_the_end()
}

/// An attempt, wherever it is made.
type Place = (String, u32, String, u32);

/// Sees all instances of a harness. It outlives the processes.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: Mutex<State>,
    /// What users store goes through these: here it is kept as anybody can read it.
    codecs: Codecs,
}

#[derive(Debug, Default)]
struct State {
    mocks: BTreeMap<String, Mock>,
    /// Which turn of a mock each attempt has taken.
    taken: HashMap<Place, usize>,
    /// How many turns of each mock are taken.
    turns: HashMap<String, usize>,
    calls: Vec<Call>,
    trace: Option<Trace>,
    /// The mocks that stood in for something.
    used: BTreeSet<String>,
    /// The types that mocks returned, by instance and path.
    returned: HashMap<(String, String), &'static str>,
    /// What is wrong with the test itself.
    mistake: Option<String>,
}

impl Calls {
    pub(super) fn new(codecs: Codecs) -> Self {
        let state = Mutex::default();
        Self { state, codecs }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn mock(&self, name: &str, mock: Mock) {
        let mut state = self.state();
        state.mocks.insert(name.to_owned(), mock);
        state.turns.remove(name);
    }

    pub(super) fn unmock(&self, name: &str) {
        self.state().mocks.remove(name);
    }

    /// The mocks, and nothing that was called.
    pub(super) fn afresh(&self) -> Self {
        let mocks = self.state().mocks.clone();
        let state = Mutex::new(State {
            mocks,
            ..State::default()
        });
        let codecs = self.codecs.clone();
        Self { state, codecs }
    }

    /// What went by this name, in the order of the calls.
    pub(super) fn named(&self, name: &str) -> Vec<Call> {
        let state = self.state();
        state.calls.iter().filter(|call| call.is(name)).cloned().collect()
    }

    /// The activity that an instance called at a path, if it was one.
    pub(super) fn activity_at(&self, instance: &str, path: &str) -> Option<String> {
        let state = self.state();
        let mut calls = state.calls.iter();
        let call = calls.find(|call| call.instance == instance && call.path == path)?;
        call.activity.clone()
    }

    pub(super) fn all(&self) -> Vec<Call> {
        self.state().calls.clone()
    }

    /// Begins to remember what every instance asks for.
    pub(super) fn trace(&self) {
        self.state().trace = Some(Trace::default());
    }

    /// What the code has asked for so far.
    pub(super) fn traced(&self) -> Trace {
        self.state().trace.clone().unwrap_or_default()
    }

    /// The names of the mocks that stood in for something.
    pub(super) fn used(&self) -> BTreeSet<String> {
        self.state().used.clone()
    }

    /// What is wrong with the test itself: a mock of another type than what it stands in for.
    pub(super) fn mistake(&self) -> Option<String> {
        self.state().mistake.clone()
    }

    /// The first thing that the code asked for in two ways.
    pub(super) fn surprise(&self) -> Option<Surprise> {
        self.state().trace.as_ref().and_then(Trace::surprise)
    }
}

fn mocked<'a>(mocks: &'a BTreeMap<String, Mock>, call: &engine::Call) -> Option<(&'a String, &'a Mock)> {
    // The longest name says most.
    let going_by = mocks
        .iter()
        .filter(|(name, _)| goes_by(name, &call.path, call.activity));
    going_by.max_by_key(|(name, _)| name.len())
}

impl Witness for Calls {
    fn asked(&self, asked: AskedFor) {
        if let Some(trace) = &mut self.state().trace {
            let payload = asked.payload.map(|payload| self.codecs.plainly(payload));
            trace.asked(AskedFor { payload, ..asked });
        }
    }

    fn stands_in(&self, call: &engine::Call) -> bool {
        mocked(&self.state().mocks, call).is_some()
    }

    fn begin(&self, call: engine::Call) -> Option<Attempting> {
        let mut state = self.state();
        let found = mocked(&state.mocks, &call).map(|(name, mock)| (name.clone(), mock.clone()));
        let call = Call {
            instance: call.instance.to_string(),
            run: call.run,
            path: call.path,
            attempt: call.attempt,
            activity: call.activity.map(str::to_owned),
            mocked: found.is_some(),
            input: call.input.map(|input| self.codecs.plainly(input)),
        };
        state.calls.push(call.clone());
        let (name, mock) = found?;
        let place = (call.instance.clone(), call.run, call.path.clone(), call.attempt);
        let State {
            taken,
            turns,
            used,
            returned,
            mistake,
            ..
        } = &mut *state;
        used.insert(name.clone());
        let number = *taken.entry(place).or_insert_with(|| {
            let next = turns.entry(name).or_default();
            *next += 1;
            *next - 1
        });
        let turn = mock.turn(number);
        if let Some(of) = turn.returns {
            returned.insert((call.instance.clone(), call.path.clone()), of);
        }
        if mistake.is_none() {
            *mistake = (turn.misreads)(&call);
        }
        Some(Box::pin(async move {
            if !turn.takes.is_zero() {
                tokio::time::sleep(turn.takes).await;
            }
            match turn.outcome {
                Outcome::Decided(decided) => decided,
                Outcome::Function(function) => function(&call),
                Outcome::Never => std::future::pending().await,
            }
        }))
    }

    fn unreadable(&self, unreadable: &Unreadable<'_>) {
        let Unreadable {
            instance,
            path,
            payload,
            wanted,
        } = unreadable;
        let mut state = self.state();
        let place = (instance.to_string(), (*path).to_owned());
        if let Some(of) = state.returned.get(&place) {
            let shown = text::payload(&self.codecs, payload);
            let mistake = format!("`{path}` of {instance} returns {wanted}, and its mock returned {shown}, a {of}");
            state.mistake.get_or_insert(mistake);
        }
    }
}

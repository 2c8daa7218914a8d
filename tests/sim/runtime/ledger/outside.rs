//! What goes between the code and the world: promises, questions, events, values that are asked for, versions.

use std::collections::BTreeSet;

use everstep::WorkflowError;
use everstep::storage::record::FailureKind;

use super::{Ledger, Place, VersionSeen};

#[derive(Debug)]
pub(crate) struct PromiseSeen {
    pub(super) place: Place,
    /// Decisions that were tried.
    tried: BTreeSet<String>,
    /// The one that was acknowledged as the first.
    accepted: Option<String>,
    /// The code waits for it so long at most.
    due_ms: Option<u64>,
    seen: Option<Result<String, String>>,
}

#[derive(Debug, Default)]
pub(crate) struct AnswerSeen {
    /// What the code has answered; another one may follow as long as nobody has heard it.
    given: BTreeSet<String>,
    /// The one that was given when nothing could go wrong any more.
    firm: Option<String>,
    heard: Option<String>,
}

#[derive(Debug)]
pub(crate) struct EventSeen {
    to_one: bool,
    keep_ms: u64,
    acknowledged: bool,
    /// It may have been taken where nobody can see it.
    pub(super) lost: bool,
    pub(super) takers: BTreeSet<Place>,
}

/// What the code sees of a promise that it gave up.
const GIVEN_UP: &str = "nobody decided it in time";

/// What a question is answered with that nobody answers.
pub(crate) const UNANSWERED: &str = "unanswered";

impl Ledger {
    fn is_rewound(&mut self, id: &str) -> bool {
        self.instance(id).renewals > 0
    }

    /// The code gave a token away.
    pub(crate) fn gives(&mut self, place: &Place, token: &str) {
        self.note(format!("{} gives its token away", place.path));
        self.promises.entry(token.to_owned()).or_insert_with(|| PromiseSeen {
            place: place.clone(),
            tried: BTreeSet::new(),
            accepted: None,
            due_ms: None,
            seen: None,
        });
    }

    /// The code begins to wait for a promise.
    pub(crate) fn awaits(&mut self, token: &str, timeout_ms: Option<u64>) {
        let now = self.now_ms;
        if let (Some(promise), Some(timeout)) = (self.promises.get_mut(token), timeout_ms) {
            let due = now + timeout;
            promise.due_ms = Some(promise.due_ms.map_or(due, |before| before.min(due)));
        }
    }

    /// One of the tokens that were given away; none if there is none.
    pub(crate) fn token(&self, pick: u64) -> Option<String> {
        let count = self.promises.len() as u64;
        let at = pick.checked_rem(count)?;
        self.promises.keys().nth(at as usize).cloned()
    }

    /// Whether a token is one that counts.
    pub(crate) fn token_is_given(&self, token: &str) -> bool {
        self.promises.contains_key(token)
    }

    /// The tokens of an instance.
    pub(crate) fn tokens_of(&self, id: &str) -> Vec<String> {
        let theirs = self.promises.iter().filter(|(_, promise)| promise.place.instance == id);
        theirs.map(|(token, _)| token.clone()).collect()
    }

    /// Somebody tries to decide a promise. Tells whose it is.
    pub(crate) fn decides(&mut self, token: &str, decision: &str) -> String {
        let promise = self.promises.get_mut(token).expect("it was given away");
        promise.tried.insert(decision.to_owned());
        promise.place.instance.clone()
    }

    /// A decision was acknowledged as the first.
    pub(crate) fn decided(&mut self, token: &str, decision: &str) {
        let id = self.promises.get(token).map(|promise| promise.place.instance.clone());
        // After a reset it may be there to be decided again.
        let rewound = id.is_some_and(|id| self.is_rewound(&id));
        let Some(promise) = self.promises.get_mut(token) else {
            return;
        };
        let before = promise.accepted.replace(decision.to_owned());
        let (path, other) = (
            promise.place.path.clone(),
            match &promise.seen {
                Some(Ok(seen)) => seen != decision,
                Some(Err(why)) => why == GIVEN_UP,
                None => false,
            },
        );
        if (before.is_some() || other) && !rewound {
            self.violation(format!(
                "the promise at {path} was decided twice: {before:?} and {decision}"
            ));
        }
    }

    /// Somebody was told that nobody waits for a promise any more.
    pub(crate) fn is_too_late(&mut self, token: &str) {
        let id = self.promises.get(token).map(|promise| promise.place.instance.clone());
        let rewound = id.is_some_and(|id| self.is_rewound(&id));
        let waits = |promise: &&PromiseSeen| promise.due_ms.is_none() || promise.accepted.is_some();
        if let Some(promise) = self.promises.get(token).filter(waits).filter(|_| !rewound) {
            let (path, accepted) = (promise.place.path.clone(), promise.accepted.clone());
            self.violation(format!("it is too late for {path}, and accepted is {accepted:?}"));
        }
    }

    /// The code behind a promise saw how it was decided.
    pub(crate) fn saw_promise(&mut self, place: &Place, token: &str, outcome: &Result<String, WorkflowError>) {
        let rewound = self.is_rewound(&place.instance);
        let (said, kind) = match outcome {
            Ok(value) => (Ok(value.clone()), None),
            Err(error) => (Err(error.failure().message.clone()), Some(error.failure().kind)),
        };
        self.note(format!("{} saw {said:?}", place.path));
        let tried = |value: &String| {
            let theirs = |promise: &&PromiseSeen| promise.place.instance == place.instance;
            let mut all = self.promises.values().filter(theirs);
            all.any(|promise| promise.tried.contains(value))
        };
        let strange = match (&said, kind) {
            (Ok(value), _) | (Err(value), Some(FailureKind::Rejected)) => !tried(value),
            _ => false,
        };
        let Some(promise) = self.promises.get_mut(token).filter(|_| !rewound) else {
            if strange {
                self.violation(format!("{} saw what nobody decided: {said:?}", place.path));
            }
            return;
        };
        let strange = strange || matches!(&said, Ok(value) if !promise.tried.contains(value));
        let before = promise.seen.get_or_insert_with(|| said.clone()).clone();
        let wrong = match (&promise.accepted, &said, kind) {
            (Some(accepted), Ok(value), _) => accepted != value,
            (Some(accepted), Err(value), Some(FailureKind::Rejected)) => accepted != value,
            (Some(_), Err(_), Some(FailureKind::TimedOut)) => true,
            _ => false,
        };
        let accepted = promise.accepted.clone();
        if strange || before != said || wrong {
            self.violation(format!(
                "{} saw {said:?}, before {before:?}, accepted {accepted:?}",
                place.path
            ));
        }
    }

    /// The code took a question.
    pub(crate) fn took_question(&mut self, place: &Place, id: Option<&str>, to: &str) {
        let ids: Vec<_> = id.map(ToOwned::to_owned).into_iter().collect();
        self.took_messages(place, &ids, &[to.to_owned()]);
    }

    /// The code answers a question.
    pub(crate) fn answers(&mut self, question: &str, answer: &str) {
        self.note(format!("{question} is answered: {answer}"));
        let answers = self.answers.entry(question.to_owned()).or_default();
        answers.given.insert(answer.to_owned());
    }

    /// The code has answered it.
    pub(crate) fn has_answered(&mut self, question: &str, answer: &str) {
        if self.calm {
            let answers = self.answers.entry(question.to_owned()).or_default();
            answers.firm = Some(answer.to_owned());
        }
    }

    /// Whoever asked has an answer.
    pub(crate) fn hears_answer(&mut self, question: &str, id: &str, answer: &str) {
        self.note(format!("{question} heard {answer}"));
        let rewound = self.is_rewound(id);
        let seen = self.answers.entry(question.to_owned()).or_default();
        let strange = answer != UNANSWERED && !seen.given.contains(answer);
        let before = seen.heard.get_or_insert_with(|| answer.to_owned()).clone();
        let forgotten = seen.firm.as_ref().is_some_and(|firm| firm != answer);
        if strange || ((before != answer || forgotten) && !rewound) {
            self.violation(format!("{question} heard {answer}, before {before}"));
        }
    }

    /// Questions that the code has answered: whom, who asked, and the number.
    pub(crate) fn answered(&self) -> Vec<(String, String, u64)> {
        let part = |question: &String| {
            let (asked, to) = question.strip_prefix("ask ")?.split_once(" to ")?;
            let (sender, number) = asked.split_once('-')?;
            Some((to.to_owned(), sender.to_owned(), number.parse().ok()?))
        };
        self.answers.keys().filter_map(part).collect()
    }

    /// Somebody publishes an event.
    pub(crate) fn publishes(&mut self, event: &str, to_one: bool, keep_ms: u64) {
        self.events.entry(event.to_owned()).or_insert(EventSeen {
            to_one,
            keep_ms,
            acknowledged: false,
            lost: false,
            takers: BTreeSet::new(),
        });
    }

    /// It was acknowledged, to code if there is a place.
    pub(crate) fn published(&mut self, event: &str, place: Option<&Place>) {
        self.note(format!("{event} is published"));
        if place.is_some_and(|place| self.is_rewound(&place.instance)) {
            // It may be one that an earlier run has published under its own name.
            return;
        }
        if let Some(event) = self.events.get_mut(event) {
            event.acknowledged = true;
        }
    }

    /// The code behind a wait for an event has one, or none.
    pub(crate) fn hears(&mut self, place: &Place, event: Option<&str>) {
        let event = event.map(ToOwned::to_owned);
        self.note(format!("{} hears {event:?}", place.path));
        let before = self.heard.entry(place.clone()).or_insert_with(|| event.clone()).clone();
        if before != event {
            self.violation(format!("{} heard {before:?} and now {event:?}", place.path));
        }
        if let Some(event) = event {
            self.takes_event(place, &event);
        }
    }

    /// An event is with somebody.
    pub(crate) fn takes_event(&mut self, place: &Place, event: &str) {
        let mut rewound = self.is_rewound(&place.instance);
        let Some(seen) = self.events.get_mut(event) else {
            return self.violation(format!("{} heard {event}, which nobody published", place.path));
        };
        seen.takers.insert(place.clone());
        if !seen.to_one || seen.takers.len() == 1 {
            return;
        }
        let takers: Vec<_> = seen.takers.iter().cloned().collect();
        for taker in &takers {
            rewound |= self.is_rewound(&taker.instance);
        }
        if !rewound {
            self.violation(format!("{event} is for one, and these heard it: {takers:?}"));
        }
    }

    /// The history of an instance has an event, whether or not its code has seen it.
    pub(crate) fn has_event(&mut self, id: &str, event: &str) {
        match self.events.get_mut(event) {
            Some(seen) if seen.takers.is_empty() => seen.lost = true,
            Some(_) => {}
            None => self.violation(format!("{id} has {event}, which nobody published")),
        }
    }

    /// Events that somebody has tried to publish.
    pub(crate) fn published_events(&self) -> usize {
        self.events.len()
    }

    /// Events that have to be with somebody, and are not.
    pub(crate) fn unheard(&self) -> Vec<String> {
        let unheard = self.events.iter().filter(|(_, event)| {
            event.to_one
                && event.acknowledged
                && !event.lost
                && event.keep_ms > 1_000_000_000
                && event.takers.is_empty()
        });
        unheard.map(|(id, _)| id.clone()).collect()
    }

    /// The code says something that callers can ask for.
    pub(crate) fn sets(&mut self, place: &Place) {
        self.instance(&place.instance).set.insert(place.path.clone());
    }

    /// A caller asked for it.
    pub(crate) fn queried(&mut self, id: &str, found: Option<&String>) {
        self.note(format!("{id} says {found:?}"));
        if let Some(found) = found
            && !self.instance(id).set.contains(found)
        {
            self.violation(format!("{id} says {found}, which its code never said"));
        }
    }

    /// The code came to a gate.
    pub(crate) fn comes_to_gate(&mut self, place: &Place, version: u32) {
        let seen = self
            .versions
            .entry(place.clone())
            .or_insert(VersionSeen { version, firm: false });
        let before = seen.version;
        if !seen.firm {
            seen.version = version;
        } else if before != version {
            self.violation(format!("{} followed version {before} and now {version}", place.path));
        }
    }

    /// Something is done because of what the code saw at a gate.
    pub(crate) fn follows(&mut self, place: &Place) {
        if let Some(seen) = self.versions.get_mut(place) {
            seen.firm = true;
        }
    }

    /// The code registers something to undo.
    pub(crate) fn registers(&mut self, place: &Place, value: &str) {
        let commits = self.commits;
        let step = self.steps.entry(place.clone()).or_default();
        step.executions.push(value.to_owned());
        step.result = Some(Ok(value.to_owned()));
        step.undo.owed_since.get_or_insert(commits);
    }
}

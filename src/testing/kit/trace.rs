//! What the code asked for, to be compared with what it asks for when it is run again.

use std::collections::BTreeMap;

use super::text;
use crate::engine::{AskedFor, CallSite};
use crate::storage::payload::{Codecs, Payload};

/// What an instance asked for at one path.
#[derive(Debug, Clone)]
struct Ask {
    what: String,
    payload: Option<Payload>,
    call_site: CallSite,
}

impl Ask {
    fn same(&self, other: &Self) -> bool {
        self.what == other.what && self.payload == other.payload
    }

    fn text(&self) -> String {
        let with = self
            .payload
            .as_ref()
            .map(|payload| format!(" with {}", text::payload(&Codecs::plain(), payload)));
        format!("{}{}, at {}", self.what, with.unwrap_or_default(), self.call_site)
    }
}

/// What all instances asked for, by instance, run and path: as they asked for it first.
#[derive(Debug, Clone, Default)]
pub(super) struct Trace {
    asks: BTreeMap<(String, u32, String), Ask>,
    surprise: Option<Surprise>,
    /// Whether everything was asked for before that may be asked for.
    whole: bool,
}

/// Something that the code asked for in two ways.
#[derive(Debug, Clone)]
pub(super) struct Surprise {
    instance: String,
    path: String,
    first: String,
    again: String,
}

impl Trace {
    /// The same, for a second run: whatever it asks for must be here.
    pub(super) fn whole(mut self) -> Self {
        self.whole = true;
        self
    }

    pub(super) fn asked(&mut self, asked: AskedFor) {
        let detail = match asked.detail.as_str() {
            "" => String::new(),
            detail => format!(" ({})", detail.trim()),
        };
        let ask = Ask {
            what: format!("a {}{detail}", asked.kind),
            payload: asked.payload,
            call_site: asked.call_site,
        };
        let place = (asked.instance.to_string(), asked.run, asked.path);
        let first = match self.asks.get(&place) {
            Some(first) if first.same(&ask) => return,
            Some(first) => first.text(),
            None if self.whole => "nothing".to_owned(),
            None => {
                self.asks.insert(place, ask);
                return;
            }
        };
        let (instance, _, path) = place;
        let again = ask.text();
        self.surprise.get_or_insert(Surprise {
            instance,
            path,
            first,
            again,
        });
    }

    pub(super) fn surprise(&self) -> Option<Surprise> {
        self.surprise.clone()
    }
}

/// What to do about it.
pub(super) const HINT: &str = "time, chance, the order of a `HashMap` and the environment differ between two runs: \
                               take them from `ctx.now()` and `ctx.random()`, sort, or read them in a step";

impl std::fmt::Display for Surprise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            instance,
            path,
            first,
            again,
        } = self;
        writeln!(f, "the code of `{instance}` did something else when it was run again:")?;
        writeln!(f, "  at `{path}`")?;
        writeln!(f, "  first, it asked for {first}")?;
        writeln!(f, "  again, it asked for {again}")?;
        f.write_str(HINT)
    }
}

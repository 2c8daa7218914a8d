//! A part of a workflow in which names are looked up: the whole function, a branch, an iteration.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::Millis;
use crate::engine::error::Misuse;
use crate::engine::journal::SharedJournal;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::payload::Codecs;

/// Facts about an instance that its code may read.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) instance: InstanceId,
    pub(crate) run: u32,
    pub(crate) version: u32,
    pub(crate) codecs: Codecs,
}

/// Where in the execution tree the code is.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    facts: Arc<Facts>,
    journal: SharedJournal,
    location: Location,
    shielded: bool,
}

impl Scope {
    pub(crate) fn root(facts: Arc<Facts>, journal: SharedJournal) -> Self {
        Self {
            facts,
            journal,
            location: Location::root(),
            shielded: false,
        }
    }

    /// A scope at a location inside this one.
    pub(crate) fn inside(&self, location: Location) -> Self {
        Self {
            location,
            ..self.clone()
        }
    }

    /// The same scope, out of reach of a cancellation.
    pub(crate) fn shielded(&self) -> Self {
        Self {
            shielded: true,
            ..self.clone()
        }
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn codecs(&self) -> &Codecs {
        &self.facts.codecs
    }

    pub(crate) fn journal(&self) -> &SharedJournal {
        &self.journal
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// When the last thing that the code has seen was decided.
    pub(crate) fn now_ms(&self) -> Millis {
        self.journal.lock().now_ms
    }

    /// A number that is the same whenever this instance comes to this place, and different everywhere else.
    ///
    /// # Panics
    ///
    /// Outside of the workflow function: a draw there would shift those of the function.
    pub(crate) fn draw(&self) -> u64 {
        let mut journal = self.journal.lock();
        assert!(journal.token().is_polled_here(), "{}", Misuse::OutsideWorkflow);
        let drawn = journal.draw(&self.location);
        drop(journal);
        let place = format!("{}\0{}\0{:?}", self.facts.instance, self.facts.run, self.location);
        xxh3_64_with_seed(place.as_bytes(), drawn)
    }
}

//! A part of a workflow in which names are looked up: the whole function, a branch, an iteration.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::clock::Millis;
use crate::config::Bounds;
use crate::engine::error::Misuse;
use crate::engine::journal::SharedJournal;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Failure, Secret};

/// Facts about an instance that its code may read.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) instance: InstanceId,
    pub(crate) run: u32,
    pub(crate) version: u32,
    /// What tokens and the ids of messages are made of.
    pub(crate) secret: Secret,
    /// What chance and the ids of children are drawn from, if not from the secret.
    pub(crate) seed: Option<Secret>,
    /// The run in which the history began.
    pub(crate) drawn_in: u32,
    /// The run that idempotency keys are made of.
    pub(crate) keyed_in: u32,
    pub(crate) codecs: Codecs,
    pub(crate) bounds: Bounds,
}

impl Facts {
    /// What everything is drawn from that has to be the same in replay.
    pub(crate) fn seed(&self) -> Secret {
        self.seed.unwrap_or_else(|| self.secret.seed())
    }

    /// A value as it will be stored, if it is not too large for that.
    pub(crate) fn pack<T: Serialize + ?Sized>(&self, value: &T) -> Result<Payload, Failure> {
        let packed = self.codecs.pack(value)?;
        self.bounds.check_payload(packed.bytes.len())?;
        Ok(packed)
    }
}

/// Where in the execution tree the code is.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    facts: Arc<Facts>,
    journal: SharedJournal,
    location: Location,
    shielded: bool,
    /// Operations that the code has asked for here.
    asked: Arc<AtomicU64>,
}

impl Scope {
    pub(crate) fn root(facts: Arc<Facts>, journal: SharedJournal) -> Self {
        Self {
            facts,
            journal,
            location: Location::root(),
            shielded: false,
            asked: Arc::new(AtomicU64::new(0)),
        }
    }

    /// A scope at a location inside this one.
    pub(crate) fn inside(&self, location: Location) -> Self {
        Self {
            location,
            asked: Arc::new(AtomicU64::new(0)),
            ..self.clone()
        }
    }

    /// Where the code is that uses something of this scope: in an iteration that this scope lies around, or here. What is
    /// done with a handle has its place where it is done.
    pub(crate) fn here(&self) -> Self {
        let iteration = self.journal.lock().iteration_inside(&self.location);
        iteration.map_or_else(|| self.clone(), |iteration| self.inside(iteration))
    }

    /// The same scope, out of reach of a cancellation.
    pub(crate) fn shielded(&self) -> Self {
        Self {
            shielded: true,
            ..self.clone()
        }
    }

    /// Counts another operation in this scope. Tells how many there are with it.
    pub(crate) fn count(&self) -> u64 {
        self.asked.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// A value as it will be stored, if it is not too large for that.
    pub(crate) fn pack<T: Serialize + ?Sized>(&self, value: &T) -> Result<Payload, Failure> {
        self.facts.pack(value)
    }

    /// The facts, for work that outlives the scope.
    pub(crate) fn shared_facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts)
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
        // As text: the numbers of names that are not stored yet may differ after a crash.
        let path = journal.names.path(&self.location);
        drop(journal);
        let facts = &*self.facts;
        let digest = facts
            .seed()
            .digest(&format!("random {}/{drawn}/{path}", facts.drawn_in));
        let mut number = [0; 8];
        number.copy_from_slice(&digest.as_bytes()[..8]);
        u64::from_be_bytes(number)
    }
}

//! Defects that show when a store is opened again.

use std::sync::{Arc, Mutex};

use super::bent::{Defect, Inner, good};
use crate::storage::engine::Engine;
use crate::testing::conformance::{Candidate, Subject};
use crate::testing::faulty::{Faulty, Plan};

pub(super) fn defects() -> Vec<Defect> {
    vec![
        Defect {
            name: "forgets everything",
            candidate: Box::new(Forgetful),
            cases: &[
                "reopen::every_byte_is_there",
                "reopen::the_position_is_there",
                "reopen::an_epoch_without_commits_is_there",
                "reopen::it_goes_on_for_many_lives",
            ],
        },
        Defect {
            name: "acknowledges before it syncs",
            candidate: Box::new(Hasty),
            cases: &[
                "reopen::every_byte_is_there",
                "reopen::the_position_is_there",
                "reopen::it_goes_on_for_many_lives",
            ],
        },
    ]
}

/// A store that keeps nothing.
struct Forgetful;

impl Candidate for Forgetful {
    fn fresh(&self) -> Box<dyn Subject> {
        Box::new(Self)
    }
}

impl Subject for Forgetful {
    fn open(&self) -> Arc<dyn Engine> {
        good()
    }
}

/// A store that keeps what was committed before its last acquisition.
struct Hasty;

struct Unsynced {
    inner: Inner,
    life: Mutex<Plan>,
}

impl Candidate for Hasty {
    fn fresh(&self) -> Box<dyn Subject> {
        Box::new(Unsynced {
            inner: good(),
            life: Mutex::new(Plan::new()),
        })
    }
}

impl Subject for Unsynced {
    fn open(&self) -> Arc<dyn Engine> {
        let mut life = self.life.lock().unwrap();
        life.crash().unwrap();
        *life = Plan::new();
        life.hold_back();
        Arc::new(Faulty::new(Arc::clone(&self.inner), life.clone()))
    }
}

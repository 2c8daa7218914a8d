//! The promise: every engine keeps the same contract. One test an engine, all by the suite that ships with the crate.
#![cfg(all(feature = "testing", feature = "fjall", feature = "sled"))]

use std::sync::Arc;

use everstep::storage::engine::Engine;
use everstep::storage::engines::Memory;
use everstep::testing::conformance::{self, Candidate, Subject};

struct InMemory;

impl Candidate for InMemory {
    fn fresh(&self) -> Box<dyn Subject> {
        Box::new(Clones(Memory::new()))
    }
}

/// A clone of a memory store is that store opened again.
struct Clones(Memory);

impl Subject for Clones {
    fn open(&self) -> Arc<dyn Engine> {
        Arc::new(self.0.clone())
    }
}

#[test]
fn memory() {
    conformance::run(&InMemory);
}

/// An engine that is opened from a directory.
struct OnDisk(fn(&std::path::Path) -> Arc<dyn Engine>);

impl Candidate for OnDisk {
    fn fresh(&self) -> Box<dyn Subject> {
        Box::new(Directory {
            path: tempfile::tempdir().expect("a temporary directory can be made"),
            open: self.0,
        })
    }
}

struct Directory {
    path: tempfile::TempDir,
    open: fn(&std::path::Path) -> Arc<dyn Engine>,
}

impl Subject for Directory {
    fn open(&self) -> Arc<dyn Engine> {
        (self.open)(self.path.path())
    }
}

#[test]
fn fjall() {
    use everstep::storage::engines::Fjall;
    conformance::run(&OnDisk(|path| {
        Arc::new(Fjall::open(path).expect("a store of this test opens"))
    }));
}

#[test]
fn sled() {
    use everstep::storage::engines::Sled;
    conformance::run(&OnDisk(|path| {
        Arc::new(Sled::open(path).expect("a store of this test opens"))
    }));
}

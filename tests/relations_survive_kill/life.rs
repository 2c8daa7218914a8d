//! One life of a process: where it stops to be killed, and what it runs on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use everstep::chance::SystemChance;
use everstep::storage::Pace;
use everstep::storage::batch::{Batch, Operation};
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Snapshot,
};
use everstep::storage::engines::Fjall;
use everstep::storage::key::Key;
use everstep::{Builder, Config, Runtime, Shard, Simulated};

use crate::day::Day;
use crate::process;

/// The place where this process stops, and how often it may still come by.
static HALT: Mutex<Option<(String, u64)>> = Mutex::new(None);

/// Comes by a place. If it is the one to stop at, nothing happens in this process any more.
pub(crate) fn pass(place: &str) {
    let mut halt = HALT.lock().unwrap();
    let Some((_, left)) = halt.as_mut().filter(|(at, _)| at == place) else {
        return;
    };
    *left -= 1;
    if *left == 0 {
        process::say("stopped");
        loop {
            std::thread::park();
        }
    }
}

/// A life that a test gives to a process: its number, and where it ends.
pub(crate) struct Life {
    pub(crate) number: u64,
    pub(crate) store: PathBuf,
    halt: Option<(String, u64)>,
}

impl Life {
    /// Plays the life that this process was started for, if it was. Tells whether it was.
    pub(crate) fn play<F: Future<Output = ()>>(live: impl FnOnce(Life) -> F) -> bool {
        let Some((part, store)) = process::part() else {
            return false;
        };
        let words: Vec<_> = part.split(' ').collect();
        let number = words[0].parse().unwrap();
        let halt = (words[1] != "never").then(|| (words[1].to_owned(), words[2].parse().unwrap()));
        let life = Self { number, store, halt };
        let executor = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let day = Duration::from_secs(24 * 60 * 60);
        let lived = executor.block_on(async { tokio::time::timeout(day, live(life)).await });
        lived.expect("everything ends within a day of virtual time");
        true
    }

    /// From now on this process stops where it should.
    pub(crate) fn arm(&self) {
        HALT.lock().unwrap().clone_from(&self.halt);
    }

    /// Opens a runtime on the store. Commits that have to do with `matters` are places to stop at: `before` and `after`.
    pub(crate) async fn open(&self, builder: Builder, config: Config, matters: fn(&Key<'_>) -> bool) -> Runtime {
        let engine = Fjall::open(&self.store).unwrap();
        let machine = Simulated {
            engine: Arc::new(Stopping { engine, matters }),
            clock: Arc::new(Day::new(self.number)),
            chance: Arc::new(SystemChance),
            pace: Pace::new(|| Box::pin(tokio::task::yield_now())),
        };
        // Whoever was running is charged with each kill, and none of them is to blame.
        let config = config.crash_limit(1000);
        builder.config(config).open_simulated(machine).await.unwrap()
    }
}

/// Kills a life at each of these places in turn, and lets the one after them come to its end. Gives what each has said.
pub(crate) fn lives(test: &str, store: &Path, places: &[&str]) -> Vec<Vec<String>> {
    let mut said = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let mut child = process::child(&[], test, &format!("{number} {place}"), store);
        let mut lines: Vec<_> = Vec::new();
        for line in process::lines(&mut child) {
            lines.push(line);
            if lines.last().is_some_and(|line| line == "stopped") {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.pop();
        assert_eq!(last.as_deref(), Some("stopped"), "life {number} never got to {place:?}");
        said.push(lines);
    }
    let mut child = process::child(&[], test, &format!("{} never", places.len()), store);
    said.push(process::lines(&mut child).collect());
    assert!(child.wait().unwrap().success(), "{said:?}");
    said
}

/// Whatever the kills cut off, no row is without what it belongs to.
pub(crate) fn is_sound(runtime: &Runtime) {
    let report = runtime.store().verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

/// A store on disk whose commits are places to stop at.
struct Stopping {
    engine: Fjall,
    matters: fn(&Key<'_>) -> bool,
}

impl Stopping {
    fn matters(&self, group: &Group<'_>) -> bool {
        let mut operations = group.batches.iter().flat_map(Batch::operations);
        operations.any(|operation| {
            let (Operation::Set { key, .. } | Operation::Delete { key }) = operation else {
                return false;
            };
            (self.matters)(&Key::unpack(key).unwrap())
        })
    }
}

impl Engine for Stopping {
    fn limits(&self) -> EngineLimits {
        self.engine.limits()
    }

    fn acquire(&self, shard: Shard, owner: Owner) -> Result<Lease, CommitError> {
        self.engine.acquire(shard, owner)
    }

    fn position(&self, lease: &Lease) -> Result<Position, CommitError> {
        self.engine.position(lease)
    }

    fn commit(&self, group: &Group<'_>) -> Result<(), CommitError> {
        if !self.matters(group) {
            return self.engine.commit(group);
        }
        pass("before");
        self.engine.commit(group)?;
        pass("after");
        Ok(())
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.engine.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        self.engine.snapshot(shard)
    }
}

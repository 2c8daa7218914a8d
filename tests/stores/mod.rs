//! Stores to look at: instances with all kinds of rows, and ways to damage them.

#![allow(dead_code, reason = "each test uses the part that it needs")]

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use everstep::location::{Location, Segment};
use everstep::storage::batch::Batch;
use everstep::storage::engine::{
    CommitError, Engine, EngineLimits, Group, Lease, Owner, Position, ReadError, Scan, Snapshot, Visit,
};
use everstep::storage::engines::Memory;
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::payload::Payload;
use everstep::storage::record::{
    Attempt, Attempts, Completed, Decided, Entry, EntryKind, Failure, FailureDetails, FailureKind, Input, Message,
    Name, Origin, Output, Ran, Runnable, State, Status,
};
use everstep::storage::value;
use everstep::storage::{Commit, Condition, OpenOptions, Store};
use everstep::{InstanceId, MessageId, Shard};

/// What an instance of a test looks like.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) id: String,
    pub(crate) entries: u32,
    pub(crate) messages: u64,
    pub(crate) status: Status,
    pub(crate) alarm_at_ms: Option<u64>,
    pub(crate) created_at_ms: u64,
    pub(crate) payload: Vec<u8>,
}

impl Plan {
    pub(crate) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            entries: 3,
            messages: 2,
            status: Status::Sleeping,
            alarm_at_ms: Some(5_000),
            created_at_ms: 1_000,
            payload: vec![0x63, b'a', b'b', b'c'],
        }
    }

    pub(crate) fn id(&self) -> InstanceId {
        InstanceId::new(&*self.id).unwrap()
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin {
            workflow: "payment".into(),
            version: 1,
            created_at_ms: self.created_at_ms,
            ..Origin::new("", 0, 0, 0)
        }
    }

    pub(crate) fn state(&self) -> State {
        State {
            status: self.status,
            run: 1,
            revision: 7,
            alarm_at_ms: self.alarm_at_ms,
            entries: self.entries.into(),
            completions: self.entries.into(),
            updated_at_ms: 2_000,
            ..State::begun(0)
        }
    }

    pub(crate) fn payload(&self) -> Payload {
        Payload {
            key_id: everstep::storage::payload::KeyId::PLAIN,
            bytes: self.payload.clone(),
        }
    }

    /// The commit that makes it, all kinds of rows included.
    pub(crate) fn commit(&self, store: &Store) -> Commit {
        let namespace = store.namespace(&self.id());
        let mut commit = Commit::new(namespace.shard());
        commit.require(Condition::Missing(self.id()));
        commit.set(&namespace, &Local::Meta(Meta::Origin), &self.origin());
        commit.set(&namespace, &Local::Meta(Meta::Input), &Input(self.payload()));
        for number in 0..self.entries {
            commit.set(&namespace, &Local::Name(number), &Name(format!("step {number}")));
            commit.set(&namespace, &history(number), &self.entry(number));
        }
        if self.entries > 0 {
            let attempts = Attempts {
                count: 1,
                failed: vec![Attempt {
                    number: 1,
                    started_at_ms: 2,
                    duration_ms: 3,
                    failure: failure(),
                }],
                next_at_ms: None,
                progress: None,
            };
            commit.set(&namespace, &Local::Attempts(0), &attempts);
        }
        if self.status.is_terminal() {
            commit.set(&namespace, &Local::Meta(Meta::Output), &Output(self.payload()));
            commit.set(&namespace, &Local::Meta(Meta::Failure), &failure());
        } else {
            commit.set_runnable(&namespace, Some(&Runnable::new("w", 2)));
        }
        let state = self.state();
        commit.set_state(&namespace, None, &state);
        commit.set_index(&namespace, &self.origin(), &state);
        commit
    }

    pub(crate) fn entry(&self, number: u32) -> Entry {
        Entry {
            id: number.into(),
            completed: Some(Completed {
                order: number.into(),
                at_ms: 7,
            }),
            kind: EntryKind::Step(Some(Decided::Completed(self.payload()))),
            ran: Some(Ran {
                number: 1,
                started_at_ms: 6,
                duration_ms: 1,
            }),
        }
    }

    /// Makes the instance and sends it its messages.
    pub(crate) fn make(&self, store: &Store) {
        store.try_submit(self.commit(store)).unwrap().wait().unwrap();
        if !self.status.is_terminal() {
            for number in 0..self.messages {
                self.send(store, &format!("message {number}"));
            }
        }
    }

    /// Sends a message and says where it came to lie.
    pub(crate) fn send(&self, store: &Store, id: &str) -> Arrival {
        let namespace = store.namespace(&self.id());
        let message = Message::told("approval", MessageId::new(id).unwrap(), self.payload(), 3_000);
        let mut place = None;
        let sent = store.submit_delivery(namespace.shard(), |arrivals| {
            let arrival = arrivals.next_place();
            place = Some(arrival);
            let mut commit = Commit::new(namespace.shard());
            commit.deliver(&namespace, arrival, &message);
            commit
        });
        block_on(async { sent.await.unwrap().durable().await.unwrap() });
        place.unwrap()
    }
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) fn failure() -> Failure {
    Failure::from(FailureDetails {
        kind: FailureKind::Error,
        message: "no".into(),
        path: "a/b".into(),
        attempts: 1,
        causes: vec!["why".into()],
        branches: Vec::new(),
        code: None,
    })
}

/// The place of an entry: every other one inside of a loop.
pub(crate) fn history(number: u32) -> Local<'static> {
    let segment = if number.is_multiple_of(2) {
        Segment::Name(number)
    } else {
        Segment::Iteration {
            name: number,
            number: 300,
        }
    };
    Local::History(Cow::Owned(Location::root().child(segment).unwrap()))
}

pub(crate) fn url(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

pub(crate) fn export(store: &Store) -> Vec<u8> {
    let mut file = Vec::new();
    store.export(&mut file).unwrap();
    file
}

/// A store on an engine that the test can reach.
pub(crate) struct Reachable {
    pub(crate) engine: Arc<Memory>,
    pub(crate) options: OpenOptions,
}

impl Reachable {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            engine: Arc::default(),
            options: OpenOptions::new().shards(shards),
        }
    }

    pub(crate) fn open(&self) -> Store {
        self.options.open_engine(self.engine.clone()).unwrap()
    }

    /// Changes rows behind the store's back, while it is closed.
    pub(crate) fn tamper(&self, shard: Shard, change: impl FnOnce(&mut Batch)) {
        let mut batch = Batch::new();
        change(&mut batch);
        let lease = self.engine.acquire(shard, Owner(9)).unwrap();
        let next = Position {
            sequence: lease.position.sequence + 1,
            chain: 1,
        };
        let group = Group {
            lease,
            expected: lease.position,
            next,
            batches: &[batch],
        };
        self.engine.commit(&group).unwrap();
    }

    /// The stored value of a key.
    pub(crate) fn value(&self, key: &Key<'_>) -> Vec<u8> {
        self.engine.get(Shard(0), &key.pack()).unwrap().unwrap()
    }

    pub(crate) fn sequence(&self, shard: Shard) -> u64 {
        let key = Key::Position(shard);
        let held: everstep::storage::record::Held = value::decode(&key.pack(), &self.value(&key)).unwrap();
        held.sequence
    }
}

/// An engine that lets a number of commits and scanned rows through, and dies at the next one.
#[derive(Debug)]
pub(crate) struct Mortal {
    pub(crate) engine: Arc<Memory>,
    pub(crate) commits: AtomicU32,
    pub(crate) rows: Arc<AtomicU32>,
}

impl Mortal {
    pub(crate) fn new(engine: &Arc<Memory>, commits: u32, rows: u32) -> Arc<Self> {
        Arc::new(Self {
            engine: Arc::clone(engine),
            commits: AtomicU32::new(commits),
            rows: Arc::new(AtomicU32::new(rows)),
        })
    }
}

fn spend(left: &AtomicU32) -> std::io::Result<()> {
    let spent = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    spent.map(drop).map_err(|_| std::io::Error::other("killed"))
}

impl Engine for Mortal {
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
        spend(&self.commits).map_err(CommitError::Unavailable)?;
        self.engine.commit(group)
    }

    fn get(&self, shard: Shard, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.engine.get(shard, key)
    }

    fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>, ReadError> {
        Ok(Box::new(MortalView {
            snapshot: self.engine.snapshot(shard)?,
            rows: Arc::clone(&self.rows),
        }))
    }
}

struct MortalView {
    snapshot: Box<dyn Snapshot>,
    rows: Arc<AtomicU32>,
}

impl Snapshot for MortalView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.snapshot.get(key)
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut Visit<'_>) -> Result<(), ReadError> {
        let mut alive = Ok(());
        self.snapshot.scan(scan, &mut |key, value| {
            alive = spend(&self.rows);
            match alive {
                Ok(()) => visit(key, value),
                Err(_) => std::ops::ControlFlow::Break(()),
            }
        })?;
        alive.map_err(ReadError::Unavailable)
    }
}

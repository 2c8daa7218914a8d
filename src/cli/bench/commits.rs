//! What the writers commit: a step that took a message, as an actor would write it.
//!
//! A commit is 4 puts (an entry of the history with the step's outcome, the state, the listing row, the next message)
//! and 1 delete (the message that was taken), about 0.9 KB in all, under the condition that the writer's activation
//! is the current one. Every writer has an instance of its own, made before the clock starts.

use std::borrow::Cow;
use std::time::Duration;

use everstep::InstanceId;
use everstep::MessageId;
use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{Completed, Decided, Entry, EntryKind, Message, Origin, State, Status};
use everstep::storage::{Activation, Commit, Condition, Namespace, OpenOptions, Store};
use tokio::runtime::Runtime;

use super::round::{self, Writer};

/// What making a store and its writers comes to.
type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of one commit, keys and envelopes included, give or take a few.
pub(crate) const COMMIT_BYTES: usize = 900;

const OUTCOME_BYTES: usize = 310;
const MESSAGE_BYTES: usize = 250;
const CREATED_AT_MS: u64 = 1_800_000_000_000;

/// A new store, and its writers.
pub(crate) struct Commits {
    pub(crate) writers: Vec<StoreWriter>,
}

impl Commits {
    /// Opens the store that `url` names and makes an instance for each writer.
    pub(crate) fn start(runtime: &Runtime, url: &str, writers: usize) -> Outcome<Self> {
        let store = OpenOptions::new().open(url)?;
        let writers = (0..writers)
            .map(|number| StoreWriter::new(&store, number))
            .collect::<Outcome<Vec<_>>>()?;
        runtime.block_on(async {
            let mut waiting = Vec::new();
            for writer in &writers {
                waiting.push(store.submit(writer.creation()).await?);
            }
            for pending in waiting {
                pending.durable().await?;
            }
            Outcome::Ok(())
        })?;
        Ok(Self { writers })
    }
}

pub(crate) struct StoreWriter {
    store: Store,
    namespace: Namespace,
    activation: Activation,
    origin: Origin,
    state: State,
    entry: Entry,
    message: Message,
}

impl StoreWriter {
    fn new(store: &Store, number: usize) -> Outcome<Self> {
        let instance = InstanceId::new(format!("order-{number:06}"))?;
        let outcome = Decided::Completed(payload(number, OUTCOME_BYTES));
        Ok(Self {
            store: store.clone(),
            namespace: store.namespace(&instance),
            activation: store.activate(&instance),
            origin: Origin {
                workflow: String::from("order-fulfilment"),
                version: 1,
                created_at_ms: CREATED_AT_MS + number as u64,
                ..Origin::new("", 0, 0, 0)
            },
            state: State {
                status: Status::Running,
                run: 1,
                revision: 1,
                alarm_at_ms: None,
                entries: 0,
                completions: 0,
                updated_at_ms: CREATED_AT_MS,
                ..State::begun(0)
            },
            entry: Entry {
                id: 0,
                completed: None,
                kind: EntryKind::Step(Some(outcome)),
                ran: None,
            },
            message: Message::told(
                String::from("parcel scanned"),
                MessageId::new(format!("scan-{number:06}"))?,
                payload(number, MESSAGE_BYTES),
                CREATED_AT_MS,
            ),
        })
    }

    fn creation(&self) -> Commit {
        let mut commit = Commit::new(self.namespace.shard());
        commit
            .require(Condition::Missing(self.namespace.instance().clone()))
            .set(&self.namespace, &Local::Meta(Meta::Origin), &self.origin)
            .set_state(&self.namespace, None, &self.state)
            .set_index(&self.namespace, &self.origin, &self.state)
            .set(&self.namespace, &inbox(0), &self.message);
        commit
    }

    fn next(&mut self) -> Commit {
        let number = self.state.entries;
        let segment = Segment::Iteration { name: 0, number };
        let location = Location::root().child(segment).expect("one segment is not too deep");
        self.entry.id = number;
        self.entry.completed = Some(Completed {
            order: number,
            at_ms: number,
        });
        self.state.revision += 1;
        self.state.entries += 1;
        self.state.completions += 1;
        self.state.updated_at_ms += 1;
        self.message.sent_at_ms += 1;
        let mut commit = Commit::new(self.namespace.shard());
        commit
            .require(Condition::Current(self.activation.clone()))
            .set(&self.namespace, &Local::History(Cow::Owned(location)), &self.entry)
            .set_state(&self.namespace, None, &self.state)
            .set_index(&self.namespace, &self.origin, &self.state)
            .delete(&self.namespace, &inbox(number))
            .set(&self.namespace, &inbox(number + 1), &self.message);
        commit
    }
}

impl Writer for StoreWriter {
    async fn commit(&mut self) -> Duration {
        let commit = self.next();
        let start = round::now();
        let committed = self.store.commit(commit).await;
        committed.expect("a commit of the current activation is done");
        round::now() - start
    }
}

fn inbox(number: u64) -> Local<'static> {
    Local::Inbox(Arrival { epoch: 1, number })
}

/// Bytes that do not compress.
fn payload(seed: usize, bytes: usize) -> Payload {
    let mut random = seed as u64 + 1;
    let byte = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    };
    Payload {
        key_id: KeyId::PLAIN,
        bytes: (0..bytes).map(byte).collect(),
    }
}

//! Where fuzzing begins: a key of every family, a record of every type, and lengths that lie.

use std::borrow::Cow;

use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    AcceptedLoss, Alarm, Attempt, Attempts, BranchStatus, Completed, Entry, EntryKind, Failure, FailureKind, Held,
    IndexRow, Input, LoopState, Message, Name, Origin, Output, Runnable, Seen, State, Status, StepOutcome, StoreHeader,
};
use everstep::storage::value::{self, Record};
use everstep::{MessageId, Shard};

use crate::envelope::{ENVELOPE_BYTES, recipe};

/// An input with the name of its file.
pub type Seed = (&'static str, Vec<u8>);

/// The seeds of the target for keys: packed keys.
pub fn keys() -> Vec<Seed> {
    let instance = |local| Key::Instance(Shard(7), "a".into(), local);
    let history = |segments: Vec<Segment>| {
        let location = Location::try_from(segments).expect("a seed is not deep");
        instance(Local::History(Cow::Owned(location)))
    };
    let path = vec![
        Segment::Name(2),
        Segment::Iteration { name: 2, number: 0 },
        Segment::Iteration {
            name: 300,
            number: 1_000_000,
        },
    ];
    let keys = [
        ("store", Key::Store),
        ("position", Key::Position(Shard(1023))),
        ("name", instance(Local::Name(0))),
        ("history-root", history(Vec::new())),
        ("history-path", history(path)),
        ("inbox", instance(Local::Inbox(Arrival { epoch: 1, number: 256 }))),
        ("meta", instance(Local::Meta(Meta::State))),
        ("attempts", instance(Local::Attempts(9))),
        ("alarm", Key::Alarm(Shard(7), 1_700_000_000_000, "a".into())),
        ("index", Key::Index(Shard(7), 0, "é".into())),
        ("dedup", Key::Dedup(Shard(7), "a".into(), "m".into())),
        ("runnable", Key::Runnable(Shard(7), "a".into())),
        ("text-with-nul", Key::Runnable(Shard(7), "\0a\0".into())),
    ];
    let mut seeds: Vec<Seed> = keys.into_iter().map(|(name, key)| (name, key.pack())).collect();
    seeds.push(("deep-nesting", vec![0x05; 512]));
    seeds.push(("many-zeros", vec![0x14; 512]));
    seeds.push(("number-too-long", vec![0x16, 0x00, 0x07, 0x14]));
    seeds
}

/// The seeds of the target for values: records of every type, whole values, and records whose lengths lie.
pub fn envelopes() -> Vec<Seed> {
    let mut seeds = records();
    let value = value::encode(KEY, &Name("whole".into()));
    seeds.push(("whole-value", recipe(Name::TYPE, 1, KEY, &value)));
    seeds.push(("newer-version", recipe(Runnable::TYPE, 2, KEY, &[1, 0, 0, 0])));
    seeds.extend(liars());
    seeds
}

const KEY: &[u8] = b"key";

/// 2^60 as BARE writes a length.
const HUGE: [u8; 9] = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10];

/// The largest length that BARE can write.
const LARGEST: [u8; 10] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

/// Records that promise far more than follows: in a text, in bytes, in a list.
fn liars() -> Vec<Seed> {
    let lies = |record_type, head: &[u8], length: &[u8]| recipe(record_type, 1, KEY, &[head, length, b"abc"].concat());
    let header = [0; 14];
    vec![
        ("huge-text", lies(Name::TYPE, &[], &HUGE)),
        ("largest-text", lies(Name::TYPE, &[], &LARGEST)),
        ("huge-bytes", lies(Output::TYPE, &[0; 4], &HUGE)),
        ("largest-bytes", lies(Output::TYPE, &[0; 4], &LARGEST)),
        ("huge-list-of-texts", lies(Failure::TYPE, &[0], &HUGE)),
        ("huge-list-of-losses", lies(StoreHeader::TYPE, &header, &HUGE)),
        ("largest-list-of-losses", lies(StoreHeader::TYPE, &header, &LARGEST)),
        ("huge-message-name", lies(Message::TYPE, &[], &HUGE)),
    ]
}

fn seed<R: Record>(name: &'static str, record: &R) -> Seed {
    let value = value::encode(KEY, record);
    (name, recipe(R::TYPE, R::VERSION, KEY, &value[ENVELOPE_BYTES..]))
}

fn records() -> Vec<Seed> {
    let payload = Payload {
        key_id: KeyId(7),
        bytes: vec![0x63, b'a', b'b', b'c'],
    };
    let branch = Failure {
        kind: FailureKind::Critical,
        message: "b".into(),
        path: String::new(),
        attempts: 0,
        causes: Vec::new(),
        branches: Vec::new(),
    };
    let failure = Failure {
        kind: FailureKind::Exhausted,
        message: "no".into(),
        path: "a/b".into(),
        attempts: 3,
        causes: vec!["why".into(), String::new()],
        branches: vec![("x".into(), branch)],
    };
    let message = Message {
        name: "n".into(),
        id: MessageId::new("m").expect("a letter is an id"),
        payload: payload.clone(),
        sent_at_ms: 258,
    };
    let entry = |kind| Entry {
        id: 1,
        completed: Some(Completed { order: 2, at_ms: 3 }),
        kind,
    };
    let step = |outcome| entry(EntryKind::Step(outcome));
    let loss = AcceptedLoss {
        at_ms: 5,
        shard: 6,
        expected: Some(7),
        found: 8,
    };
    let mut seeds = facts(&payload);
    seeds.extend([
        seed("name", &Name("größe".into())),
        seed("entry-open-step", &step(None)),
        seed("entry-step", &step(Some(StepOutcome::Completed(payload.clone())))),
        seed("entry-failed-step", &step(Some(StepOutcome::Failed(failure.clone())))),
        seed("entry-sleep", &entry(EntryKind::Sleep { wake_at_ms: 9 })),
        seed(
            "entry-receive",
            &entry(EntryKind::Receive {
                until_ms: Some(9),
                taken: vec![message.clone()],
            }),
        ),
        seed(
            "entry-loop",
            &entry(EntryKind::Loop(LoopState {
                iteration: 20,
                state: payload.clone(),
                kept_from: 5,
                output: Some(payload.clone()),
                seen: 6,
                now_ms: 7,
            })),
        ),
        seed(
            "entry-join",
            &entry(EntryKind::Join {
                branches: vec![("a".into(), BranchStatus::Running)],
            }),
        ),
        seed(
            "entry-race",
            &entry(EntryKind::Race {
                winner: Some("a".into()),
            }),
        ),
        seed("entry-version", &entry(EntryKind::Version { version: 2 })),
        seed("entry-cancel", &entry(EntryKind::Cancel { reason: "r".into() })),
        seed("message", &message),
        seed("failure", &failure),
        seed(
            "attempts",
            &Attempts {
                failed: vec![Attempt {
                    number: 1,
                    started_at_ms: 2,
                    duration_ms: 3,
                    failure: failure.clone(),
                }],
                count: 2,
                next_at_ms: Some(3),
            },
        ),
        seed(
            "store-header",
            &StoreHeader {
                format: 1,
                shards: 2,
                created_at_ms: 3,
                accepted_losses: vec![loss],
                arrivals_above: 9,
                importing: None,
                migration: None,
            },
        ),
    ]);
    seeds
}

fn facts(payload: &Payload) -> Vec<Seed> {
    let state = State {
        status: Status::Sleeping,
        run: 1,
        revision: 2,
        alarm_at_ms: Some(3),
        entries: 4,
        completions: 5,
        updated_at_ms: 6,
    };
    let origin = Origin {
        workflow: "w".into(),
        version: 2,
        created_at_ms: 3,
    };
    let row = IndexRow {
        workflow: "w".into(),
        status: Status::Parked,
        updated_at_ms: 1,
    };
    let held = Held {
        epoch: 1,
        owner: 2,
        sequence: 3,
        chain: 4,
    };
    vec![
        seed("state", &state),
        seed("origin", &origin),
        seed("input", &Input(payload.clone())),
        seed("output", &Output(payload.clone())),
        seed("alarm", &Alarm { revision: 2 }),
        seed("index-row", &row),
        seed("seen", &Seen { epoch: 1, number: 2 }),
        seed("runnable", &Runnable { activations: 3 }),
        seed("position", &held),
    ]
}

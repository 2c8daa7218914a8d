//! Where fuzzing begins: a key of every family, a record of every type, lengths that lie, a file, and a change of each
//! kind.

use std::borrow::Cow;

use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::payload::{KeyId, Payload};
use everstep::storage::record::{
    AcceptedLoss, Alarm, Answer, AtGate, Attempt, Attempts, BranchStatus, ChildState, ClosePolicy, Closing, Completed,
    Content, DeadLetter, Decided, Emitted, Entry, EntryKind, Failure, FailureDetails, FailureKind, Flow, Gate, Held,
    Hold, IndexRow, Input, LoopState, Message, Name, Origin, Outgoing, Output, Parcel, Parent, Priority, Published,
    Ran, Reach, Runnable, Seen, Stand, State, Status, StoreHeader, Tombstone,
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
        ("emitted", instance(Local::Emitted(9))),
        ("published", instance(Local::Published("p".into()))),
        ("answer", instance(Local::Answer("m".into()))),
        ("outbox", Key::Outbox(Shard(7), "a".into(), 3, 1)),
        ("dead", Key::Dead(Shard(7), 256, "m".into())),
        ("tombstone", Key::Tombstone(Shard(7), "a".into())),
        (
            "gate",
            Key::Gate(Shard(7), "k".into(), Arrival { epoch: 1, number: 2 }, "a".into()),
        ),
        ("placed", Key::Placed(Shard(7), "k".into(), "a".into())),
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
    let branch = Failure::from(FailureDetails {
        kind: FailureKind::Critical,
        message: "b".into(),
        path: String::new(),
        attempts: 0,
        causes: Vec::new(),
        branches: Vec::new(),
        code: None,
    });
    let failure = Failure::from(FailureDetails {
        kind: FailureKind::Exhausted,
        message: "no".into(),
        path: "a/b".into(),
        attempts: 3,
        causes: vec!["why".into(), String::new()],
        branches: vec![("x".into(), branch)],
        code: Some("ES0103".into()),
    });
    let message = Message::told(
        "n",
        MessageId::new("m").expect("a letter is an id"),
        payload.clone(),
        258,
    );
    let entry = |kind| Entry {
        id: 1,
        completed: Some(Completed { order: 2, at_ms: 3 }),
        kind,
        ran: Some(Ran {
            number: 1,
            started_at_ms: 2,
            duration_ms: 1,
        }),
    };
    let step = |outcome| entry(EntryKind::Step(outcome));
    let loss = AcceptedLoss {
        at_ms: 5,
        shard: 6,
        expected: Some(7),
        found: 8,
    };
    let mut seeds = facts(&payload);
    seeds.extend(between_instances(&payload, &failure, &message));
    seeds.extend([
        seed("name", &Name("größe".into())),
        seed("entry-open-step", &step(None)),
        seed("entry-step", &step(Some(Decided::Completed(payload.clone())))),
        seed("entry-failed-step", &step(Some(Decided::Failed(failure.clone())))),
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
                undo: None,
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
        seed("entry-passed", &entry(EntryKind::Passed { version: 2, seen: 7 })),
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
                progress: Some(payload.clone()),
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

/// What instances have to do with each other, and with who waits for them.
fn between_instances(payload: &Payload, failure: &Failure, message: &Message) -> Vec<Seed> {
    let entry = |kind| Entry {
        id: 1,
        completed: None,
        kind,
        ran: None,
    };
    let child = ChildState {
        instance: "c".into(),
        workflow: "w".into(),
        awaited: true,
        close: ClosePolicy::Abandon,
        closed: true,
        decided: Some(Decided::Failed(failure.clone())),
        reach: Reach::Parent,
    };
    let origin = Origin {
        parent: Some(Parent {
            instance: "p".into(),
            run: 6,
            entry: 7,
            awaited: true,
        }),
        tags: vec![("k".into(), "v".into())],
        deadline_at_ms: Some(5),
        ..Origin::new("w", 2, 3, 4)
    };
    let settled = Message {
        from: Some("c".into()),
        content: Content::Settled {
            run: 1,
            entry: 2,
            decided: Decided::Completed(payload.clone()),
            reach: Reach::Waiting,
        },
        ..message.clone()
    };
    let outgoing = |parcel| Outgoing { to: "t".into(), parcel };
    let (reason, instance, asks) = ("r".into(), "c".into(), Some(message.id.clone()));
    let children = vec![Closing { instance, asks }];
    let (input, decided) = (payload.clone(), Decided::Completed(payload.clone()));
    vec![
        seed("entry-child", &entry(EntryKind::Child(child))),
        seed("entry-compensating", &entry(EntryKind::Compensating(failure.clone()))),
        seed("message-settled", &settled),
        seed("outgoing-close", &outgoing(Parcel::Close { reason, children })),
        seed("outgoing-start", &outgoing(Parcel::Start { origin, input })),
        seed(
            "outgoing-message",
            &outgoing(Parcel::Message {
                message: settled.clone(),
                dead_letter: true,
            }),
        ),
        seed(
            "dead-letter",
            &DeadLetter {
                to: "t".into(),
                reason: "r".into(),
                message: message.clone(),
            },
        ),
        seed("answer", &Answer { decided, at_ms: 1 }),
        seed(
            "emitted",
            &Emitted {
                payload: payload.clone(),
                at_ms: 1,
            },
        ),
        seed("published", &Published(payload.clone())),
        seed(
            "hold",
            &Hold {
                reason: "r".into(),
                since_ms: 2,
                report: Some(payload.clone()),
            },
        ),
        seed("tombstone", &Tombstone { deleted_at_ms: 1 }),
        seed("at-gate", &AtGate { limit: 3 }),
        seed("flow", &flow()),
    ]
}

fn flow() -> Flow {
    let place = Some(Arrival { epoch: 1, number: 2 });
    let gate = Gate {
        key: "k".into(),
        limit: 3,
        stand: Stand::Inside { place },
    };
    Flow {
        priority: Priority::High,
        gate: Some(gate),
    }
}

/// The seeds of the target for export files: what is least in one, and what is least wrong.
pub fn imports() -> Vec<Seed> {
    let row = |key: &str, name: &str, record_type: u8, bare: &str| {
        format!(r#"{{"key":{key},"record":"{name}","type":{record_type},"schema":1,"bare":"{bare}"}}"#)
    };
    let name = row(r#"{"family":"name","instance":"a","index":0}"#, "name", 3, "0161");
    let location = r#"{"family":"history","instance":"a","location":[0,[0,1]]}"#;
    let entry = row(location, "entry", 4, "0400000000000000000603000000");
    vec![
        ("empty", Vec::new()),
        ("name", name.clone().into_bytes()),
        ("rows", format!("{name}\n{entry}").into_bytes()),
        (
            "header",
            br#"{"everstep_export":1,"format":1,"scope":"store","shards":4}"#.to_vec(),
        ),
    ]
}

/// The seeds of the target for histories: one change of each kind.
pub fn histories() -> Vec<Seed> {
    vec![
        ("nothing", Vec::new()),
        ("remove", vec![0, 20, 0]),
        ("change", vec![1, 12, 0, 8, 1]),
        ("copy", vec![2, 12, 13]),
        ("swap", vec![3, 12, 13]),
        ("insert", vec![4, 12, 0, 3, 2, 1, 1]),
        ("cut", vec![5, 12, 0, 9]),
        ("several", vec![0, 30, 0, 3, 10, 20, 1, 9, 0, 4, 255]),
    ]
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
        ..State::begun(0)
    };
    let origin = Origin {
        workflow: "w".into(),
        version: 2,
        created_at_ms: 3,
        ..Origin::new("", 0, 0, 0)
    };
    let row = IndexRow {
        workflow: "w".into(),
        status: Status::Parked,
        updated_at_ms: 1,
        parent: None,
        tags: Vec::new(),
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
        seed("runnable", &Runnable::new("w", 3)),
        seed("position", &held),
    ]
}

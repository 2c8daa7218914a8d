//! Golden bytes of every record.

use std::fmt::Debug;

use super::*;
use crate::ids::MessageId;
use crate::storage::key::Arrival;
use crate::storage::payload::{KeyId, Payload};
use crate::storage::value::{self, Record};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes behind the envelope's checksums are the published schema.
#[track_caller]
fn golden<R: Record + PartialEq + Debug>(record: &R, bytes: &str) {
    golden_of(1, record, bytes);
}

/// The same for a record that is written as another version than the first.
#[track_caller]
fn golden_of<R: Record + PartialEq + Debug>(version: u8, record: &R, bytes: &str) {
    let encoded = value::encode(b"key", record);
    assert_eq!(encoded[0], R::TYPE, "{}", R::NAME);
    assert_eq!(encoded[1], version, "{}", R::NAME);
    assert_eq!(
        hex(&encoded[value::ENVELOPE_BYTES..]),
        bytes.replace(' ', ""),
        "{}",
        R::NAME
    );
    assert_eq!(&value::decode::<R>(b"key", &encoded).unwrap(), record);
}

fn payload() -> Payload {
    Payload {
        key_id: KeyId(7),
        bytes: vec![0x63, b'a', b'b', b'c'],
    }
}

fn failure() -> Failure {
    let branch = Failure::new(FailureKind::Critical, "b");
    Failure::from(FailureDetails {
        kind: FailureKind::Exhausted,
        message: "no".into(),
        path: "p".into(),
        attempts: 2,
        causes: vec!["why".into()],
        branches: vec![("x".into(), branch)],
        code: Some("ES0103".into()),
    })
}

/// [`failure`] in BARE.
const FAILURE: &str = "03 026e6f 0170 02000000 01 03776879 01 0178 01 0162 00 00000000 00 00 00 01 06455330313033";

/// [`message`] in BARE.
const MESSAGE: &str = "016d 0201000000000000 00 00 016e 07000000 04 63616263";

fn message() -> Message {
    Message::told("n", MessageId::new("m").unwrap(), payload(), 258)
}

#[test]
fn records_of_the_store() {
    golden(
        &Held {
            epoch: 1,
            owner: 2,
            sequence: 3,
            chain: 4,
        },
        "0100000000000000 0200000000000000 0300000000000000 0400000000000000",
    );
    let loss = AcceptedLoss {
        at_ms: 5,
        shard: 6,
        expected: Some(7),
        found: 8,
    };
    golden(
        &StoreHeader {
            format: 1,
            shards: 2,
            created_at_ms: 3,
            accepted_losses: vec![loss],
            arrivals_above: 9,
            importing: Some(Importing {
                instance: Some("i".into()),
            }),
            migration: Some(MigrationProgress {
                from: 10,
                shard: 11,
                done: vec![12, 13],
            }),
        },
        "01000000 0200 0300000000000000 01 0500000000000000 0600 010700000000000000 0800000000000000 \
         0900000000000000 01 01 0169 01 0a000000 0b00 02 0c0d",
    );
}

fn entry(kind: EntryKind) -> Entry {
    Entry {
        id: 1,
        completed: None,
        kind,
        ran: None,
    }
}

/// What version 1 has of an entry, as it was frozen.
const FIRST_ENTRY: &str = "0100000000000000 01 0200000000000000 0300000000000000 00 01 00 07000000 04 63616263";

#[test]
fn an_entry_of_the_first_version_is_one_whose_attempt_is_not_known() {
    let completed = Some(Completed { order: 2, at_ms: 3 });
    let kind = EntryKind::Step(Some(Decided::Completed(payload())));
    let (id, ran) = (1, None);
    let of_version = |record_type, version, record: &[u8]| {
        let envelope = value::Envelope {
            record_type,
            version,
            record,
        };
        value::decode::<Entry>(b"key", &value::seal(b"key", &envelope))
    };
    let digits = FIRST_ENTRY.replace(' ', "");
    let digits = digits.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap());
    let first: Vec<u8> = digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
    assert_eq!(
        of_version(4, 1, &first).unwrap(),
        Entry {
            id,
            completed,
            kind,
            ran
        }
    );
    let longer = [&first[..], &[0]].concat();
    assert_eq!(of_version(4, 1, &longer).unwrap_err().code(), "ES0223");
    assert_eq!(of_version(4, 1, &first[..9]).unwrap_err().code(), "ES0228");
    assert_eq!(
        of_version(4, 0, &first).unwrap_err().code(),
        "ES0228",
        "there was none before it"
    );
    assert_eq!(of_version(4, 3, &first).unwrap_err().code(), "ES0227");
}

#[test]
fn records_of_a_history() {
    golden(&Name("größe".into()), "07 6772c3b6c39f65");
    let completed = Some(Completed { order: 2, at_ms: 3 });
    let kind = EntryKind::Step(Some(Decided::Completed(payload())));
    let ran = Some(Ran {
        number: 4,
        started_at_ms: 5,
        duration_ms: 6,
    });
    golden_of(
        2,
        &Entry {
            id: 1,
            completed,
            kind,
            ran,
        },
        &format!("{FIRST_ENTRY} 01 04000000 0500000000000000 0600000000000000"),
    );
    let failed = EntryKind::Step(Some(Decided::Failed(failure())));
    golden_of(2, &entry(failed), &format!("0100000000000000 00 00 01 01 {FAILURE} 00"));
    golden(&message(), MESSAGE);
    let attempt = Attempt {
        number: 1,
        started_at_ms: 2,
        duration_ms: 3,
        failure: failure(),
    };
    golden(
        &Attempts {
            failed: vec![attempt],
            count: 2,
            next_at_ms: Some(3),
            progress: Some(payload()),
        },
        &format!(
            "01 01000000 0200000000000000 0300000000000000 {FAILURE} 02000000 01 0300000000000000 01 07000000 04 63616263"
        ),
    );
    golden(&failure(), FAILURE);
}

#[test]
fn entries_of_every_kind() {
    let begun = |kind: EntryKind, bytes: &str| golden_of(2, &entry(kind), &format!("0100000000000000 00 {bytes} 00"));
    begun(EntryKind::Step(None), "00 00");
    begun(EntryKind::Sleep { wake_at_ms: 9 }, "01 0900000000000000");
    begun(
        EntryKind::Receive {
            until_ms: Some(9),
            taken: vec![message()],
        },
        &format!("02 01 0900000000000000 01 {MESSAGE}"),
    );
    let state = LoopState {
        iteration: 20,
        state: payload(),
        kept_from: 5,
        output: Some(payload()),
        seen: 6,
        now_ms: 7,
        undo: Some(Retained {
            iteration: 19,
            state: payload(),
            seen: 3,
            now_ms: 4,
        }),
    };
    begun(
        EntryKind::Loop(state),
        "03 1400000000000000 07000000 04 63616263 0500000000000000 01 07000000 04 63616263 \
         0600000000000000 0700000000000000 01 1300000000000000 07000000 04 63616263 \
         0300000000000000 0400000000000000",
    );
    let branches = vec![("a".into(), BranchStatus::Running), ("b".into(), BranchStatus::Failed)];
    begun(EntryKind::Join { branches }, "04 02 0161 01 0162 03");
    begun(
        EntryKind::Race {
            winner: Some("a".into()),
        },
        "05 01 0161",
    );
    begun(EntryKind::Version { version: 2 }, "06 02000000");
    begun(
        EntryKind::Passed { version: 2, seen: 7 },
        "14 02000000 0700000000000000",
    );
    begun(EntryKind::Removed, "07");
    begun(EntryKind::Cancel { reason: "r".into() }, "08 0172");
    begun(EntryKind::Deadline, "09");
}

#[test]
fn entries_that_reach_outside() {
    let begun = |kind: EntryKind, bytes: &str| golden_of(2, &entry(kind), &format!("0100000000000000 00 {bytes} 00"));
    let id = || MessageId::new("m").unwrap();
    begun(EntryKind::Map { items: 3 }, "0a 0300000000000000");
    let child = ChildState {
        instance: "c".into(),
        workflow: "w".into(),
        awaited: true,
        close: ClosePolicy::Abandon,
        closed: true,
        decided: Some(Decided::Completed(payload())),
        reach: Reach::Nobody,
    };
    begun(
        EntryKind::Child(child),
        "0b 0163 0177 01 02 01 01 00 07000000 04 63616263 02",
    );
    let (to, name) = ("t".into(), "n".into());
    begun(EntryKind::Sent { to, name, id: id() }, "0c 0174 016e 016d");
    begun(
        EntryKind::Publish {
            topic: "t".into(),
            id: id(),
        },
        "0d 0174 016d",
    );
    let (topic, until_ms, decided) = ("t".into(), Some(9), Some(Decided::Completed(payload())));
    let event = EntryKind::Event {
        topic,
        until_ms,
        decided,
    };
    begun(event, "0e 0174 01 0900000000000000 01 00 07000000 04 63616263");
    let (until_ms, decided) = (Some(9), Some(Decided::Failed(failure())));
    begun(
        EntryKind::Promise { until_ms, decided },
        &format!("0f 01 0900000000000000 01 01 {FAILURE}"),
    );
}

#[test]
fn entries_of_undoing() {
    let begun = |kind: EntryKind, bytes: &str| golden_of(2, &entry(kind), &format!("0100000000000000 00 {bytes} 00"));
    let (input, seen, decided) = (payload(), 5, None);
    begun(
        EntryKind::Compensation { input, seen, decided },
        "10 07000000 04 63616263 0500000000000000 00",
    );
    begun(EntryKind::Rollback(None), "11 00");
    begun(EntryKind::Checkpoint, "12");
    begun(EntryKind::Compensating(failure()), &format!("13 {FAILURE}"));
}

#[test]
fn messages_of_every_content() {
    let sent = |content: Content, bytes: &str| {
        let message = Message {
            from: Some("f".into()),
            content,
            ..message()
        };
        golden(&message, &format!("016d 0201000000000000 01 0166 {bytes}"));
    };
    let (name, payload) = ("n".into(), payload());
    sent(Content::Asked { name, payload }, "01 016e 07000000 04 63616263");
    let settled = Content::Settled {
        run: 2,
        entry: 3,
        decided: Decided::Failed(failure()),
        reach: Reach::Parent,
    };
    sent(settled, &format!("02 02000000 0300000000000000 01 {FAILURE} 01"));
    sent(Content::Cancel { reason: "r".into() }, "03 0172");
    sent(Content::Pause, "04");
    sent(Content::Resume, "05");
}

#[test]
fn records_of_an_instance() {
    golden(
        &State {
            status: Status::Sleeping,
            run: 1,
            revision: 2,
            alarm_at_ms: Some(3),
            entries: 4,
            completions: 5,
            updated_at_ms: 6,
            drawn_in: 7,
            keyed_in: 8,
            retries: 9,
            emitted: 10,
            paused: true,
            said: 11,
            began_at_ms: 12,
        },
        "02 01000000 0200000000000000 010300000000000000 0400000000000000 0500000000000000 0600000000000000 \
         07000000 08000000 09000000 0a00000000000000 01 0b00000000000000 0c00000000000000",
    );
    let parent = Parent {
        instance: "p".into(),
        run: 6,
        entry: 7,
        awaited: true,
    };
    golden(
        &Origin {
            workflow: "w".into(),
            version: 2,
            created_at_ms: 3,
            secret: 4.into(),
            seed: Some(9.into()),
            parent: Some(parent),
            tags: vec![("k".into(), "v".into())],
            deadline_at_ms: Some(5),
        },
        "0177 02000000 0300000000000000 00000000000000000000000000000004 \
         01 00000000000000000000000000000009 01 0170 06000000 0700000000000000 01 01 016b 0176 01 \
         0500000000000000",
    );
    golden(&Input(payload()), "07000000 04 63616263");
    golden(&Output(payload()), "07000000 04 63616263");
    golden(&Published(payload()), "07000000 04 63616263");
    let (payload, at_ms) = (payload(), 1);
    golden(
        &Emitted {
            payload: payload.clone(),
            at_ms,
        },
        "07000000 04 63616263 0100000000000000",
    );
    let decided = Decided::Completed(payload.clone());
    golden(&Answer { decided, at_ms }, "00 07000000 04 63616263 0100000000000000");
    golden(
        &Hold {
            reason: "r".into(),
            since_ms: 2,
            report: Some(payload),
        },
        "0172 0200000000000000 01 07000000 04 63616263",
    );
}

#[test]
fn records_beside_the_namespaces() {
    golden(&Alarm { revision: 2 }, "0200000000000000");
    golden(
        &IndexRow {
            workflow: "w".into(),
            status: Status::Parked,
            updated_at_ms: 1,
            parent: Some("p".into()),
            tags: vec![("k".into(), "v".into())],
        },
        "0177 0e 0100000000000000 01 0170 01 016b 0176",
    );
    golden(&Seen { epoch: 1, number: 2 }, "0100000000000000 0200000000000000");
    golden(&Runnable::new("w", 3), "0177 03000000");
    golden(&Tombstone { deleted_at_ms: 1 }, "0100000000000000");
    let (to, reason) = ("t".to_owned(), "r".to_owned());
    let letter = DeadLetter {
        to: to.clone(),
        reason: reason.clone(),
        message: message(),
    };
    golden(&letter, &format!("0174 0172 {MESSAGE}"));
    let outgoing = |parcel: Parcel, bytes: &str| {
        let to = to.clone();
        golden(&Outgoing { to, parcel }, &format!("0174 {bytes}"));
    };
    let (origin, input) = (Origin::new("w", 2, 3, 4), payload());
    outgoing(
        Parcel::Start { origin, input },
        "01 0177 02000000 0300000000000000 00000000000000000000000000000004 00 00 00 00 07000000 04 63616263",
    );
    let (asked, ended) = (Some(MessageId::new("m").unwrap()), None);
    let children = [("a", asked), ("b", ended)].map(|(instance, asks)| {
        let instance = instance.into();
        Closing { instance, asks }
    });
    let children = children.into();
    outgoing(Parcel::Close { reason, children }, "02 0172 02 0161 01 016d 0162 00");
    let (key, place) = ("k".to_owned(), Some(Arrival { epoch: 1, number: 2 }));
    let at = "01 0100000000000000 0200000000000000";
    let (limit, gate) = (3, key.clone());
    outgoing(Parcel::Enter { key, limit, place }, &format!("03 016b 03000000 {at}"));
    let (key, limit) = (gate.clone(), 3);
    outgoing(Parcel::Leave { key, place: None }, "04 016b 00");
    golden(&AtGate { limit }, "03000000");
    let (priority, key) = (Priority::High, gate);
    let stand = Stand::Inside { place };
    let gate = Some(Gate { key, limit, stand });
    let flow = Flow { priority, gate };
    golden(&flow, &format!("02 01 016b 03000000 02 {at}"));
    let (origin, input) = (Origin::new("w", 2, 3, 4), payload());
    let started = "0177 02000000 0300000000000000 00000000000000000000000000000004 00 00 00 00 07000000 04 63616263";
    let with = format!("05 {started} 02 01 016b 03000000 02 {at}");
    outgoing(Parcel::start(origin, input, flow), &with);
    let (message, dead_letter) = (message(), true);
    outgoing(Parcel::Message { message, dead_letter }, &format!("00 {MESSAGE} 01"));
}

#[test]
fn a_message_with_an_id_that_no_message_may_have_is_refused() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Raw(String, u64, Option<String>, Content);
    impl Record for Raw {
        const TYPE: u8 = Message::TYPE;
        const NAME: &'static str = "message";
    }
    let bytes = value::encode(b"key", &Raw("a/b".into(), 0, None, Content::Pause));
    assert_eq!(value::decode::<Message>(b"key", &bytes).unwrap_err().code(), "ES0228");
}

#[test]
fn an_entry_that_no_runtime_would_write_is_noticed() {
    let completed = Some(Completed { order: 2, at_ms: 3 });
    let flaw = |completed, kind| {
        Entry {
            completed,
            ..entry(kind)
        }
        .flaw()
    };
    let child = |instance: &str, awaited, decided| {
        EntryKind::Child(ChildState {
            instance: instance.into(),
            workflow: "w".into(),
            awaited,
            close: ClosePolicy::Cancel,
            closed: false,
            decided,
            reach: Reach::Waiting,
        })
    };
    let ended = || Some(Decided::Completed(payload()));
    assert!(
        flaw(None, EntryKind::Step(None)).is_none(),
        "a step that was only begun"
    );
    assert!(flaw(completed, EntryKind::Step(None)).is_some());
    assert!(flaw(completed, child("c", true, ended())).is_none());
    assert!(
        flaw(completed, child("c", false, None)).is_none(),
        "one that was let go"
    );
    assert!(flaw(completed, child("c", true, None)).is_some());
    assert!(flaw(None, child("\u{3}", true, None)).is_some());
    let took = |content| EntryKind::Receive {
        until_ms: None,
        taken: vec![Message { content, ..message() }],
    };
    assert!(flaw(completed, took(message().content)).is_none());
    assert!(flaw(completed, took(Content::Pause)).is_some());
}

/// Found in review: a file with failures inside each other, deep enough, overflowed the stack of whoever imported it.
#[test]
fn failures_inside_each_other_are_read_to_a_bound() {
    let nested = |depth: usize| {
        let mut failure = Failure::new(FailureKind::Error, "");
        for _ in 1..depth {
            failure = Failure::new(FailureKind::Error, "").in_branches(vec![(String::new(), failure)]);
        }
        value::encode(b"key", &failure)
    };
    let read = |depth| value::decode::<Failure>(b"key", &nested(depth));
    assert!(read(crate::limits::FAILURE_DEPTH_MAX).is_ok());
    assert!(read(crate::limits::FAILURE_DEPTH_MAX + 1).is_err());
    assert!(
        read(crate::limits::FAILURE_DEPTH_MAX).is_ok(),
        "one that was refused does not count"
    );
}

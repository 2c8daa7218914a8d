//! Golden bytes of every record.

use std::fmt::Debug;

use super::*;
use crate::ids::MessageId;
use crate::storage::payload::{KeyId, Payload};
use crate::storage::value::{self, Record};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes behind the envelope's checksums are the published schema.
#[track_caller]
fn golden<R: Record + PartialEq + Debug>(record: &R, bytes: &str) {
    let encoded = value::encode(b"key", record);
    assert_eq!(encoded[0], R::TYPE, "{}", R::NAME);
    assert_eq!(encoded[1], 1, "{}", R::NAME);
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
    Failure {
        kind: FailureKind::Exhausted,
        message: "no".into(),
        path: "p".into(),
        attempts: 2,
        causes: vec!["why".into()],
        branches: vec![("x".into(), branch)],
    }
}

/// [`failure`] in BARE.
const FAILURE: &str = "03 026e6f 0170 02000000 01 03776879 01 0178 01 0162 00 00000000 00 00";

fn message() -> Message {
    Message {
        name: "n".into(),
        id: MessageId::new("m").unwrap(),
        payload: payload(),
        sent_at_ms: 258,
    }
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
    }
}

#[test]
fn records_of_a_history() {
    golden(&Name("größe".into()), "07 6772c3b6c39f65");
    let completed = Some(Completed { order: 2, at_ms: 3 });
    let kind = EntryKind::Step(Some(StepOutcome::Completed(payload())));
    golden(
        &Entry { id: 1, completed, kind },
        "0100000000000000 01 0200000000000000 0300000000000000 00 01 00 07000000 04 63616263",
    );
    let failed = EntryKind::Step(Some(StepOutcome::Failed(failure())));
    golden(&entry(failed), &format!("0100000000000000 00 00 01 01 {FAILURE}"));
    golden(&message(), "016e 016d 07000000 04 63616263 0201000000000000");
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
        },
        &format!("01 01000000 0200000000000000 0300000000000000 {FAILURE} 02000000 01 0300000000000000"),
    );
    golden(&failure(), FAILURE);
}

#[test]
fn entries_of_every_kind() {
    let begun = |kind: EntryKind, bytes: &str| golden(&entry(kind), &format!("0100000000000000 00 {bytes}"));
    begun(EntryKind::Step(None), "00 00");
    begun(EntryKind::Sleep { wake_at_ms: 9 }, "01 0900000000000000");
    begun(
        EntryKind::Receive {
            until_ms: Some(9),
            taken: vec![message()],
        },
        "02 01 0900000000000000 01 016e 016d 07000000 04 63616263 0201000000000000",
    );
    let state = LoopState {
        iteration: 20,
        state: payload(),
        kept_from: 5,
        output: Some(payload()),
        seen: 6,
        now_ms: 7,
    };
    begun(
        EntryKind::Loop(state),
        "03 1400000000000000 07000000 04 63616263 0500000000000000 01 07000000 04 63616263 \
         0600000000000000 0700000000000000",
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
    begun(EntryKind::Removed, "07");
    begun(EntryKind::Cancel { reason: "r".into() }, "08 0172");
    begun(EntryKind::Deadline, "09");
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
        },
        "02 01000000 0200000000000000 010300000000000000 0400000000000000 0500000000000000 0600000000000000",
    );
    golden(
        &Origin {
            workflow: "w".into(),
            version: 2,
            created_at_ms: 3,
        },
        "0177 02000000 0300000000000000",
    );
    golden(&Input(payload()), "07000000 04 63616263");
    golden(&Output(payload()), "07000000 04 63616263");
}

#[test]
fn records_beside_the_namespaces() {
    golden(&Alarm { revision: 2 }, "0200000000000000");
    golden(
        &IndexRow {
            workflow: "w".into(),
            status: Status::Parked,
            updated_at_ms: 1,
        },
        "0177 0e 0100000000000000",
    );
    golden(&Seen { epoch: 1, number: 2 }, "0100000000000000 0200000000000000");
    golden(&Runnable { activations: 3 }, "03000000");
}

#[test]
fn a_message_with_an_id_that_no_message_may_have_is_refused() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Raw(String, String, Payload, u64);
    impl Record for Raw {
        const TYPE: u8 = Message::TYPE;
        const NAME: &'static str = "message";
    }
    let bytes = value::encode(b"key", &Raw("n".into(), "a/b".into(), payload(), 0));
    assert_eq!(value::decode::<Message>(b"key", &bytes).unwrap_err().code(), "ES0228");
}

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
    Failure {
        message: "no".into(),
        causes: vec!["why".into()],
    }
}

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

#[test]
fn records_of_a_history() {
    golden(&Name("größe".into()), "07 6772c3b6c39f65");
    golden(
        &Entry {
            id: 1,
            order: Some(2),
            kind: EntryKind::Step(Some(StepOutcome::Completed(payload()))),
        },
        "0100000000000000 010200000000000000 00 01 00 07000000 04 63616263",
    );
    golden(
        &Entry {
            id: 1,
            order: Some(2),
            kind: EntryKind::Step(Some(StepOutcome::Failed(failure()))),
        },
        "0100000000000000 010200000000000000 00 01 01 026e6f 01 03776879",
    );
    golden(
        &Entry {
            id: 1,
            order: None,
            kind: EntryKind::Step(None),
        },
        "0100000000000000 00 00 00",
    );
    golden(
        &Entry {
            id: 1,
            order: None,
            kind: EntryKind::Sleep { wake_at_ms: 9 },
        },
        "0100000000000000 00 01 0900000000000000",
    );
    golden(
        &Entry {
            id: 1,
            order: None,
            kind: EntryKind::Message(message()),
        },
        "0100000000000000 00 02 016e 016d 07000000 04 63616263 0201000000000000",
    );
    golden(&message(), "016e 016d 07000000 04 63616263 0201000000000000");
    golden(
        &Attempts {
            count: 2,
            last: Some(failure()),
            next_at_ms: Some(3),
        },
        "02000000 01 026e6f 01 03776879 01 0300000000000000",
    );
    golden(&failure(), "026e6f 01 03776879");
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

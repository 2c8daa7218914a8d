//! The examples in `docs/FORMAT.md` are what the code writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everstep::Shard;
use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Key, Local, Meta};
use everstep::storage::record::{
    AcceptedLoss, Alarm, Failure, FailureDetails, FailureKind, Name, State, Status, StoreHeader,
};
use everstep::storage::value;
use everstep::{Ctx, Result, Runtime, ok, workflow};

const FORMAT: &str = include_str!("../docs/FORMAT.md");

type Examples = BTreeMap<String, String>;

/// The rows of the table with this title: what is told, and its bytes.
fn table(title: &str) -> Examples {
    let rows = FORMAT
        .lines()
        .skip_while(|line| !line.starts_with(&format!("| {title} |")));
    rows.skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<_> = line.split('`').collect();
            assert_eq!(cells.len(), 5, "a row has two cells: {line}");
            (cells[1].to_owned(), cells[3].replace(' ', ""))
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn examples<const N: usize>(written: [(&str, Vec<u8>); N]) -> Examples {
    written
        .into_iter()
        .map(|(told, bytes)| (told.to_owned(), hex(&bytes)))
        .collect()
}

#[test]
fn keys() {
    let of = |local| Key::Instance(Shard(7), "a".into(), local).pack();
    let history = |segments: Vec<Segment>| of(Local::History(Cow::Owned(Location::try_from(segments).unwrap())));
    let iteration = |name, number| Segment::Iteration { name, number };
    let path = vec![
        Segment::Name(2),
        iteration(2, 0),
        iteration(300, 1_000_000),
        Segment::Name(3),
    ];
    let written = examples([
        ("store", Key::Store.pack()),
        ("position, shard 0", Key::Position(Shard(0)).pack()),
        ("position, shard 1023", Key::Position(Shard(1023)).pack()),
        ("name 0 of \"a\" in shard 7", of(Local::Name(0))),
        ("history of \"a\", path empty", history(Vec::new())),
        ("history of \"a\", path 2, (2, 0), (300, 1000000), 3", history(path)),
        (
            "inbox of \"a\", epoch 1, number 256",
            of(Local::Inbox(Arrival { epoch: 1, number: 256 })),
        ),
        ("state of \"a\"", of(Local::Meta(Meta::State))),
        ("attempts of \"a\" at entry 9", of(Local::Attempts(9))),
        (
            "alarm of \"a\" at 1700000000000",
            Key::Alarm(Shard(7), 1_700_000_000_000, "a".into()).pack(),
        ),
        ("listing of \"é\" at 0", Key::Index(Shard(7), 0, "é".into()).pack()),
        (
            "message \"m\" seen by \"a\"",
            Key::Dedup(Shard(7), "a".into(), "m".into()).pack(),
        ),
        ("runnable \"a\"", Key::Runnable(Shard(7), "a".into()).pack()),
    ]);
    assert_eq!(table("key"), written);
}

#[test]
fn values() {
    let key = Key::Store.pack();
    let failure = Failure::from(FailureDetails {
        kind: FailureKind::Exhausted,
        message: "no".into(),
        path: "p".into(),
        attempts: 2,
        causes: vec!["why".into()],
        branches: Vec::new(),
        code: None,
    });
    let state = State {
        status: Status::Sleeping,
        run: 1,
        revision: 2,
        alarm_at_ms: Some(3),
        entries: 4,
        completions: 5,
        updated_at_ms: 6,
        drawn_in: 1,
        keyed_in: 1,
        retries: 0,
        emitted: 7,
        paused: false,
        said: 6,
        began_at_ms: 3,
    };
    let loss = AcceptedLoss {
        at_ms: 5,
        shard: 6,
        expected: Some(7),
        found: 8,
    };
    let header = StoreHeader {
        format: 1,
        shards: 2,
        created_at_ms: 3,
        accepted_losses: vec![loss],
        arrivals_above: 9,
        importing: None,
        migration: None,
    };
    let written = examples([
        ("name \"größe\"", value::encode(&key, &Name("größe".into()))),
        ("alarm, revision 2", value::encode(&key, &Alarm { revision: 2 })),
        ("failure \"no\" because of \"why\"", value::encode(&key, &failure)),
        ("state sleeping, 1 to 7", value::encode(&key, &state)),
        ("header, one loss", value::encode(&key, &header)),
    ]);
    assert_eq!(table("value at the key `store`"), written);
}

/// Reads the flight recorder while it runs, so that it is told of itself.
#[workflow]
async fn looks(ctx: Ctx<Looks>, path: String) -> Result<Vec<u8>> {
    let look = move || {
        let path = path.clone();
        async move { std::fs::read(path) }
    };
    ok(ctx.step("look", look).await?)
}

/// Found in review: the page had forgotten three of the parts of a slot.
#[tokio::test]
async fn the_flight_recorder() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("data");
    let runtime = Runtime::builder().workflow(looks);
    let runtime = runtime.open(&store.display().to_string()).await.unwrap();
    let path = store.join("flight").display().to_string();
    let started = runtime.start(looks, path).id("größe").await.unwrap();
    let flight = started.result().await.unwrap();
    runtime.stop().await;

    assert_eq!(flight.len() % 256, 0, "whole slots");
    let slot = flight
        .chunks(256)
        .find(|slot| slot.iter().any(|byte| *byte != 0))
        .unwrap();
    // The parts as they are written down, one behind the other.
    let written = table("bytes of a slot");
    let mut parts: Vec<(usize, usize)> = written
        .iter()
        .map(|(at, length)| (at.parse().unwrap(), length.parse().unwrap()))
        .collect();
    parts.sort_unstable();
    let mut end = 0;
    let parts = parts.into_iter().map(|(at, length)| {
        assert_eq!(at, end, "no gap, and nothing twice");
        end = at + length;
        &slot[at..end]
    });
    let parts: Vec<_> = parts.collect();
    let &[checksum, first, last, cleared, length, id, zeros, deaths, attempts] = parts.as_slice() else {
        panic!("{} parts", parts.len());
    };
    assert_eq!(end, slot.len());
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |number: u64, byte| number << 8 | u64::from(*byte))
    };
    assert_eq!(number(checksum), xxhash_rust::xxh3::xxh3_64(&slot[8..]));
    assert!(0 < number(first) && number(first) <= number(last) && number(last) < 10);
    assert_eq!((number(cleared), number(deaths), number(zeros)), (0, 0, 0));
    let (name, rest) = id.split_at(number(length).try_into().unwrap());
    assert_eq!((std::str::from_utf8(name).unwrap(), number(rest)), ("größe", 0));
    assert_eq!(
        attempts.iter().map(|byte| byte.count_ones()).sum::<u32>(),
        1,
        "one step"
    );
}

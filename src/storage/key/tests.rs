//! Keys: golden bytes, round trip, order, isolation.

use proptest::prelude::*;

use super::*;
use crate::limits::LOCATION_DEPTH_MAX;

fn name(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Published bytes. If one of these changes, every store in the world becomes unreadable.
#[test]
fn golden_bytes() {
    let deep = Location::try_from(vec![
        Segment::Name(2),
        Segment::Iteration { name: 2, number: 0 },
        Segment::Iteration {
            name: 300,
            number: 1_000_000,
        },
        Segment::Name(3),
    ])
    .unwrap();
    let instance = |local| Key::Instance(Shard(7), name("a"), local);
    let cases = [
        (Key::Store, "0273746f726500"),
        (Key::Position(Shard(0)), "1414"),
        (Key::Position(Shard(1023)), "1603ff14"),
        (instance(Local::Name(0)), "1507 1501 026100 1501 14"),
        (
            instance(Local::History(Cow::Owned(Location::root()))),
            "150715010261001502",
        ),
        (
            instance(Local::History(Cow::Owned(deep))),
            "1507150102610015021502051502140005 16012c170f424000 1503",
        ),
        (
            instance(Local::Inbox(Arrival { epoch: 1, number: 256 })),
            "1507150102610015031501160100",
        ),
        (instance(Local::Meta(Meta::State)), "1507150102610015041501"),
        (instance(Local::Attempts(9)), "1507150102610015051509"),
        (
            Key::Alarm(Shard(7), 1_700_000_000_000, name("a")),
            "1507 1502 1a018bcfe56800 026100",
        ),
        (Key::Index(Shard(7), 0, name("é")), "150715031402c3a900"),
        (Key::Dedup(Shard(7), name("a"), name("m")), "15071504026100026d00"),
        (Key::Runnable(Shard(7), name("a")), "15071505026100"),
        (instance(Local::Emitted(9)), "1507150102610015061509"),
        (instance(Local::Published(name("p"))), "15071501026100 1507 027000"),
        (instance(Local::Answer(name("m"))), "15071501026100 1508 026d00"),
        (Key::Outbox(Shard(7), name("a"), 3, 0), "15071506026100 1503 14"),
        (Key::Dead(Shard(7), 256, name("m")), "15071507160100026d00"),
        (Key::Tombstone(Shard(7), name("a")), "15071508026100"),
        (
            Key::Gate(Shard(7), name("k"), Arrival { epoch: 1, number: 2 }, name("a")),
            "1507 150e 026b00 1501 1502 026100",
        ),
        (Key::Placed(Shard(7), name("k"), name("a")), "1507 150f 026b00 026100"),
    ];
    for (key, golden) in cases {
        let golden = golden.replace(' ', "");
        assert_eq!(hex(&key.pack()), golden, "{key:?}");
    }
}

#[test]
fn numbers_that_no_key_packs_are_refused() {
    assert!(Key::unpack(&[0x14]).is_err(), "a shard alone");
    assert!(Key::unpack(b"").is_err(), "nothing");
    assert!(Key::unpack(&[0x15, 0x07, 0x15, 0x09]).is_err(), "an unknown family");
    assert!(Key::unpack(&[0x13, 0xfe, 0x14]).is_err(), "a negative shard");
    assert!(
        Key::unpack(&[0x17, 0xff, 0xff, 0xff, 0x14]).is_err(),
        "a shard that no store has"
    );
    // The same number in one byte more than it needs: decodes to the same tuple, is not the same key.
    assert!(Key::unpack(&[0x16, 0x00, 0x07, 0x14]).is_err(), "not canonical");
}

#[test]
fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
    assert!(Key::unpack(&vec![0x05; 500]).is_err());
    let history = [0x14, 0x15, 0x01, 0x02, b'a', 0x00, 0x15, 0x02];
    let deep = [&history[..], &[0x05; 500], &[0x00; 500]].concat();
    assert_eq!(Key::unpack(&deep), Err(InvalidKey("too deeply nested".into())));
    assert!(Key::unpack(&vec![0x05; 8_000]).is_err());
    assert!(Key::unpack(&vec![0x05; 1 << 20]).is_err());
}

/// The byte that opens a tuple is also a byte of numbers. The deepest location, with as many of them as its numbers
/// can hold, is a key all the same.
#[test]
fn numbers_full_of_the_nesting_byte_are_not_nesting() {
    let segment = Segment::Iteration {
        name: 0x0505_0505,
        number: 0x0505_0505_0505_0505,
    };
    let location = Location::try_from(vec![segment; LOCATION_DEPTH_MAX]).unwrap();
    let key = Key::Instance(Shard(0x0505), "a".into(), Local::History(Cow::Owned(location)));
    assert_eq!(Key::unpack(&key.pack()).unwrap(), key);
}

/// Found by the property below: `00` in a text is packed as `00 ff`, so the packed form of "\0" is a prefix of the
/// packed form of "\0\0". No id has a NUL in it, and the range does not rely on that.
#[test]
fn an_id_that_ends_in_nul_is_not_below_a_shorter_one() {
    let (start, end) = below(&namespace(Shard(1), "\0"));
    let other = Key::Instance(Shard(1), "\0\0".into(), Local::Name(0)).pack();
    assert!(other.starts_with(&start));
    assert!(other >= end);
}

fn arb_number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, 250..260_u64, 65_530..65_540_u64, 0..=(i64::MAX as u64)]
}

fn arb_id() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{1,3}", "[a\u{0}\u{ff}b]{1,3}", "\\PC{1,20}"]
}

fn arb_segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        (0..400_u32).prop_map(Segment::Name),
        (0..400_u32, arb_number()).prop_map(|(name, number)| Segment::Iteration { name, number }),
    ]
}

fn arb_location() -> impl Strategy<Value = Location> {
    prop::collection::vec(arb_segment(), 0..8).prop_map(|segments| Location::try_from(segments).unwrap())
}

fn arb_local() -> impl Strategy<Value = Local<'static>> {
    prop_oneof![
        any::<u32>().prop_map(Local::Name),
        arb_location().prop_map(|location| Local::History(Cow::Owned(location))),
        (arb_number(), arb_number()).prop_map(|(epoch, number)| Local::Inbox(Arrival { epoch, number })),
        prop::sample::select(&Meta::ALL[..]).prop_map(Local::Meta),
        arb_number().prop_map(Local::Attempts),
        arb_number().prop_map(Local::Emitted),
        arb_id().prop_map(|name| Local::Published(name.into())),
        arb_id().prop_map(|message| Local::Answer(message.into())),
    ]
}

fn arb_key() -> impl Strategy<Value = Key<'static>> {
    let shard = || (0..1024_u16).prop_map(Shard);
    prop_oneof![
        Just(Key::Store),
        shard().prop_map(Key::Position),
        (shard(), arb_id(), arb_local()).prop_map(|(shard, id, local)| Key::Instance(shard, id.into(), local)),
        (shard(), arb_number(), arb_id()).prop_map(|(shard, at, id)| Key::Alarm(shard, at, id.into())),
        (shard(), arb_number(), arb_id()).prop_map(|(shard, at, id)| Key::Index(shard, at, id.into())),
        (shard(), arb_id(), arb_id()).prop_map(|(shard, id, message)| Key::Dedup(shard, id.into(), message.into())),
        (shard(), arb_id()).prop_map(|(shard, id)| Key::Runnable(shard, id.into())),
        (shard(), arb_id(), arb_number(), any::<u32>()).prop_map(|(shard, id, revision, index)| Key::Outbox(
            shard,
            id.into(),
            revision,
            index
        )),
        (shard(), arb_number(), arb_id()).prop_map(|(shard, at, id)| Key::Dead(shard, at, id.into())),
        (shard(), arb_id()).prop_map(|(shard, id)| Key::Tombstone(shard, id.into())),
        (shard(), arb_id(), arb_number(), arb_number(), arb_id()).prop_map(|(shard, gate, epoch, number, id)| {
            Key::Gate(shard, gate.into(), Arrival { epoch, number }, id.into())
        }),
        (shard(), arb_id(), arb_id()).prop_map(|(shard, gate, id)| Key::Placed(shard, gate.into(), id.into())),
    ]
}

proptest! {
    #[test]
    fn every_key_comes_back(key in arb_key()) {
        prop_assert_eq!(Key::unpack(&key.pack()).unwrap(), key);
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(key) = Key::unpack(&bytes) {
            prop_assert_eq!(key.pack(), bytes);
        }
    }

    #[test]
    fn alarms_and_arrivals_sort_by_their_numbers(one in arb_number(), two in arb_number(), id in arb_id()) {
        let alarm = |at| Key::Alarm(Shard(3), at, id.clone().into()).pack();
        prop_assert_eq!(alarm(one).cmp(&alarm(two)), one.cmp(&two));
        let inbox = |epoch, number| {
            let arrival = Local::Inbox(Arrival { epoch, number });
            Key::Instance(Shard(3), id.clone().into(), arrival).pack()
        };
        prop_assert_eq!(inbox(one, 5).cmp(&inbox(two, 5)), one.cmp(&two));
        prop_assert_eq!(inbox(5, one).cmp(&inbox(5, two)), one.cmp(&two));
    }

    #[test]
    fn locations_sort_depth_first(one in arb_location(), two in arb_location()) {
        let key = |location: &Location| Key::Instance(Shard(0), "i".into(), Local::History(Cow::Borrowed(location))).pack();
        let below_one = below(&key(&one));
        let inside = two.segments().starts_with(one.segments());
        let found = key(&two) >= below_one.0 && key(&two) < below_one.1;
        prop_assert_eq!(found, inside, "a prefix scan shows exactly what is below");
    }

    #[test]
    fn no_id_is_a_prefix_of_anothers_space(one in arb_id(), two in arb_id(), local in arb_local()) {
        let (start, end) = below(&namespace(Shard(1), &one));
        let other = Key::Instance(Shard(1), two.clone().into(), local).pack();
        prop_assert_eq!(start <= other && other < end, one == two);
    }
}

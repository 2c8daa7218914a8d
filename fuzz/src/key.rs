//! The target for keys.
//!
//! - Any bytes are a key or an error, and a key only if packing it gives the same bytes: one key has one spelling.
//! - Any key that the store can make comes back from its packed form.

use std::borrow::Cow;

use everstep::Shard;
use everstep::limits::{ID_BYTES_MAX, KEY_BYTES_MAX, LOCATION_DEPTH_MAX};
use everstep::location::{Location, Segment};
use everstep::storage::key::{Arrival, Key, Local, Meta};

use crate::input::Input;
use crate::memory::bounded;

/// Checks one input, as a packed key and as the recipe for a key.
pub fn check(data: &[u8]) {
    arbitrary(data);
    made(data);
}

fn arbitrary(data: &[u8]) {
    if let Ok(key) = bounded(data.len(), || Key::unpack(data)) {
        assert!(data.len() <= KEY_BYTES_MAX, "{key:?} is too long for a key");
        assert_eq!(key.pack(), data, "{key:?} has two spellings");
    }
}

fn made(data: &[u8]) {
    let key = key(&mut Input::new(data));
    let packed = key.pack();
    assert!(packed.len() <= KEY_BYTES_MAX, "{key:?} is too long for a key");
    let unpacked = bounded(packed.len(), || Key::unpack(&packed));
    assert_eq!(unpacked.as_ref(), Ok(&key), "{packed:02x?}");
}

fn key(input: &mut Input<'_>) -> Key<'static> {
    let family = input.byte();
    let shard = Shard(u16::from_le_bytes([input.byte(), input.byte()]));
    match family % 12 {
        0 => Key::Store,
        1 => Key::Position(shard),
        2 => Key::Alarm(shard, number(input), id(input)),
        3 => Key::Index(shard, number(input), id(input)),
        4 => Key::Dedup(shard, id(input), id(input)),
        5 => Key::Runnable(shard, id(input)),
        6 => Key::Outbox(shard, id(input), number(input), small(input)),
        7 => Key::Dead(shard, number(input), id(input)),
        8 => Key::Tombstone(shard, id(input)),
        9 => {
            let (gate, epoch, number) = (id(input), number(input), number(input));
            Key::Gate(shard, gate, Arrival { epoch, number }, id(input))
        }
        10 => Key::Placed(shard, id(input), id(input)),
        _ => Key::Instance(shard, id(input), local(input)),
    }
}

fn local(input: &mut Input<'_>) -> Local<'static> {
    const FACTS: [Meta; 7] = [
        Meta::State,
        Meta::Output,
        Meta::Failure,
        Meta::Origin,
        Meta::Input,
        Meta::Hold,
        Meta::Flow,
    ];
    match input.byte() % 8 {
        0 => Local::Name(small(input)),
        1 => Local::Inbox(Arrival {
            epoch: number(input),
            number: number(input),
        }),
        2 => Local::Meta(FACTS[usize::from(input.byte()) % FACTS.len()]),
        3 => Local::Attempts(number(input)),
        4 => Local::Emitted(number(input)),
        5 => Local::Published(id(input)),
        6 => Local::Answer(id(input)),
        _ => Local::History(Cow::Owned(location(input))),
    }
}

fn location(input: &mut Input<'_>) -> Location {
    let depth = usize::from(input.byte()) % (LOCATION_DEPTH_MAX + 1);
    let segments: Vec<_> = (0..depth).map(|_| segment(input)).collect();
    Location::try_from(segments).expect("the depth was bounded above")
}

fn segment(input: &mut Input<'_>) -> Segment {
    let name = small(input);
    if input.byte().is_multiple_of(2) {
        Segment::Name(name)
    } else {
        Segment::Iteration {
            name,
            number: number(input),
        }
    }
}

/// Times, epochs and counters stay below 2^63: the tuple format has signed numbers.
fn number(input: &mut Input<'_>) -> u64 {
    input.number() & (u64::MAX >> 1)
}

fn small(input: &mut Input<'_>) -> u32 {
    (input.number() & u64::from(u32::MAX)) as u32
}

/// A text as long as an id may be. Which characters an id may have is no business of keys.
fn id(input: &mut Input<'_>) -> Cow<'static, str> {
    let mut text = String::from_utf8_lossy(input.bytes()).into_owned();
    while text.len() > ID_BYTES_MAX {
        text.pop();
    }
    Cow::Owned(text)
}

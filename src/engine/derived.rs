//! What follows from where it is made: the same in replay, different everywhere else, and not to be guessed.
//!
//! Everything is a keyed hash with the instance's secret as the key. Whoever has seen any number of ids, random numbers
//! and tokens of an instance knows neither the secret nor the next of them.

use crate::location::{Location, Segment};
use crate::storage::record::Secret;

/// Names what is derived at a place, for `what`: 128 bits as lower-case hexadecimal.
///
/// A deleted instance that is started again has another secret, and so other ids.
pub(crate) fn id(secret: Secret, run: u32, location: &Location, what: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(half(secret, run, location, what)))
}

/// Whether a text has the form of what [`id`] gives.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Names something of an instance that is made at no place of its code.
pub(crate) fn of_instance(secret: Secret, run: u32, what: &str) -> String {
    id(secret, run, &Location::root(), what)
}

/// The secret of an instance that is started from this place.
pub(crate) fn secret(secret: Secret, run: u32, location: &Location) -> Secret {
    Secret::derived(half(secret, run, location, "secret"))
}

fn half(secret: Secret, run: u32, location: &Location, what: &str) -> [u8; 16] {
    secret.half(&format!("{run} {} {what}", spelled(location)))
}

/// A location as text that stays as it is for ever: numbers and brackets, nothing of the user's.
fn spelled(location: &Location) -> String {
    let segments = location.segments().iter().map(|segment| match segment {
        Segment::Name(name) => format!("Name({name})"),
        Segment::Iteration { name, number } => format!("Iteration {{ name: {name}, number: {number} }}"),
    });
    format!("Location([{}])", segments.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_makes_a_difference() {
        let here = Location::root().child(Segment::Name(1)).unwrap();
        let there = Location::root().child(Segment::Name(2)).unwrap();
        let (one, two) = (Secret::from(1), Secret::from(2));
        let ids = [
            id(one, 1, &here, "a"),
            id(two, 1, &here, "a"),
            id(one, 2, &here, "a"),
            id(one, 1, &there, "a"),
            id(one, 1, &here, "b"),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
        assert_eq!(ids[0], id(one, 1, &here, "a"), "and nothing else does");
        assert!(ids.iter().all(|id| is_id(id)) && !is_id("order-7") && !is_id(&ids[0].to_uppercase()));
    }

    /// Found in review: ids hung on how a location is printed for developers. They are stored, and sent to others.
    #[test]
    fn an_id_is_the_same_in_every_release() {
        let name = Location::root().child(Segment::Name(7)).unwrap();
        let inside = name.child(Segment::Iteration { name: 2, number: 30 }).unwrap();
        assert_eq!(spelled(&Location::root()), "Location([])");
        assert_eq!(
            spelled(&inside),
            "Location([Name(7), Iteration { name: 2, number: 30 }])"
        );
        assert_eq!(
            id(Secret::from(1), 2, &inside, "event"),
            "61f756643e5040cdb5769bbc82138244"
        );
    }

    #[test]
    fn both_ends_of_the_secret_count() {
        let of = |bytes: [u8; 16]| Secret::derived(bytes).digest("text");
        let mut ends = [[0; 16]; 3];
        ends[1][0] = 1;
        ends[2][15] = 1;
        assert!(of(ends[0]) != of(ends[1]) && of(ends[0]) != of(ends[2]) && of(ends[1]) != of(ends[2]));
    }
}

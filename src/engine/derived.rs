//! What follows from where it is made: the same in replay, different everywhere else, and not to be guessed.
//!
//! Everything is a keyed hash with the instance's secret as the key. Whoever has seen any number of ids, random numbers
//! and tokens of an instance knows neither the secret nor the next of them.

use crate::location::Location;
use crate::storage::record::Secret;

/// Names what is derived at a place, for `what`: 128 bits as lower-case hexadecimal.
///
/// A deleted instance that is started again has another secret, and so other ids.
pub(crate) fn id(secret: Secret, run: u32, location: &Location, what: &str) -> String {
    format!("{:032x}", u128::from_be_bytes(half(secret, run, location, what)))
}

/// Names something of an instance that is made at no place of its code.
pub(crate) fn of_instance(secret: Secret, run: u32, what: &str) -> String {
    id(secret, run, &Location::root(), what)
}

/// The secret of an instance that is started from this place.
pub(crate) fn secret(secret: Secret, run: u32, location: &Location) -> Secret {
    Secret(half(secret, run, location, "secret"))
}

/// What nobody can make without the secret. Comparing two of these takes as long whether they are alike or not.
pub(crate) fn digest(secret: Secret, text: &str) -> blake3::Hash {
    let mut key = [0; 32];
    key[..16].copy_from_slice(&secret.0);
    blake3::keyed_hash(&key, text.as_bytes())
}

fn half(secret: Secret, run: u32, location: &Location, what: &str) -> [u8; 16] {
    // A location is told apart by its debug form: numbers and brackets, no free text.
    let digest = digest(secret, &format!("{run} {location:?} {what}"));
    let mut half = [0; 16];
    half.copy_from_slice(&digest.as_bytes()[..16]);
    half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Segment;

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
        assert_eq!(ids[0].len(), 32);
    }

    #[test]
    fn both_ends_of_the_secret_count() {
        let of = |bytes: [u8; 16]| digest(Secret(bytes), "text");
        let mut ends = [[0; 16]; 3];
        ends[1][0] = 1;
        ends[2][15] = 1;
        assert!(of(ends[0]) != of(ends[1]) && of(ends[0]) != of(ends[2]) && of(ends[1]) != of(ends[2]));
    }
}

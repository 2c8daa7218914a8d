//! Ids that we make up: ULIDs, which sort by the time at which they were made.

use crate::chance::Chance;
use crate::clock::Clock;
use crate::ids::{InstanceId, MessageId};
use crate::limits::ID_BYTES_MAX;

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// Characters of a ULID: 48 bits of time and 80 of chance, five to a character.
const LENGTH: usize = 26;

/// A new id for an instance: the type name of its workflow, as far as it fits into an id, and a ULID.
pub(crate) fn instance_id(workflow: &str, clock: &dyn Clock, chance: &dyn Chance) -> InstanceId {
    let mut id = String::new();
    for character in workflow.trim_start_matches('_').chars() {
        if id.len() + character.len_utf8() + 1 + LENGTH > ID_BYTES_MAX {
            break;
        }
        // A type name is free text, an id is not.
        let allowed = InstanceId::new(character).is_ok();
        id.push(if allowed { character } else { '_' });
    }
    let id = format!("{}-{}", id.trim_start_matches('_'), ulid(clock, chance));
    InstanceId::new(id).expect("every character was tried, and there is room for all of them")
}

/// A new id for a message.
pub(crate) fn message_id(clock: &dyn Clock, chance: &dyn Chance) -> MessageId {
    MessageId::new(ulid(clock, chance)).expect("a ULID is letters and digits")
}

fn ulid(clock: &dyn Clock, chance: &dyn Chance) -> String {
    let time = u128::from(clock.now_ms() & 0xffff_ffff_ffff);
    let chance = u128::from(chance.draw()) << 16 | u128::from(chance.draw() & 0xffff);
    let number = time << 80 | chance;
    let digit = |place: usize| char::from(ALPHABET[usize::from((number >> (5 * place)) as u8 & 31)]);
    (0..LENGTH).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Millis;

    #[derive(Debug)]
    struct Fixed(u64);

    impl Clock for Fixed {
        fn now_ms(&self) -> Millis {
            self.0
        }

        fn wait_until(&self, _: Millis) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::ready(()))
        }
    }

    impl Chance for Fixed {
        fn draw(&self) -> u64 {
            self.0
        }
    }

    /// The example of the ULID specification, as far as time goes.
    #[test]
    fn the_time_is_written_as_the_specification_has_it() {
        let ulid = ulid(&Fixed(1_469_922_850_259), &Fixed(u64::MAX));
        assert_eq!(ulid, "01ARZ3NDEKZZZZZZZZZZZZZZZZ");
    }

    #[test]
    fn every_type_name_makes_an_id() {
        let long = "ß".repeat(100);
        for name in ["payment", "__topic", "a/b\nc", "", &long, "\u{202e}x"] {
            let id = instance_id(name, &Fixed(1), &Fixed(2));
            assert!(id.as_str().contains('-') && id.as_str().len() <= ID_BYTES_MAX, "{id}");
        }
        assert!(
            instance_id("payment", &Fixed(1), &Fixed(2))
                .as_str()
                .starts_with("payment-0000000001")
        );
    }
}

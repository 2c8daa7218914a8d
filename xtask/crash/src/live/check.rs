//! What must hold of the world outside, whatever was killed.

use std::collections::{HashMap, HashSet};

use super::observer::Line;

/// What the lines of the observer come to.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// Under each key, the marks that attempts left.
    effects: HashMap<String, HashSet<String>>,
    /// Under each key, the mark that the code saw.
    seen: HashMap<String, String>,
    /// Under each instance, the keys whose effects were undone, in order and once each.
    undone: HashMap<String, Vec<String>>,
    /// Attempts that were made more than once, because of a kill or because the first one fails.
    pub(crate) again: u64,
}

impl World {
    /// Reads the next line; says what is wrong with it.
    pub(crate) fn read(&mut self, line: &str) -> Result<(), String> {
        match Line::parse(line).ok_or_else(|| format!("the observer has the line {line:?}"))? {
            Line::Effect(mark) => {
                if let Some(seen) = self.seen.get(&mark.key) {
                    return Err(format!("{} ran again after its result {seen} was seen", mark.key));
                }
                let marks = self.effects.entry(mark.key).or_default();
                self.again += u64::from(!marks.is_empty());
                marks.insert(mark.number);
            }
            Line::Seen(mark) => {
                let made = self
                    .effects
                    .get(&mark.key)
                    .is_some_and(|marks| marks.contains(&mark.number));
                if !made {
                    return Err(format!("{} has the result {} of no attempt", mark.key, mark.number));
                }
                let first = self.seen.entry(mark.key.clone()).or_insert_with(|| mark.number.clone());
                if *first != mark.number {
                    return Err(format!("{} was {first} and is now {}", mark.key, mark.number));
                }
            }
            Line::Undone(mark) => {
                if self.seen.get(&mark.key) != Some(&mark.number) {
                    return Err(format!("{} was undone with another result: {}", mark.key, mark.number));
                }
                let instance = mark.key.split('/').next().unwrap_or_default().to_owned();
                let undone = self.undone.entry(instance).or_default();
                if undone.last() != Some(&mark.key) {
                    undone.push(mark.key);
                }
            }
        }
        Ok(())
    }

    /// The mark that the code saw at a place: the one that has its only key.
    pub(crate) fn result(&self, place: &str) -> Option<&str> {
        let mut seen = self.seen.iter().filter(|(key, _)| place_of(key) == place);
        let (_, mark) = seen.next()?;
        seen.next().is_none().then_some(mark.as_str())
    }

    /// The places of what an instance undid, in order.
    pub(crate) fn undone(&self, instance: &str) -> Vec<&str> {
        let keys = self.undone.get(instance).into_iter().flatten();
        keys.map(|key| place_of(key)).collect()
    }
}

/// The part of a key that people read: instance, run and path. What comes behind it tells lives of one id apart.
fn place_of(key: &str) -> &str {
    key.rsplit_once('#').map_or(key, |(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<World, String> {
        let mut world = World::default();
        for line in lines {
            world.read(&line.replace(' ', "\t"))?;
        }
        Ok(world)
    }

    #[test]
    fn effects_may_repeat_until_one_was_seen() {
        let world = read(&[
            "effect i/1/a#7 1",
            "effect i/1/a#7 2",
            "seen i/1/a#7 2",
            "seen i/1/a#7 2",
        ])
        .unwrap();
        assert_eq!((world.result("i/1/a"), world.again), (Some("2"), 1));
        let another_key = [
            "effect i/1/a#7 1",
            "seen i/1/a#7 1",
            "effect i/1/a#8 2",
            "seen i/1/a#8 2",
        ];
        assert_eq!(read(&another_key).unwrap().result("i/1/a"), None, "one place, two keys");
    }

    #[test]
    fn what_was_seen_never_runs_again_nor_changes() {
        let again = read(&["effect k 1", "seen k 1", "effect k 2"]).unwrap_err();
        assert!(again.contains("ran again"), "{again}");
        let other = read(&["effect k 1", "effect k 2", "seen k 1", "seen k 2"]).unwrap_err();
        assert!(other.contains("was 1 and is now 2"), "{other}");
        let invented = read(&["effect k 1", "seen k 3"]).unwrap_err();
        assert!(invented.contains("of no attempt"), "{invented}");
    }

    #[test]
    fn undoing_is_told_in_order_and_of_what_was_done() {
        let lines = ["effect i/1/a 1", "seen i/1/a 1", "effect i/1/b 2", "seen i/1/b 2"];
        let undone = [&lines[..], &["undone i/1/b 2", "undone i/1/b 2", "undone i/1/a 1"]].concat();
        assert_eq!(read(&undone).unwrap().undone("i"), ["i/1/b", "i/1/a"]);
        let wrong = [&lines[..], &["undone i/1/b 1"]].concat();
        assert!(read(&wrong).unwrap_err().contains("another result"));
    }
}

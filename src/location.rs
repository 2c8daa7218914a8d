//! Where an entry stands: its path through the execution tree.
//!
//! A segment is an index into the instance's name registry, or one iteration of a loop. Names are stored once per
//! instance, so a path costs two bytes a segment however long the names are, and no text in a name can ever be
//! mistaken for a separator.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::limits::LOCATION_DEPTH_MAX;

/// One part of a location. Names come before iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Segment {
    /// A name: its index in the name registry.
    Name(u32),
    /// One iteration of the loop with this name.
    Iteration {
        /// The loop's name in the registry.
        name: u32,
        /// Which iteration, from zero.
        number: u64,
    },
}

/// The path was nested deeper than [`LOCATION_DEPTH_MAX`] segments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("operations are nested more than {LOCATION_DEPTH_MAX} deep")]
pub struct TooDeep;

impl TooDeep {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        "ES0103"
    }
}

/// Segments that lie in the location itself, which is no larger for it. Locations are what an instance is looked up by,
/// many times a step, and most are of one segment: those cost no allocation, and no way to another place in memory.
const SEGMENTS_INLINE: usize = 1;

/// The iteration that no loop comes to: what the runtime itself records has it.
const RESERVED: u64 = i64::MAX as u64;

/// The path of an entry.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Location(SmallVec<[Segment; SEGMENTS_INLINE]>);

impl Clone for Location {
    /// All at once; what can be copied is not asked for segment by segment.
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Location {
    /// The location that everything else is below.
    pub fn root() -> Self {
        Self::default()
    }

    /// The location one segment below this one.
    pub fn child(&self, segment: Segment) -> Result<Self, TooDeep> {
        if self.0.len() == LOCATION_DEPTH_MAX {
            return Err(TooDeep);
        }
        let mut segments = SmallVec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Ok(Self(segments))
    }

    /// Whether this is `other`, or lies inside it. Such locations follow `other` in order, without a gap.
    pub fn is_at_or_below(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The place of something that the runtime itself records once in a run, under a name of the registry. No operation of
    /// the code comes there.
    pub(crate) fn reserved(name: u32) -> Self {
        let number = RESERVED;
        Self(SmallVec::from_elem(Segment::Iteration { name, number }, 1))
    }

    /// The location as people read it, with the names of its instance: `payment/retry/retry~3/charge`.
    ///
    /// Names are free text. What separates them is marked where it stands inside of one, so that no two places have the
    /// same path: a step `a/b` is `a\/b`, and a step `retry~3` is `retry\~3`. What the runtime itself has recorded
    /// begins with a `~`, as in `~cancel`.
    ///
    /// ```
    /// use everstep::location::{Location, Segment};
    ///
    /// let names = ["payment".to_owned(), "a/b".to_owned()];
    /// let payment = Location::root().child(Segment::Iteration { name: 0, number: 3 })?;
    /// assert_eq!(payment.child(Segment::Name(1))?.path(&names), "payment~3/a\\/b");
    /// # Ok::<(), everstep::location::TooDeep>(())
    /// ```
    pub fn path(&self, names: &[String]) -> String {
        let mut path = String::new();
        for segment in &self.0 {
            if !path.is_empty() {
                path.push('/');
            }
            segment.push(names, &mut path);
        }
        path
    }

    /// The parts of the [path](Location::path), outermost first.
    pub fn path_parts(&self, names: &[String]) -> Vec<String> {
        let part = |segment: &Segment| {
            let mut part = String::new();
            segment.push(names, &mut part);
            part
        };
        self.0.iter().map(part).collect()
    }
}

impl Ord for Segment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Segment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Segment {
    /// A number in the order of segments, which is compared faster than their parts one after the other.
    fn rank(self) -> u128 {
        let (iterates, name, number) = match self {
            Self::Name(name) => (0, name, 0),
            Self::Iteration { name, number } => (1, name, number),
        };
        (iterates << 96) | (u128::from(name) << 64) | u128::from(number)
    }

    fn push(&self, names: &[String], path: &mut String) {
        match *self {
            Self::Name(name) => push_name(names, name, path),
            Self::Iteration { name, number: RESERVED } => {
                path.push('~');
                push_name(names, name, path);
            }
            Self::Iteration { name, number } => {
                push_name(names, name, path);
                path.push('~');
                path.push_str(&number.to_string());
            }
        }
    }
}

fn push_name(names: &[String], index: u32, path: &mut String) {
    let name = names.get(index as usize).map_or("?", String::as_str);
    for part in name.split_inclusive(['/', '~', '\\']) {
        match part.as_bytes().last() {
            Some(b'/' | b'~' | b'\\') => {
                let (before, mark) = part.split_at(part.len() - 1);
                path.extend([before, "\\", mark]);
            }
            _ => path.push_str(part),
        }
    }
}

impl TryFrom<Vec<Segment>> for Location {
    type Error = TooDeep;

    fn try_from(segments: Vec<Segment>) -> Result<Self, TooDeep> {
        if segments.len() > LOCATION_DEPTH_MAX {
            Err(TooDeep)
        } else {
            Ok(Self(segments.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded() {
        let mut location = Location::root();
        for _ in 0..LOCATION_DEPTH_MAX {
            location = location.child(Segment::Name(0)).unwrap();
        }
        assert_eq!(location.child(Segment::Name(0)), Err(TooDeep));
    }

    /// Rows lie in this order, and so do the maps of a journal.
    #[test]
    fn names_come_before_iterations_and_those_in_the_order_of_their_numbers() {
        let iteration = |name, number| Segment::Iteration { name, number };
        let in_order = [
            Segment::Name(0),
            Segment::Name(1),
            Segment::Name(u32::MAX),
            iteration(0, 0),
            iteration(0, 1),
            iteration(0, u64::MAX),
            iteration(1, 0),
            iteration(u32::MAX, u64::MAX),
        ];
        for (at, one) in in_order.iter().enumerate() {
            for (other_at, other) in in_order.iter().enumerate() {
                assert_eq!(one.cmp(other), at.cmp(&other_at), "{one:?} and {other:?}");
            }
        }
    }

    /// BEHAVIOUR 52: whatever names are made of, different places have different paths.
    #[test]
    fn no_two_places_have_the_same_path() {
        let texts = [
            "a", "b", "a/b", "a~1", "~1", "a\\", "\\/b", "a/", "/", "a\\/b", "1", "é/~", "cancel", "~cancel", "~",
        ];
        let names: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
        let indices = (0..).take(names.len());
        let segments: Vec<_> = indices
            .clone()
            .flat_map(|name| [Segment::Name(name), Segment::Iteration { name, number: 1 }])
            .collect();
        let mut places: Vec<_> = indices.map(Location::reserved).collect();
        for first in &segments {
            let one = Location::root().child(*first).unwrap();
            places.extend(segments.iter().map(|second| one.child(*second).unwrap()));
            places.push(one);
        }
        let mut seen = std::collections::HashMap::new();
        for at in places {
            let path = at.path(&names);
            assert_eq!(at.path_parts(&names).join("/"), path);
            assert_eq!(seen.insert(path.clone(), at.clone()), None, "`{path}` is also {at:?}");
        }
    }
}

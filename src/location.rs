//! Where an entry stands: its path through the execution tree.
//!
//! A segment is an index into the instance's name registry, or one iteration of a loop. Names are stored once per
//! instance, so a path costs two bytes a segment however long the names are, and no text in a name can ever be
//! mistaken for a separator.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::limits::LOCATION_DEPTH_MAX;

/// One part of a location. Names come before iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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

/// The path of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Location(SmallVec<[Segment; SEGMENTS_INLINE]>);

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
}

//! Whom a sender has something for that could not be delivered for now.

use std::collections::BTreeSet;

use crate::limits::COURIER_HELD_TARGETS_MAX;
use crate::storage::record::{Outgoing, Parcel};

/// Those for whom something of one sender waits. What comes behind it for the same ones has to wait too, or it would
/// overtake it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Blocked {
    targets: BTreeSet<String>,
    /// There are too many to remember: everything waits.
    all: bool,
}

impl Blocked {
    /// Whether nobody has to wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty() && !self.all
    }

    /// Whether something has to wait.
    pub(super) fn blocks(&self, outgoing: &Outgoing) -> bool {
        self.all || targets(outgoing).any(|to| self.targets.contains(to))
    }

    /// Something waits.
    pub(super) fn add(&mut self, outgoing: &Outgoing) {
        self.targets.extend(targets(outgoing).map(str::to_owned));
        if self.targets.len() > COURIER_HELD_TARGETS_MAX {
            self.targets.clear();
            self.all = true;
        }
    }

    /// Whether everyone has to wait who has to there.
    pub(super) fn includes(&self, other: &Self) -> bool {
        self.all || (!other.all && self.targets.is_superset(&other.targets))
    }
}

/// Whom a row is for.
fn targets(outgoing: &Outgoing) -> impl Iterator<Item = &str> {
    let closed = match &outgoing.parcel {
        Parcel::Close { children, .. } => children.as_slice(),
        _ => &[],
    };
    let closed = closed.iter().map(|child| child.instance.as_str());
    std::iter::once(outgoing.to.as_str()).chain(closed)
}

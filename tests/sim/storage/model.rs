//! What a store must hold, kept in plain maps.

use std::collections::{BTreeMap, BTreeSet};

/// One instance as the model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) revision: u64,
    pub(crate) ended: bool,
    pub(crate) alarm_at_ms: Option<u64>,
    /// Entries: slot, and the revision that wrote it.
    pub(crate) entries: BTreeMap<u32, u64>,
    /// Messages in the order of arrival.
    pub(crate) inbox: Vec<(u64, u64)>,
    pub(crate) seen: BTreeSet<u64>,
}

/// What a decision is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Exists,
    Missing,
    Ended,
    Revision,
    Duplicate,
    Stale,
}

/// A decision about one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Start,
    /// Writes an entry, if the instance is at this revision.
    Step {
        revision: u64,
        slot: u32,
    },
    /// Puts a message into the inbox, under this arrival.
    Deliver {
        message: u64,
        arrival: u64,
    },
    /// Takes the oldest message, if the instance is at this revision.
    Take {
        revision: u64,
        arrival: Option<u64>,
        slot: u32,
    },
    End {
        revision: u64,
    },
    Purge,
    /// A step of an activation that is over.
    Stale,
}

/// All instances, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) instances: BTreeMap<&'static str, Instance>,
}

impl Model {
    /// What a decision must be answered with; if it is done, what it does.
    pub(crate) fn decide(&mut self, name: &'static str, decision: Decision) -> Answer {
        let found = self.instances.get_mut(name);
        let instance = match (decision, found) {
            (Decision::Stale, _) => return Answer::Stale,
            (Decision::Start, Some(_)) => return Answer::Exists,
            (Decision::Start, None) => {
                let new = Instance {
                    revision: 1,
                    ended: false,
                    alarm_at_ms: None,
                    entries: BTreeMap::new(),
                    inbox: Vec::new(),
                    seen: BTreeSet::new(),
                };
                self.instances.insert(name, new);
                return Answer::Done;
            }
            (Decision::Purge, Some(_)) => {
                self.instances.remove(name);
                return Answer::Done;
            }
            (_, None) => return Answer::Missing,
            (_, Some(instance)) => instance,
        };
        instance.decide(decision)
    }
}

impl Instance {
    fn decide(&mut self, decision: Decision) -> Answer {
        match decision {
            Decision::Deliver { message, .. } if self.seen.contains(&message) => return Answer::Duplicate,
            Decision::Deliver { .. } if self.ended => return Answer::Ended,
            Decision::Deliver { message, arrival } => {
                self.seen.insert(message);
                self.inbox.push((arrival, message));
                return Answer::Done;
            }
            Decision::Step { revision, .. } | Decision::Take { revision, .. } | Decision::End { revision }
                if revision != self.revision =>
            {
                return Answer::Revision;
            }
            _ => {}
        }
        self.revision += 1;
        match decision {
            Decision::Step { slot, .. } => {
                self.entries.insert(slot, self.revision);
                self.alarm_at_ms = alarm(self.revision);
            }
            Decision::Take { slot, arrival, .. } => {
                self.entries.insert(slot, self.revision);
                self.inbox.retain(|(waiting, _)| Some(*waiting) != arrival);
                self.alarm_at_ms = alarm(self.revision);
            }
            Decision::End { .. } => {
                self.ended = true;
                self.alarm_at_ms = None;
            }
            Decision::Start | Decision::Deliver { .. } | Decision::Purge | Decision::Stale => {}
        }
        Answer::Done
    }
}

/// Every third revision has an alarm.
pub(crate) fn alarm(revision: u64) -> Option<u64> {
    revision.is_multiple_of(3).then_some(5_000 + revision)
}

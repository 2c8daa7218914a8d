//! What can be set of a start.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::duration::InvalidDuration;
use crate::handle::{Crowded, Existing};
use crate::storage::record::Flow;

/// What can be set of a start, whether its types are known or not.
pub(in crate::handle) struct Options {
    pub(in crate::handle) id: Option<String>,
    pub(in crate::handle) tags: BTreeMap<String, String>,
    pub(in crate::handle) version: u32,
    pub(in crate::handle) deadline: Result<Option<Duration>, InvalidDuration>,
    pub(in crate::handle) at: Option<SystemTime>,
    pub(in crate::handle) after: Result<Option<Duration>, InvalidDuration>,
    pub(in crate::handle) existing: Existing,
    pub(in crate::handle) flow: Flow,
    pub(in crate::handle) crowd: Option<(usize, Crowded)>,
}

impl Options {
    /// What is so if nothing is said.
    pub(in crate::handle) fn new(version: u32) -> Self {
        Self {
            id: None,
            tags: BTreeMap::new(),
            version,
            deadline: Ok(None),
            at: None,
            after: Ok(None),
            existing: Existing::default(),
            flow: Flow::default(),
            crowd: None,
        }
    }
}

//! What is started later, by a debounce or a schedule: the same terms, and the same checks before anything is stored.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::actor::Shared;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::Workflow;
use crate::engine::target::Target;
use crate::handle::start::{check_flow, check_tags, check_version};
use crate::handle::{Error, Result, size};
use crate::storage;
use crate::storage::payload::{Payload, PayloadError};
use crate::storage::record::{Flow, Priority};

/// A start that something else will make.
pub(super) struct Later {
    workflow: &'static str,
    input: std::result::Result<Payload, PayloadError>,
    tags: BTreeMap<String, String>,
    version: u32,
    deadline: std::result::Result<Option<Duration>, InvalidDuration>,
    flow: Flow,
}

impl Later {
    pub(super) fn new<W: Workflow>(shared: &Shared, input: &W::Input) -> Self {
        Self {
            workflow: W::NAME,
            input: shared.store.codecs().pack(input),
            tags: BTreeMap::new(),
            version: W::VERSION,
            deadline: Ok(None),
            flow: Flow::default(),
        }
    }

    pub(super) fn tag(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.tags.insert(key.into(), value.into());
    }

    pub(super) fn version(&mut self, version: u32) {
        self.version = version;
    }

    pub(super) fn deadline(&mut self, deadline: impl IntoDuration) {
        self.deadline = deadline.into_duration().map(Some);
    }

    pub(super) fn at_most(&mut self, limit: u32, key: impl Into<String>) {
        self.flow.at_most(limit, key);
    }

    pub(super) fn priority(&mut self, priority: Priority) {
        self.flow.priority = priority;
    }

    /// Checks everything that can be wrong with it.
    pub(super) fn check(self, shared: &Shared) -> Result<Target> {
        let Some(definition) = shared.definitions.get(self.workflow) else {
            return Err(Error::Unregistered(self.workflow.to_owned()));
        };
        check_tags(&self.tags)?;
        check_flow(&self.flow)?;
        check_version(definition, self.version)?;
        let input = self.input.map_err(storage::Error::from)?;
        size::check_input(shared, definition.name, &input)?;
        let policy = definition.policy.deadline_at_ms(0).map(Duration::from_millis);
        Ok(Target {
            workflow: self.workflow.to_owned(),
            version: self.version,
            input,
            tags: self.tags.into_iter().collect(),
            deadline: self.deadline?.or(policy),
            flow: self.flow,
        })
    }
}

//! One attempt at a step, as the step's own code sees it.

use crate::ids::InstanceId;

/// What an attempt knows about itself. A step's closure may take it as its argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub(crate) instance: InstanceId,
    pub(crate) number: u32,
    pub(crate) idempotency_key: String,
}

impl Attempt {
    /// Which attempt this is, from one. Attempts that ended with the process count.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The same for every attempt at this step, also after a restart, and different from that of any other step: what
    /// to give to a payment provider so that two attempts charge once.
    pub fn idempotency_key(&self) -> &str {
        &self.idempotency_key
    }

    /// The instance whose step this is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }
}

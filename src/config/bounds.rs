//! How much one instance may hold. Each bound has a default in [`crate::limits`], and an error with a code.

use crate::limits::{
    HISTORY_BYTES_CEILING, HISTORY_BYTES_MAX, HISTORY_BYTES_WARN, HISTORY_ENTRIES_CEILING, HISTORY_ENTRIES_MAX,
    HISTORY_ENTRIES_WARN, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_WARN, SCOPE_ENTRIES_MAX,
};

/// How much one instance may hold: for all of a runtime with [`Config::bounds`](crate::Config::bounds), for one workflow
/// with `#[workflow(bounds(..))]` or [`Policy::bounds`](crate::Policy::bounds), which comes before it.
///
/// ```
/// use everstep::Bounds;
///
/// let bounds = Bounds { history_entries_max: 1_000, ..Bounds::default() };
/// assert!(bounds.payload_bytes_max > bounds.payload_bytes_warn);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes in one stored value: a result, a state, an output (`ES0301`).
    pub payload_bytes_max: usize,
    /// From here on, a stored value is worth a warning.
    pub payload_bytes_warn: usize,
    /// Entries in the history of an instance (`ES0302`).
    pub history_entries_max: u64,
    /// From here on, the number of entries is worth a warning.
    pub history_entries_warn: u64,
    /// Bytes in the history of an instance (`ES0303`).
    pub history_bytes_max: u64,
    /// From here on, the size of a history is worth a warning.
    pub history_bytes_warn: u64,
    /// Operations, branches or items in one scope (`ES0304`).
    pub scope_entries_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            payload_bytes_warn: PAYLOAD_BYTES_WARN,
            history_entries_max: HISTORY_ENTRIES_MAX,
            history_entries_warn: HISTORY_ENTRIES_WARN,
            history_bytes_max: HISTORY_BYTES_MAX,
            history_bytes_warn: HISTORY_BYTES_WARN,
            scope_entries_max: SCOPE_ENTRIES_MAX,
        }
    }
}

impl Bounds {
    /// Tells what can't be, of all instances or of those that `of` names.
    pub(crate) fn check(&self, of: &str, require: &mut dyn FnMut(bool, String)) {
        let numbers = [
            (
                "payload_bytes",
                self.payload_bytes_warn as u64,
                self.payload_bytes_max as u64,
                PAYLOAD_BYTES_MAX as u64,
            ),
            (
                "history_entries",
                self.history_entries_warn,
                self.history_entries_max,
                HISTORY_ENTRIES_CEILING,
            ),
            (
                "history_bytes",
                self.history_bytes_warn,
                self.history_bytes_max,
                HISTORY_BYTES_CEILING,
            ),
            ("scope_entries", 0, self.scope_entries_max, SCOPE_ENTRIES_MAX),
        ];
        for (what, warn, max, ceiling) in numbers {
            require(
                (1..=ceiling).contains(&max),
                format!("{what}_max{of} is {max}, allowed are 1 to {ceiling}"),
            );
            require(
                warn <= max,
                format!("{what}_warn{of} is {warn}, more than the {max} that are allowed"),
            );
        }
    }
}

//! Who sees what the code asks for, and may do it in the place of the work itself: the seam of the test kit.
//!
//! A runtime that serves has none. With one, every operation that the code asks for is shown to it, and every attempt
//! at a step asks it first.

use std::fmt;

use crate::engine::request::Attempting;
use crate::ids::InstanceId;
use crate::storage::payload::Payload;

/// Where in the user's code something was asked for.
pub(crate) type CallSite = &'static std::panic::Location<'static>;

/// An operation that the code asked for.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "testing"),
    expect(dead_code, reason = "only the test kit is a witness")
)]
pub(crate) struct Asked {
    pub(crate) instance: InstanceId,
    pub(crate) run: u32,
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    /// What else was said of it: a duration, a name, an address.
    pub(crate) detail: String,
    /// What goes with it: an input, a message.
    pub(crate) payload: Option<Payload>,
    pub(crate) call_site: CallSite,
}

/// What is called for an attempt at a step.
#[derive(Debug, Clone)]
#[cfg_attr(
    not(feature = "testing"),
    expect(dead_code, reason = "only the test kit is a witness")
)]
pub(crate) struct Call {
    pub(crate) instance: InstanceId,
    pub(crate) run: u32,
    pub(crate) path: String,
    /// The number of the attempt, from one.
    pub(crate) attempt: u32,
    /// The name of the activity, if it is one.
    pub(crate) activity: Option<&'static str>,
    /// What it is called with, if that is known.
    pub(crate) input: Option<Payload>,
}

/// A result that is not of the type that the code wants.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "testing"),
    expect(dead_code, reason = "only the test kit is a witness")
)]
pub(crate) struct Unreadable<'a> {
    pub(crate) instance: &'a InstanceId,
    pub(crate) path: &'a str,
    pub(crate) payload: &'a Payload,
    /// The name of the type.
    pub(crate) wanted: &'static str,
}

/// Sees what the code does. Called while the function is being polled: it must not block, nor call back.
pub(crate) trait Witness: Send + Sync {
    /// The code asked for an operation.
    fn asked(&self, asked: Asked);

    /// Whether something is done in the place of this work.
    fn stands_in(&self, call: &Call) -> bool;

    /// An attempt begins. Gives what is done in the place of the work, if anything is.
    fn begin(&self, call: Call) -> Option<Attempting>;

    /// What a step came to is not of the type that the code wants.
    fn unreadable(&self, _unreadable: &Unreadable<'_>) {}
}

impl fmt::Debug for dyn Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

//! The kit that users and engine authors test with (feature `testing`).
//!
//! - [`Harness`]: the real runtime in a test, in virtual time, with mocks, crashes and assertions. Begin here.
//! - [`replay_check`]: histories from production against today's code.
//! - [`conformance`]: what every storage engine has to prove, in one call.
//! - [`faulty`]: an engine that wraps another one and fails on command.
//!
//! What lives here is shipped, so it is code and not test code: a check that fails says in words what was expected
//! and what was found. It may be called from any test; nothing else in the crate calls it. Read `kit.rs` to test
//! workflows, and `conformance/mod.rs` to prove an engine. `rig` and `world`, which no page shows, are the engine alone,
//! without a runtime, for the tests of the engine itself.

pub mod conformance;
mod kit;
#[doc(hidden)]
pub mod rig;
#[doc(hidden)]
pub mod world;

pub use crate::storage::engines::faulty;
pub use crate::storage::record::{Failure, FailureKind, Status};
pub use kit::{Call, Handle, Harness, Mock, replay_check};

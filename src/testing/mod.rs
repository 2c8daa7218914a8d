//! The kit that users and engine authors test with (feature `testing`).
//!
//! - [`harness`]: workflows in virtual time, evicted and crashed on purpose.
//! - [`conformance`]: what every storage engine has to prove, in one call.
//! - [`faulty`]: an engine that wraps another one and fails on command.
//!
//! What lives here is shipped, so it is code and not test code: a check that fails says in words what was expected
//! and what was found. It may be called from any test; nothing else in the crate calls it. Read `harness.rs` to test
//! workflows, and `conformance/mod.rs` to prove an engine.

pub mod conformance;
pub mod harness;

pub use crate::storage::engines::faulty;

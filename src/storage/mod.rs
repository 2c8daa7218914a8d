//! BYTES THAT SURVIVE.
pub mod batch;
pub mod engine;
pub mod engines;
pub(crate) mod fence;
pub mod key;
pub mod payload;
pub mod record;
pub mod value;

//! The engines.

#[cfg(feature = "fjall")]
mod fjall;

#[cfg(feature = "fjall")]
pub use self::fjall::Fjall;

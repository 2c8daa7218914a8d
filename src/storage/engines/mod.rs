//! The engines that stand behind [`Engine`](super::engine::Engine).
//!
//! What lives here: one file for each store that can hold the bytes, and what several of them share. What never
//! does: a meaning of those bytes. An engine knows keys, values, batches and the fence, and nothing of instances.
//!
//! Read in this order: `memory` is the shortest complete engine; `net` turns the operations of a group into what
//! they come to; `preimage` gives snapshots to engines that have none; `fjall` is what a plain path opens; `sled` is
//! what it takes to make a store on disk keep its promises. `faulty` wraps any of them and fails on command (feature
//! `testing`).

#[cfg(feature = "testing")]
pub mod faulty;
#[cfg(feature = "fjall")]
mod fjall;
mod memory;
mod net;
mod preimage;
#[cfg(feature = "sled")]
mod sled;

#[cfg(test)]
mod model;

#[cfg(feature = "fjall")]
pub use self::fjall::Fjall;
pub use self::memory::Memory;
#[cfg(feature = "sled")]
pub use self::sled::Sled;

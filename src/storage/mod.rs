//! BYTES THAT SURVIVE: keys, values, commits, the committer, and the engines underneath.
//!
//! A store is an ordered key-value engine with everything around it that makes it safe to trust: keys that isolate
//! one instance from another, values that know whether they were damaged, commits that are whole or absent, and a
//! watermark outside the engine that notices when the engine forgets.
//!
//! ```text
//!   a decision                                        a caller waits
//!       │                                                  ▲
//!       ▼                                                  │ durable
//!   Commit ── conditions + rows ──► Committer ── group ──► Engine ── one sync ──► disk
//!   (commit.rs)                     (committer.rs)         (engine.rs)    │
//!                                    checks conditions                    └─► Watermark
//!                                    (condition.rs)                           (watermark.rs)
//! ```
//!
//! **What never lives here:** what a workflow means, when something happens, who runs. This room does not know what
//! a step is; it knows what one looks like on disk ([`record`]).
//!
//! **Who may call it:** everyone above. It knows only the small vocabulary modules.
//!
//! **In which order to read:** [`key`] (where things lie) and [`value`] (what lies there), [`commit`](Commit) (what
//! one decision writes), [`engine`] (what an engine owes), `committer` (how many become one), `watermark` and `open`
//! (how a loss is noticed), [`store`](Store) (the whole), `operations` (what an operator does with it).
//!
//! **Architecture invariant:** only the committer writes. There is no other call on an [`engine::Engine`] that
//! changes anything once the store is open.
//!
//! **Architecture invariant:** what can't be decoded is an error with a code, never an absence.

pub mod batch;
pub mod engine;
pub mod engines;
pub mod key;
pub mod payload;
pub mod record;
pub mod value;

mod activation;
mod commit;
mod committer;
mod condition;
mod damage;
mod dead;
mod directory;
mod error;
mod failure;
mod fence;
mod flight;
mod inboxes;
pub(crate) mod index;
mod intent;
mod listing;
mod namespace;
mod open;
mod operations;
mod outbox;
#[cfg(feature = "testing")]
mod pace;
mod seen;
mod spare;
mod store;
mod url;
mod watermark;

pub use activation::Activation;
pub use commit::{Commit, Condition};
pub use committer::{Pending, Receipt};
pub use dead::Buried;
pub use error::{Error, Refusal, Result};
pub(crate) use failure::Failure;
pub(crate) use flight::{Flight, FlightSlot, Flown, InFlight};
pub(crate) use listing::Stands;
pub use listing::{Cursor, Page};
pub use namespace::{Namespace, Row, Rows};
pub use open::{FORMAT, OpenOptions};
pub use operations::{Copied, Exported, Fault, Finding, Imported, LeftOut, Rebuilt, Report, Salvaged};
pub use outbox::Posted;
pub(crate) use outbox::{is_on_its_way, set_before_all, starts_on_their_way};
#[cfg(feature = "testing")]
pub use pace::Pace;
pub(crate) use seen::{forget_most_seen, is_forgetting};
pub use store::{Arrivals, Health, Store};
pub use url::Url;

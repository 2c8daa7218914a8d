//! WHEN: alarms that wake sleeping instances, admission to memory, and how long the ended are kept.
//!
//! An alarm is a row, ordered by time, written in the commit that needs it. One task keeps a bounded window of the
//! next ones in memory and nudges the instance when one is due. A nudge is only a hint: the instance looks at its own
//! state, so one too many does no harm, and one too few cannot happen as long as the row is there.
//!
//! **What never lives here:** what an alarm is for. The scheduler knows a time and an instance. Schedules are not here
//! either: they are instances, of a workflow that the engine brings along.
//!
//! **Who may call it:** actors, who ask for a place, a turn and a time; the runtime, which runs its services and shows its
//! figures. It knows storage and nothing of what runs.
//!
//! **In which order to read:** `alarms`, then `window` (the next of them, in memory); `admission` (who is in memory), then
//! `queue` (who is next); `turnstile` (which attempts run), then `turns` (whose turn it is); `retention`.
//!
//! **Architecture invariant:** everything here is bounded, and a bound makes somebody wait; it never drops anybody.

mod admission;
mod alarms;
mod queue;
mod retention;
mod turns;
mod turnstile;
mod window;

pub(crate) use admission::{Admission, Coming, MakesRoom, Place};
pub(crate) use alarms::Alarms;
pub(crate) use retention::{Gone, run as sweep};
pub use turnstile::QueueStats;
pub(crate) use turnstile::{Permit, Ticket, Turnstile};

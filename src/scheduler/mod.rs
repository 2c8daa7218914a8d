//! WHEN: alarms that wake sleeping instances.
//!
//! An alarm is a row, ordered by time, written in the commit that needs it. The scheduler actor keeps a bounded
//! window of the next ones in memory and nudges the instance when one is due. A nudge is only a hint: the instance
//! looks at its own state, so one too many does no harm, and one too few cannot happen as long as the row is there.
//!
//! **What never lives here:** what an alarm is for. The scheduler knows a time and an instance.

mod alarms;

pub(crate) use alarms::Alarms;

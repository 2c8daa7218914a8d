//! The verbs: what a workflow can ask for. One file each.

mod activity;
mod join;
mod map;
mod race;
mod receive;
mod repeat;
mod shield;
mod sleep;
mod step;
mod tell;
mod version;

pub use activity::Activity;
pub use join::{Branch, Branches, branch};
pub use race::{Contestants, Winner};
pub use receive::{Receive, ReceiveMany, Within};
pub use repeat::{Loop, Repeat};
pub use sleep::Sleep;
pub use step::{IntoWork, Step, TryStep};

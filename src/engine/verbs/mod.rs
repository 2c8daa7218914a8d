//! The verbs: what a workflow can ask for. One file each.

mod activity;
mod ask;
mod child;
mod compensate;
mod continue_as_new;
mod emit;
mod event;
mod join;
mod map;
mod promise;
mod race;
mod receive;
mod repeat;
mod rollback;
mod send;
mod set;
mod shield;
mod sleep;
mod step;
mod tell;
mod try_scope;
mod version;
mod within;

pub use activity::{Activity, IntoActivity};
pub use ask::{Asked, Reply};
pub use child::{AwaitChild, Child, ChildHandle, DetachChild, StartChild};
pub use compensate::Compensation;
pub(crate) use event::KEPT;
pub use event::{Publish, WaitEvent};
pub use join::{Branch, Branches, branch};
pub use promise::Promise;
pub use race::{Contestants, Winner};
#[doc(hidden)]
pub use receive::Decoder;
pub use receive::{Receive, ReceiveMany};
pub(crate) use receive::{told, unpack};
pub use repeat::{Loop, Repeat};
pub use send::{Address, SendTo};
pub use sleep::Sleep;
pub use step::{IntoBlockingWork, IntoWork, Step};
pub use try_scope::{TryScope, TryStep};
pub use within::Within;

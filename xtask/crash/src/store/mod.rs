//! A bare store is killed: every acknowledged commit has to be there, whole and byte-equal, and what is there beyond
//! them is a commit that was on its way.
//!
//! To read: `workload` (what a writer commits, and what its rows must then be), `child`, `parent`.

mod child;
mod parent;
mod workload;

pub(crate) use child::run as child;
pub(crate) use parent::kill;

//! A bare store is killed: every acknowledged commit has to be there, whole and byte-equal, and what is there beyond
//! them is a commit that was on its way.
//!
//! To read: `workload` (what a writer commits, and what its rows must then be), `rows` (how they are compared), `child`,
//! `parent`.

mod child;
mod parent;
mod rows;
mod workload;

pub(crate) use child::run as child;
pub(crate) use parent::kill;

//! What can stop a cut.

use std::{io, path::PathBuf};

/// Why a rig could not be set up or a cut not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading the root or building the result failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The root changed behind the shim's back: another process, or a system
    /// call that does not go through the C library.
    #[error("changed without passing the shim: {0}")]
    Unseen(String),
    /// Only regular files and directories can lose power.
    #[error("neither a regular file nor a directory: {0}")]
    Unsupported(PathBuf),
    /// The journal would record itself.
    #[error("the journal lies below the root: {0}")]
    JournalInside(PathBuf),
    /// The preloaded library could not be built; set `POWER_LOSS_SHIM` to one.
    #[error("the shim could not be built: {0}")]
    Shim(String),
}

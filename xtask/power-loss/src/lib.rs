//! Power loss for the files below one directory.
//!
//! Killing a process proves little about durability: the kernel still holds
//! everything it wrote. This crate takes away what a power loss would take. A
//! child process runs with a preloaded library (the package in `shim/`) that
//! writes down, before each write below `POWER_LOSS_ROOT`, what it overwrites
//! and with what, and after each `fsync` or `fdatasync` that it completed. When
//! the child has been killed, [`Rig::cut`] undoes or tears what no sync covers.
//!
//! ```no_run
//! # fn main() -> Result<(), everstep_power_loss::Error> {
//! use std::{path::Path, process::Command};
//! use everstep_power_loss::Rig;
//!
//! let rig = Rig::new(Path::new("run/data"), Path::new("run/journal"))?;
//! let mut child = rig.wrap(&mut Command::new("some-program"))?.spawn()?;
//! // wait for a sign of life, then:
//! child.kill()?;
//! child.wait()?;
//! let report = rig.cut(42)?;
//! # Ok(()) }
//! ```
//!
//! # What it simulates
//!
//! - **Content.** Every write, truncation and extension that was not issued
//!   before the beginning of a completed sync of the same file is kept, lost,
//!   or torn along sectors of 512 bytes (a prefix, or any subset). A lost append
//!   shrinks the file, or leaves zeros if something behind it survived.
//! - **`sync_file_range` is no sync.** Neither are `sync` and `syncfs`.
//! - **Names.** Creation, renaming, linking and removal of files and
//!   directories, in two modes, see [`Dirs`]. Lenient is the default since
//!   journaling file systems such as ext4 commit metadata in order: when a sync
//!   returns, every earlier creation and rename has reached the disk too. It is
//!   nevertheless possible there that a rename survives and the content of the
//!   renamed file does not. Strict asks for a sync of each directory.
//! - **A sync that fails**, one for each child, see [`Rig::fail_sync`].
//! - **More than one life.** A child that is killed and started again without a
//!   cut continues the journal, as its unsynced writes are still not on disk.
//!
//! The same journal and the same seed always give the same result.
//!
//! # What it does not simulate
//!
//! - Lost or reordered writes *behind* a completed sync: disks that lie, several
//!   devices with different luck, bit rot.
//! - Permissions, times and extended attributes.
//! - Shared writable memory maps, `O_DSYNC`, `O_SYNC`, `O_TMPFILE`, holes
//!   punched by `fallocate`, exchanging renames, renames across the root's edge,
//!   and changes by a forked or second process: the shim aborts the process with
//!   a message. `mprotect`, `io_uring` and asynchronous I/O pass unseen.
//! - System calls that bypass the C library. `rustix` makes such calls unless
//!   its feature `use-libc` is on, which depending on this crate turns on. The
//!   cut compares the journal with the disk and fails with [`Error::Unseen`]
//!   where something else has been at work.
//!
//! Programs must be linked to glibc dynamically, on Linux and a 64-bit machine.
//! The library half, the one that interposes, is a package of its own: linked
//! into the parent, its `write` would replace the parent's.
//!
//! To read: `record` (the format), `syncs` (what is durable), `image` and `tree`
//! (undo and redo), `settle` (the last record), `cut` (the choice), `rig` (the door).

mod chance;
mod cut;
mod error;
mod image;
mod record;
mod rig;
mod settle;
mod syncs;
mod tree;

pub use cut::Report;
pub use error::Error;
pub use record::{Change, Event, FileId, Record};
pub use rig::{KEPT_FOLDER, RECORDS_FILE, Rig, shim_path};
pub use syncs::{Dirs, compact};

// Linked for its feature alone, see Cargo.toml.
use rustix as _;

//! The preloaded half of `everstep-power-loss`: see there for what it is for.
//!
//! The functions of the C library that change files are defined here again. For
//! a file or a name below `POWER_LOSS_ROOT` they append a record to the journal
//! in `POWER_LOSS_JOURNAL` and then make the system call; for everything else
//! they only make the call. Without the variables the library does nothing.
//!
//! *Invariant:* one lock is held from before the record until after the effect,
//! so the journal's order is the order of effects. Syncs run outside the lock
//! and cover what was recorded before they began.
//!
//! *Invariant:* nothing here calls a function that is interposed here. Effects
//! and the journal's own writes are raw system calls, so there is no recursion
//! to guard against, and `dlsym` is not needed. Other preloaded libraries must
//! therefore come before this one.
//!
//! There is no table of descriptors: `/proc/self/fd` says what a descriptor
//! means now, whatever was duplicated, renamed or removed since.
//!
//! To read: `place` (what is below the root), `log` (the journal), then the
//! interposed functions in `content`, `names`, `syncs` (where a `trap` may lie) and `refused`.

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64")))]
compile_error!("the shim stands in for glibc on 64-bit Linux only");

mod content;
mod log;
mod names;
mod place;
mod real;
mod refused;
mod syncs;
mod trap;

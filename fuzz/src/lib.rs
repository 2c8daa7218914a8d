//! Throws bytes at what reads the disk, files and histories.
//!
//! Four targets, for [keys](key), for [values](envelope), for [export files](import) and for [histories](history), each
//! a function from arbitrary bytes to a panic or nothing. The same functions are run
//!
//! - by libFuzzer, which watches what code an input reaches and bends those that reach something new: `cargo xtask
//!   fuzz`, a minute of it in `cargo xtask test`;
//! - by the tests of this crate, over the inputs in `corpus/`, every time.
//!
//! A new input that failed belongs into `corpus/<target>/` under a name that tells its story. What [`seeds`] lists is
//! written there by `cargo run -p everstep-fuzz --bin seeds`.
//!
//! **Stable.** libFuzzer needs no sanitizer and no nightly: the instrumentation is an LLVM pass that every compiler
//! has, and `xtask/src/fuzz.rs` asks for it. Without `--cfg fuzzing` this crate builds no C++, and the binaries run
//! their target over the files that they are given, once.

pub mod envelope;
pub mod history;
pub mod import;
mod input;
pub mod key;
mod machine;
pub mod memory;
pub mod replay;
pub mod seeds;

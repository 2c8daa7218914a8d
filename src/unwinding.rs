//! A program that aborts on panic is refused.
//!
//! A panic in a step is a failed attempt, and one in a workflow a failed run, because it unwinds to where it is caught.
//! With `panic = "abort"` the first one would end the process, with every other instance in it. This file names
//! nothing else of the crate, so that a test can compile it alone.

#[cfg(not(panic = "unwind"))]
compile_error!(
    "everstep needs panics that unwind: with `panic = \"abort\"` a panic in one step would end the process and all \
     instances in it; remove `panic = \"abort\"` from the profile in Cargo.toml"
);

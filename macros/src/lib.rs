//! The derive macros of everstep. Use them through the `everstep` crate.

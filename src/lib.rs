//! Durable workflows in one crate.

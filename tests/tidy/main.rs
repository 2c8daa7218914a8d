//! The house rules that a machine can hold.
//!
//! Each rule is a file: a function from a [`Tree`] of files in memory to what
//! it finds wrong, and tests that show it an offender it has to find and an
//! innocent it has to leave alone. The tests below hold the rules against this
//! repository. `lexer.rs` and `paths.rs` are what the rules read code with, so
//! that a word in a comment or in a string is never taken for code.

mod finding;
mod header;
mod leftovers;
mod length;
mod lexer;
mod paths;
mod rooms;
mod root;
mod sleeps;
mod statements;
mod tree;
mod unsafety;

use crate::finding::Finding;
use crate::tree::Tree;

/// Fails with every finding, so that one run shows all there is to mend.
fn hold(rule: fn(&Tree) -> Vec<Finding>) {
    let findings = rule(&Tree::of_repository());
    let list: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "the house rules are broken:\n{}", list.join("\n"));
}

#[test]
fn rooms_depend_downwards_only() {
    hold(rooms::findings);
}

#[test]
fn files_are_short() {
    hold(length::findings);
}

#[test]
fn no_matches_without_an_assert() {
    hold(statements::findings);
}

#[test]
fn nothing_stray_in_the_root() {
    hold(root::findings);
}

#[test]
fn every_file_says_what_it_is() {
    hold(header::findings);
}

#[test]
fn nothing_is_left_unfinished() {
    hold(leftovers::findings);
}

#[test]
fn no_test_sleeps() {
    hold(sleeps::findings);
}

#[test]
fn unsafe_code_is_in_the_shim_only() {
    hold(unsafety::findings);
}

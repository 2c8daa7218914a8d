//! The root of the repository is the front door: no notes, no logs, no results.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::tree::Tree;

const FOLDERS: &[&str] = &[
    ".cargo", ".ci", "benches", "docs", "examples", "fuzz", "macros", "src", "tests", "xtask",
];

const FILES: &[&str] = &[
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
];

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut stray = BTreeSet::new();
    for file in tree.files() {
        let known = match file.path.split_once('/') {
            Some((folder, _)) => FOLDERS.contains(&folder),
            None => FILES.contains(&file.path.as_str()),
        };
        if !known {
            stray.insert(file.path.split('/').next().unwrap_or(&file.path));
        }
    }
    let what = "does not belong into the root; move it, or list it in the tidy test";
    stray.into_iter().map(|name| Finding::new(name, 1, what)).collect()
}

#[test]
fn strays_are_found_once_each() {
    let tree = Tree::of_files(&[
        ("notes.md", ""),
        ("results/a.json", ""),
        ("results/b.json", ""),
        ("src", ""),
        ("Cargo.toml/x", ""),
    ]);
    let told: Vec<_> = findings(&tree).iter().map(ToString::to_string).collect();
    let names: Vec<_> = told.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["Cargo.toml", "notes.md", "results", "src"]);
}

#[test]
fn what_belongs_is_left_alone() {
    let tree = Tree::of_files(&[("Cargo.toml", ""), ("src/notes.md", ""), (".ci/run", "")]);
    assert_eq!(findings(&tree), []);
}

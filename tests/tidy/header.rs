//! Every Rust file begins by saying what it is.

use crate::finding::Finding;
use crate::tree::Tree;

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let first = file.text.lines().next().unwrap_or_default();
        let said = first.strip_prefix("//!").map(str::trim).unwrap_or_default();
        if said.is_empty() {
            let what = "begin with a `//!` line that says what this file is";
            findings.push(Finding::new(&file.path, 1, what));
        }
    }
    findings
}

#[test]
fn a_file_has_to_say_something_first() {
    use crate::finding::lines;
    for silent in ["", "//!\n", "use a;\n//! Late.", "// Not a doc.", "\n//! Late."] {
        assert_eq!(lines(findings, "src/a.rs", silent), [1], "{silent:?}");
    }
    assert_eq!(lines(findings, "src/a.rs", "//! A noun.\n"), [0; 0]);
    assert_eq!(lines(findings, "docs/a.md", "text"), [0; 0]);
}

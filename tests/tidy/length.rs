//! A file that is too long holds more than one noun.

use crate::finding::Finding;
use crate::tree::Tree;

/// The median should be near 150; this is where it stops being a matter of taste.
const LINES_MAX: usize = 600;

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            let what = format!("{lines} lines; split it, {LINES_MAX} is the most");
            findings.push(Finding::new(&file.path, LINES_MAX + 1, what));
        }
    }
    findings
}

#[test]
fn only_a_file_over_the_limit_is_found() {
    use crate::finding::lines;
    let text = "\n".repeat(LINES_MAX);
    assert_eq!(lines(findings, "src/a.rs", &text), [0; 0]);
    let text = "\n".repeat(LINES_MAX + 1);
    assert_eq!(lines(findings, "src/a.rs", &text), [LINES_MAX + 1]);
    assert_eq!(lines(findings, "docs/a.md", &text), [0; 0]);
}

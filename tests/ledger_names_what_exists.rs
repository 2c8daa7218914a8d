//! Every bug in `tests/LEDGER.md` has a test, and every test that is named there exists.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::path::Path;

/// The tests that a row names: files, each followed by a test in it.
fn named(row: &str) -> Vec<(&str, &str)> {
    let quoted: Vec<_> = row.split('`').skip(1).step_by(2).collect();
    let pairs = quoted.windows(2).filter(|pair| pair[0].ends_with(".rs"));
    pairs.map(|pair| (pair[0], pair[1])).collect()
}

/// What is wrong with a ledger, given what the files that it names say.
fn findings(ledger: &str, file: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut findings = Vec::new();
    let rows = ledger.lines().filter(|line| line.starts_with("| "));
    for row in rows.filter(|row| !row.starts_with("| what it was")) {
        let named = named(row);
        if named.is_empty() {
            findings.push(format!("no test: {row}"));
        }
        for (path, test) in named {
            let is_there = file(path).is_some_and(|text| text.contains(&format!("fn {test}(")));
            if !is_there {
                findings.push(format!("{path} has no test {test}"));
            }
        }
    }
    findings
}

#[test]
fn every_test_in_the_ledger_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ledger = std::fs::read_to_string(root.join("tests/LEDGER.md")).unwrap();
    let findings = findings(&ledger, |path| std::fs::read_to_string(root.join(path)).ok());
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    assert!(ledger.lines().filter(|line| !named(line).is_empty()).count() >= 19);
}

#[test]
fn a_bug_without_a_test_is_found() {
    let file = |path: &str| (path == "tests/a.rs").then(|| "#[test]\nfn holds() {}".to_owned());
    let ledger = "| what it was | what holds it |\n|---|---|\n\
        | one | `tests/a.rs` `holds` |\n| two | nothing yet |\n| three | `tests/a.rs` `is_gone` |\n| four | `tests/b.rs` `holds` |";
    assert_eq!(
        findings(ledger, file),
        [
            "no test: | two | nothing yet |",
            "tests/a.rs has no test is_gone",
            "tests/b.rs has no test holds"
        ]
    );
}

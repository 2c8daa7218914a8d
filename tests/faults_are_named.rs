//! `docs/FAULTS.md` says which test shows each fault, and the test says which fault it shows: a path alone may lead to a
//! file that has nothing to do with it.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The faults that a text names: `FAULTS 27, 28`, `FAULTS 58 and 59`, `FAULTS 23 to 25`, also over the end of a line.
fn named(text: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for rest in text.split("FAULTS ").skip(1) {
        let signs = |sign: char| sign.is_whitespace() || matches!(sign, ',' | '/' | '!');
        let words = rest.split(signs).filter(|word| !word.is_empty());
        let (mut last, mut until) = (None, false);
        for word in words {
            // `16.` and `31;` end the list.
            let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
            match (word, digits.parse::<u32>()) {
                ("and", _) => until = false,
                ("to", _) => until = true,
                (_, Ok(number)) => {
                    let first = last.filter(|_| until).unwrap_or(number);
                    found.extend(first..=number);
                    (last, until) = (Some(number), false);
                    if digits.len() < word.len() {
                        break;
                    }
                }
                (_, Err(_)) => break,
            }
        }
    }
    found
}

/// The numbers of a table, and the files that each of them cites.
fn cited(text: &str) -> Vec<(u32, Vec<&str>)> {
    let mut found = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').collect();
        let quoted = cells
            .last()
            .into_iter()
            .flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let paths = quoted.filter(|quoted| quoted.contains('/') && !quoted.contains(' '));
        let paths: Vec<_> = paths.map(|path| path.split("::").next().unwrap_or(path)).collect();
        let numbers = cells[0].split(',').filter_map(|number| number.trim().parse().ok());
        found.extend(numbers.map(|number| (number, paths.clone())));
    }
    found
}

/// What a file says, or all the files of a folder.
fn said(path: &Path) -> String {
    if !path.is_dir() {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let code = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
    entries.filter(code).map(|path| said(&path)).collect()
}

#[test]
fn every_fault_is_named_where_it_is_shown() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/FAULTS.md")).unwrap();
    let cited = cited(&page);
    assert!(cited.len() > 70, "the page was read: {cited:?}");
    let mut unnamed = Vec::new();
    for (number, paths) in cited.iter().filter(|(_, paths)| !paths.is_empty()) {
        let names = |path: &&str| named(&said(&root.join(path))).contains(number);
        if !paths.iter().any(names) {
            unnamed.push(format!("{number}: {paths:?}"));
        }
    }
    assert!(
        unnamed.is_empty(),
        "none of the files that these cite names them (`FAULTS 7`):\n{}",
        unnamed.join("\n")
    );
}

#[test]
fn names_of_faults_are_found() {
    let numbers = |text| named(text).into_iter().collect::<Vec<_>>();
    assert_eq!(numbers("/// FAULTS 16."), [16]);
    assert_eq!(numbers("//! BEHAVIOUR 34, 35; FAULTS 58 and 59."), [58, 59]);
    assert_eq!(
        numbers("/// FAULTS 1, 2 and 31,\n    /// 40: found in 7 reviews"),
        [1, 2, 31, 40]
    );
    assert_eq!(
        numbers("FAULTS 23 to 25 for what begins later; FAULTS 3"),
        [3, 23, 24, 25]
    );
    assert!(numbers("docs/FAULTS.md 3, and the 7 FAULTS of others").is_empty());
    let table = "| number | x |\n|---|---|\n| 27, 28 | a | `tests/b.rs::c`, `cargo xtask sim`, `tests/d/` |\n";
    assert_eq!(
        cited(table),
        [
            (27, vec!["tests/b.rs", "tests/d/"]),
            (28, vec!["tests/b.rs", "tests/d/"])
        ]
    );
}

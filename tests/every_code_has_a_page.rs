//! Every error code has a page that says what to do, and every page has a code.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every `ES` with exactly four digits behind it.
fn codes_in(text: &str) -> BTreeSet<String> {
    text.match_indices("ES")
        .filter_map(|(at, _)| {
            let digits = text[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
            (digits == 4).then(|| text[at..at + 6].to_owned())
        })
        .collect()
}

fn codes_below(folder: &Path) -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            codes.extend(codes_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            codes.extend(codes_in(&fs::read_to_string(&path).expect("Rust files are UTF-8")));
        }
    }
    codes
}

fn pages() -> BTreeSet<String> {
    fs::read_dir(root().join("docs/errors"))
        .expect("the pages are readable")
        .map(|entry| entry.expect("the pages are readable").file_name())
        .map(|name| name.into_string().expect("file names are UTF-8"))
        .filter_map(|name| name.strip_suffix(".md").map(str::to_owned))
        .filter(|name| name != "README")
        .collect()
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let codes = codes_below(&root().join("src"));
    assert!(codes.contains("ES0101") && codes.contains("ES0403"), "{codes:?}");
    let pages = pages();
    let missing: Vec<_> = codes.difference(&pages).collect();
    assert!(missing.is_empty(), "write docs/errors/CODE.md for {missing:?}");
    let stale: Vec<_> = pages.difference(&codes).collect();
    assert!(stale.is_empty(), "no code in src has the pages {stale:?}");
}

#[test]
fn every_page_says_what_to_do_and_is_listed() {
    let folder = root().join("docs/errors");
    let list = fs::read_to_string(folder.join("README.md")).unwrap();
    for code in pages() {
        let page = fs::read_to_string(folder.join(format!("{code}.md"))).unwrap();
        let title = page
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(&format!("# {code}: ")));
        let title = title.unwrap_or_else(|| panic!("{code}.md has to begin with `# {code}: `"));
        for part in ["## What happened", "## Why it is refused", "## What to do"] {
            assert!(page.lines().any(|line| line == part), "{code}.md lacks `{part}`");
        }
        let row = format!("| [{code}]({code}.md) | {title} |");
        assert!(list.lines().any(|line| line == row), "README.md lacks the line {row}");
    }
    let listed = codes_in(&list);
    assert_eq!(listed, pages(), "README.md lists what is there");
}

#[test]
fn a_code_is_told_from_what_looks_like_one() {
    let found = codes_in("\"ES0101\", ES012, ES01234, YES 0101, `ES0999` ESWMARK1");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["ES0101", "ES0999"]);
}

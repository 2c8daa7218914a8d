//! Links that leave the repository. No test asks the network, so each leads to something that is known here: a crate that
//! is built with, in the version that is built with, the repository itself, or a page of a short list.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[path = "documents/pages.rs"]
mod pages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pages::{comments, pages};

/// What documents may lead to besides crates and the repository. Look at a page before it is added here.
const ELSEWHERE: [&str; 2] = [
    "https://keepachangelog.com/en/1.1.0/",
    "https://semver.org/spec/v2.0.0.html",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The addresses in a text, up to where one can't go on.
fn addresses(text: &str) -> Vec<&str> {
    let begins = text.match_indices("://").map(|(at, _)| at);
    begins
        .map(|at| {
            let scheme = text[..at].rfind(|sign: char| !sign.is_ascii_alphanumeric());
            let from = scheme.map_or(0, |before| before + 1);
            let length = text[from..].find(|sign: char| sign.is_whitespace() || "<>()[]{}\"'`|\\".contains(sign));
            text[from..length.map_or(text.len(), |length| from + length)].trim_end_matches(['.', ',', ';', ':'])
        })
        .filter(|address| address.starts_with("http"))
        .collect()
}

/// The crates that this workspace is built with, and in which versions.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut known: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_matches([' ', '=', '"']).to_owned()
        };
        known.entry(field("name")).or_default().insert(field("version"));
    }
    known
}

/// What is wrong with an address, if something is.
fn wrong(address: &str, crates: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    if address == env!("CARGO_PKG_REPOSITORY") || ELSEWHERE.contains(&address) {
        return None;
    }
    let Some(rest) = address.strip_prefix("https://") else {
        return Some("it does not begin with `https://`".to_owned());
    };
    let mut parts = rest.split('/');
    let (name, version) = match (parts.next(), parts.next()) {
        (Some("crates.io"), Some("crates")) => (parts.next(), parts.next()),
        (Some("docs.rs"), name) => (name, parts.next()),
        _ => return Some("it is not in the list of this test".to_owned()),
    };
    let Some(versions) = name.and_then(|name| crates.get(name)) else {
        return Some("Cargo.lock knows no such crate".to_owned());
    };
    match version {
        None | Some("" | "latest") => None,
        Some(version) if versions.contains(version) => None,
        Some(_) => Some(format!("Cargo.lock has it as {versions:?}")),
    }
}

/// The pages, what stands in comments of the code, and what the registry is told.
fn texts() -> Vec<(PathBuf, String)> {
    let mut texts: Vec<_> = pages(root())
        .into_iter()
        .map(|page| (page.clone(), std::fs::read_to_string(&page).unwrap()))
        .collect();
    texts.extend(comments(root()));
    let manifest = root().join("Cargo.toml");
    texts.push((manifest.clone(), std::fs::read_to_string(manifest).unwrap()));
    texts
}

#[test]
fn every_address_is_known() {
    let (crates, mut unknown, mut seen) = (crates(), Vec::new(), BTreeSet::new());
    for (page, text) in texts() {
        let page = page.strip_prefix(root()).unwrap().display();
        for address in addresses(&text) {
            seen.insert(address.to_owned());
            if let Some(wrong) = wrong(address, &crates) {
                unknown.push(format!("{page}: {address}: {wrong}"));
            }
        }
    }
    assert!(seen.len() > 4, "the pages were read: {seen:?}");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    let unused: Vec<_> = ELSEWHERE.iter().filter(|known| !seen.contains(**known)).collect();
    assert!(unused.is_empty(), "no page leads there any more: {unused:?}");
}

#[test]
fn addresses_are_judged() {
    let text = "see [a](https://docs.rs/sled/0.34.7/x#y), <http://a.example>, memory://no and https://b.example/c.";
    assert_eq!(
        addresses(text),
        [
            "https://docs.rs/sled/0.34.7/x#y",
            "http://a.example",
            "https://b.example/c"
        ]
    );
    let crates = BTreeMap::from([("sled".to_owned(), BTreeSet::from(["0.34.7".to_owned()]))]);
    for fine in [
        "https://docs.rs/sled",
        "https://docs.rs/sled/0.34.7/sled/struct.Db.html",
        "https://crates.io/crates/sled",
        ELSEWHERE[0],
    ] {
        assert_eq!(wrong(fine, &crates), None, "{fine}");
    }
    for bad in [
        "https://docs.rs/sled/0.35.0",
        "https://docs.rs/slad",
        "https://crates.io/sled",
        "https://b.example",
        "http://docs.rs/sled",
    ] {
        assert!(wrong(bad, &crates).is_some(), "{bad}");
    }
}

//! Documents name files and lead to pages that exist: a table that says which test shows what is worth nothing once
//! the test has moved.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[path = "documents/pages.rs"]
mod pages;

use std::path::{Path, PathBuf};

use pages::{comments, pages};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What stands between backticks and looks like a path of this repository. `{a,b}` and `*` stand for several.
fn named_paths(text: &str) -> Vec<&str> {
    const FOLDERS: [&str; 9] = [
        "src/",
        "tests/",
        "docs/",
        "examples/",
        "benches/",
        "xtask/",
        "fuzz/",
        "macros/",
        ".ci/",
    ];
    // Behind `::` stands a function in the file.
    let quoted = text.split('`').skip(1).step_by(2);
    let quoted = quoted.map(|quoted| quoted.split("::").next().unwrap_or(quoted));
    let paths = quoted.filter(|quoted| FOLDERS.iter().any(|folder| quoted.starts_with(folder)));
    paths
        .filter(|path| !path.contains(['*', '{', ' ', '\n', '<']))
        .collect()
}

/// The targets of links to somewhere in the repository: the page, empty for this one, and the part of it.
fn links(text: &str) -> Vec<(&str, Option<&str>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let inside = targets
        .map(|(target, _)| target)
        // Neither other sites nor names that rustdoc resolves.
        .filter(|target| !target.contains(':'));
    inside
        .map(|target| {
            target
                .split_once('#')
                .map_or((target, None), |(page, part)| (page, Some(part)))
        })
        .collect()
}

/// What the headings of a page are linked by: lower case, hyphens for spaces, no other signs.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut fenced) = (Vec::new(), false);
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter_map(|sign| match sign {
            ' ' => Some('-'),
            '-' | '_' => Some(sign),
            _ => sign.is_alphanumeric().then_some(sign),
        });
        parts.push(kept.collect::<String>().to_lowercase());
    }
    parts
}

/// A comment that says where something is read or tested is a document as well: it names files of this repository from
/// its root.
#[test]
fn every_file_that_a_comment_names_exists() {
    // Fuzzing makes them, and they are not kept.
    const MADE: [&str; 2] = ["fuzz/grown", "fuzz/artifacts"];
    let (mut lost, mut seen) = (Vec::new(), 0);
    for (file, text) in comments(&root()) {
        let name = file.strip_prefix(root()).unwrap().display();
        // Line by line: a fence would turn what is quoted inside out.
        for path in text.lines().flat_map(named_paths) {
            seen += 1;
            if !exists(&root().join(path)) && !MADE.contains(&path) {
                lost.push(format!("{name}: {path}"));
            }
        }
    }
    assert!(seen > 20, "the comments were read: {seen} paths");
    assert!(lost.is_empty(), "these do not exist:\n{}", lost.join("\n"));
}

fn exists(path: &Path) -> bool {
    // A module may be named by its folder or by its file.
    path.exists() || path.with_extension("rs").exists()
}

#[test]
fn every_named_file_and_every_linked_page_exists() {
    let (mut lost, mut seen) = (Vec::new(), 0);
    for page in pages(&root()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.strip_prefix(root()).unwrap().display().to_string();
        let named = named_paths(&text).into_iter().map(|path| (path, root().join(path)));
        let linked = links(&text)
            .into_iter()
            .filter(|(link, _)| !link.is_empty())
            .map(|(link, _)| (link, page.parent().unwrap().join(link)));
        for (told, path) in named.chain(linked) {
            seen += 1;
            if !exists(&path) {
                lost.push(format!("{name}: {told}"));
            }
        }
    }
    assert!(seen > 50, "the pages were read: {seen} paths");
    assert!(lost.is_empty(), "these lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn every_linked_part_of_a_page_exists() {
    let (mut lost, mut seen) = (Vec::new(), 0);
    for page in pages(&root()) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (link, part) in links(&text) {
            let Some(part) = part else { continue };
            seen += 1;
            let there = match link {
                "" => text.clone(),
                link => std::fs::read_to_string(page.parent().unwrap().join(link)).unwrap_or_default(),
            };
            if !parts(&there).iter().any(|known| known == part) {
                lost.push(format!("{}: {link}#{part}", page.display()));
            }
        }
    }
    assert!(seen > 2, "the pages were read: {seen} links");
    assert!(lost.is_empty(), "these lead nowhere:\n{}", lost.join("\n"));
}

/// Functions that are named with the file that they stand in.
fn named_functions(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|quoted| quoted.split_once("::"))
        .filter(|(path, _)| path.ends_with(".rs"))
        .collect()
}

/// The numbers of a table, with what stands in the last column of each row: `27, 28` are two.
fn numbered(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    for row in text.lines() {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [numbers, .., shown_by] = &cells[..] else { continue };
        let numbers: Result<Vec<u32>, _> = numbers.split(',').map(|number| number.trim().parse()).collect();
        found.extend(
            numbers
                .unwrap_or_default()
                .into_iter()
                .map(|number| (number, *shown_by)),
        );
    }
    found
}

#[test]
fn every_named_test_exists() {
    let (mut lost, mut seen) = (Vec::new(), 0);
    for page in pages(&root()) {
        let text = std::fs::read_to_string(&page).unwrap();
        for (path, function) in named_functions(&text) {
            seen += 1;
            let file = std::fs::read_to_string(root().join(path)).unwrap_or_default();
            if !file.contains(&format!("fn {function}(")) {
                lost.push(format!("{path}::{function}"));
            }
        }
    }
    assert!(seen > 50, "the pages were read: {seen} functions");
    assert!(lost.is_empty(), "these do not exist:\n{}", lost.join("\n"));
}

/// Every promise of behaviour, and every fault that is not about a part that is not built, has a row that names what
/// shows it.
#[test]
fn no_promise_and_no_fault_goes_without_a_test() {
    // The HTTP face: requests, tokens, callbacks, certificates, what a dashboard draws, metrics.
    const WAIT_FOR_THE_HTTP_FACE: [u32; 13] = [79, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 91, 93];
    for (page, last, waiting) in [
        ("docs/BEHAVIOUR.md", 54, &[][..]),
        ("docs/FAULTS.md", 93, &WAIT_FOR_THE_HTTP_FACE[..]),
    ] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        let rows = numbered(&text);
        for number in (1..=last).filter(|number| !waiting.contains(number)) {
            let of: Vec<_> = rows.iter().filter(|(of, _)| *of == number).collect();
            assert_eq!(of.len(), 1, "{page}: number {number} has one row");
            let shown = of[0].1;
            let names = !named_paths(shown).is_empty() || shown.contains("`cargo xtask");
            assert!(names, "{page}: number {number} is shown by nothing");
        }
    }
}

/// The promises of a page: paragraphs that begin in bold, each with what follows it up to the next one or a heading.
fn promises(text: &str) -> Vec<(&str, &str)> {
    let begins = |line: &str| line.starts_with("**") || line.starts_with('#');
    let lines = text.split_inclusive('\n');
    let mut at = 0;
    let starts: Vec<_> = lines
        .filter_map(|line| {
            at += line.len();
            begins(line).then_some(at - line.len())
        })
        .collect();
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    let parts = starts.iter().zip(ends).map(|(&start, end)| &text[start..end]);
    parts
        .filter_map(|part| Some((part.strip_prefix("**")?.split("**").next()?, part)))
        .collect()
}

/// "A promise without a test is a wish": four of them had none.
#[test]
fn every_guarantee_names_what_tests_it() {
    let text = std::fs::read_to_string(root().join("docs/GUARANTEES.md")).unwrap();
    let promises = promises(&text);
    assert!(promises.len() > 12, "the page was read: {promises:?}");
    for (promise, whole) in promises {
        let shown = whole.split_once("*Tested by*").map_or("", |(_, shown)| shown);
        assert!(
            !named_paths(shown).is_empty() || shown.contains("`cargo xtask"),
            "nothing tests: {promise}"
        );
    }
}

#[test]
fn paths_and_links_are_found() {
    let text = "# A\n**One** is.\n*Tested by* x\n\n**Two**\nis.\n## B\nnone\n";
    assert_eq!(
        promises(text),
        [("One", "**One** is.\n*Tested by* x\n\n"), ("Two", "**Two**\nis.\n")]
    );
    let text = "see `tests/a.rs` and `cargo x`, [b](docs/B.md#part), [c](https://c.example), `src/{a,b}.rs`";
    assert_eq!(named_paths(text), ["tests/a.rs"]);
    assert_eq!(links(text), [("docs/B.md", Some("part"))]);
    let text = "# An instance, as `a_file`\n```\n# no heading\n```\n#neither\n### Two-fold";
    assert_eq!(parts(text), ["an-instance-as-a_file", "two-fold"]);
    let text = "| 3, 4 | a | `src/a.rs::b`, `tests/c.rs` |";
    assert_eq!(named_paths(text), ["src/a.rs", "tests/c.rs"]);
    assert_eq!(named_functions(text), [("src/a.rs", "b")]);
    assert_eq!(
        numbered(text),
        [(3, "`src/a.rs::b`, `tests/c.rs`"), (4, "`src/a.rs::b`, `tests/c.rs`")]
    );
}

/// Found by a user: what rustdoc hides (`# use ..`) is part of the program on the page of a repository, and the programs
/// could not be copied.
#[test]
fn programs_can_be_copied_as_they_stand() {
    let mut programs = 0;
    for page in ["README.md", "docs/GUIDE.md", "docs/TESTING.md"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap();
        for program in text.split("```rust").skip(1) {
            programs += 1;
            let program = program.split("```").next().unwrap_or_default();
            let hidden = program
                .lines()
                .map(str::trim)
                .find(|line| *line == "#" || line.starts_with("# "));
            assert_eq!(hidden, None, "{page}");
        }
    }
    assert!(programs > 20, "the pages were read: {programs} programs");
}

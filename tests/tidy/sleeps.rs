//! A test that sleeps is slow when it passes and wrong when the machine is
//! busy. Wait for the thing itself, or move a clock of the test's own.

use std::ops::RangeInclusive;

use crate::finding::Finding;
use crate::lexer::{Token, group_end, reads, tokens};
use crate::paths::paths;
use crate::tree::{File, Tree};

/// The ends of the paths that name a sleep, however they are imported.
const SLEEPS: &[[&str; 2]] = &[["thread", "sleep"], ["time", "sleep"], ["time", "sleep_until"]];

/// Here all time is virtual: a sleep is how a part of the simulation moves the clock on.
const VIRTUAL: &str = "tests/sim/runtime/";

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files().filter(|file| !file.path.starts_with(VIRTUAL)) {
        let tests = test_lines(file);
        for path in paths(&file.text) {
            let sleeps = SLEEPS
                .iter()
                .any(|sleep| path.segments.ends_with(&sleep.map(String::from)));
            if sleeps && tests.iter().any(|lines| lines.contains(&path.line)) {
                let what = "a test must not sleep; wait for what it waits for";
                findings.push(Finding::new(&file.path, path.line, what));
            }
        }
    }
    findings
}

/// The lines of a file that are test code: all, or those under `#[cfg(test)]`.
fn test_lines(file: &File) -> Vec<RangeInclusive<usize>> {
    let mut parts = file.path.split('/').rev();
    if parts.next() == Some("tests.rs") || parts.any(|folder| folder == "tests") {
        return vec![1..=usize::MAX];
    }
    let tokens = tokens(&file.text);
    let mut ranges = Vec::new();
    for at in 0..tokens.len() {
        if reads(&tokens, at, &["#", "[", "cfg", "("]) {
            let close = group_end(&tokens, at + 1);
            let condition = &tokens[at..close];
            let says = |word| condition.iter().any(|token| token.text == word);
            if says("test") && !says("not") {
                ranges.push(tokens[at].line..=end_of_item(&tokens, close));
            }
        }
    }
    ranges
}

/// The last line of the item whose attribute closes at `from`.
fn end_of_item(tokens: &[Token<'_>], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return token.line,
            "{" => {
                return tokens.get(group_end(tokens, at)).map_or(usize::MAX, |end| end.line);
            }
            "(" | "[" => at = group_end(tokens, at) + 1,
            _ => at += 1,
        }
    }
    usize::MAX
}

#[test]
fn a_sleeping_test_is_found() {
    use crate::finding::lines;
    let text = "fn f() { std::thread::sleep(d); }
        async fn g() { tokio::time::sleep(d).await; }
        use tokio::time::{self, sleep};
        async fn h() { time::sleep(d).await }";
    for path in [
        "tests/a.rs",
        "tests/sim/a.rs",
        "src/storage/tests.rs",
        "macros/tests/a.rs",
    ] {
        assert_eq!(lines(findings, path, text), [1, 2, 3, 4], "{path}");
    }
    let text = "fn f() {}
        #[cfg(test)]
        mod tests {
            fn g() { thread::sleep(d); }
        }
        #[cfg(all(test, feature = \"fjall\"))]
        fn h(x: [u8; 2]) {
            thread::sleep(d);
        }
        fn i() { thread::sleep(d); }";
    assert_eq!(lines(findings, "src/a.rs", text), [4, 8]);
}

#[test]
fn other_sleeps_are_not() {
    use crate::finding::lines;
    let text = "async fn f(ctx: Ctx) { ctx.sleep(\"a\", \"1s\").await; kit::sleep(1); }
        // thread::sleep(d)
        const S: &str = \"thread::sleep(d)\";";
    assert_eq!(lines(findings, "tests/a.rs", text), [0; 0]);
    let text = "#[cfg(not(test))] fn f() { thread::sleep(d); }
        #[cfg(test)] use a::b;
        fn g() { thread::sleep(d); }";
    assert_eq!(lines(findings, "src/a.rs", text), [0; 0]);
}

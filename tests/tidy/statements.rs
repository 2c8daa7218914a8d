//! `matches!(..);` as a statement looks like a check and checks nothing: it
//! works out a bool and throws it away, and no compiler warns.

use crate::finding::Finding;
use crate::lexer::{Token, calls_macro, group_end, reads, tokens};
use crate::tree::Tree;

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let tokens = tokens(&file.text);
        for at in 0..tokens.len() {
            if calls_macro(&tokens, at, "matches") && is_thrown_away(&tokens, at) {
                let what = "the answer of this `matches!` goes nowhere; put `assert!` around it";
                findings.push(Finding::new(&file.path, tokens[at].line, what));
            }
        }
    }
    findings
}

fn is_thrown_away(tokens: &[Token<'_>], mut at: usize) -> bool {
    let ends = group_end(tokens, at + 2) + 1;
    // `std::matches!` and `core::matches!` are the same macro.
    if at >= 3 && reads(tokens, at - 2, &[":", ":"]) {
        at -= 3;
    }
    let before = at.checked_sub(1).map(|before| tokens[before].text);
    let begins = matches!(before, None | Some(";" | "{" | "}" | "]"));
    let discarded = at >= 3 && reads(tokens, at - 3, &["let", "_", "="]);
    (begins || discarded) && reads(tokens, ends, &[";"])
}

#[test]
fn a_bare_matches_is_found() {
    use crate::finding::lines;
    let offenders = "fn f() {
        matches!(a, b);
        g(); std::matches!(a, b);
        if c { matches!(a, Some(b)); }
        if c {} matches!(a, b);
        let _ = matches!(a, b);
        #[cfg(x)] matches!(a, b);
    }";
    assert_eq!(lines(findings, "tests/a.rs", offenders), [2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_used_matches_is_not() {
    use crate::finding::lines;
    let innocents = "fn f() -> bool {
        assert!(matches!(a, b));
        let c = matches!(a, b);
        return matches!(a, b);
        g(matches!(a, b));
        // matches!(a, b);
        let d = \"; matches!(a, b);\";
        if matches!(a, b) {}
        matches!(a, b)
    }";
    assert_eq!(lines(findings, "tests/a.rs", innocents), [0; 0]);
}

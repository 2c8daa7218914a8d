//! Nothing is left for later: no holes in the code, no debugging aids, and no
//! test that is there but does not run.

use crate::finding::Finding;
use crate::lexer::{calls_macro, reads, tokens};
use crate::tree::Tree;

const MACROS: &[&str] = &["todo", "unimplemented", "dbg"];

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files() {
        let tokens = tokens(&file.text);
        for (at, token) in tokens.iter().enumerate() {
            if let Some(name) = MACROS.iter().find(|name| calls_macro(&tokens, at, name)) {
                let what = format!("`{name}!` is a leftover; finish it or take it out");
                findings.push(Finding::new(&file.path, token.line, what));
            }
            if reads(&tokens, at, &["#", "[", "ignore"]) {
                let what = "an ignored test proves nothing; mend it or delete it";
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

#[test]
fn leftovers_are_found() {
    use crate::finding::lines;
    let text = "fn f() { todo!() }
        fn g() { unimplemented!(\"later\") }
        fn h() { dbg!(x); }
        #[test] #[ignore] fn a() {}
        #[test] #[ignore = \"slow\"] fn b() {}";
    assert_eq!(lines(findings, "src/a.rs", text), [1, 2, 3, 4, 5]);
}

#[test]
fn words_that_only_look_like_them_are_not() {
    use crate::finding::lines;
    let text = "// todo!() and dbg!(x) and #[ignore]
        const S: &str = \"todo!()\";
        fn todo() -> bool { todo != other }
        fn ignore(dbg: u8) {}
        #[expect(unused)] fn f() {}";
    assert_eq!(lines(findings, "src/a.rs", text), [0; 0]);
}

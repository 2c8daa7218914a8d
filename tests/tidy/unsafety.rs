//! Unsafe code lives in one place: the shim that simulates a power loss under
//! a test, which has to stand between a program and the C library.

use crate::finding::Finding;
use crate::lexer::tokens;
use crate::tree::Tree;

const SHIM: &str = "xtask/power-loss/";

pub(crate) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust_files().filter(|file| !file.path.starts_with(SHIM)) {
        for token in tokens(&file.text) {
            if token.text == "unsafe" {
                let what = format!("unsafe code is allowed in {SHIM} only");
                findings.push(Finding::new(&file.path, token.line, what));
            }
        }
    }
    findings
}

#[test]
fn unsafe_code_is_found_outside_of_the_shim() {
    use crate::finding::lines;
    let text = "fn f() {\n unsafe { g() }\n}\nunsafe impl Send for S {}\n#[unsafe(no_mangle)] fn h() {}";
    assert_eq!(lines(findings, "src/a.rs", text), [2, 4, 5]);
    assert_eq!(lines(findings, "xtask/src/main.rs", text), [2, 4, 5]);
    assert_eq!(lines(findings, "xtask/power-loss/src/lib.rs", text), [0; 0]);
}

#[test]
fn talking_about_it_is_allowed() {
    use crate::finding::lines;
    let text = "#![forbid(unsafe_code)] // unsafe\nconst S: &str = \"unsafe\";";
    assert_eq!(lines(findings, "src/a.rs", text), [0; 0]);
}

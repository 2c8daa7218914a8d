//! What the compiler says to people who make a mistake. Each case in `tests/compile/fail` stands beside the message that
//! it has to give; those in `tests/compile/pass` have to compile, without a warning.
#![cfg(feature = "testing")]

#[test]
fn mistakes_are_explained_where_they_are_made() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/compile/pass/*.rs");
    cases.compile_fail("tests/compile/fail/*.rs");
}

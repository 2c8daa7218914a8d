//! Commands that documents show are among those that are tried. The program's are tried where they are defined, in
//! `src/cli/mod.rs`, and those of `cargo xtask` in `xtask`.
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[path = "documents/commands.rs"]
mod commands;

use std::path::Path;

use commands::{commands, commands_of};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// What a document asks of cargo is something that one of these tests knows.
#[test]
fn cargo_is_asked_for_nothing_else() {
    for (page, words) in commands_of(root(), &["cargo"]) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let known = match words[..] {
            ["run", "--example", name, ..] => root().join(format!("examples/{name}.rs")).exists(),
            ["xtask", "bench", name, ..] if !name.starts_with('-') => root().join("benches").join(name).exists(),
            ["run", "--", ..] | ["xtask", ..] | ["install", "--path", "."] => true,
            _ => false,
        };
        assert!(known, "{page}: `cargo {}` is not tried by any test", words.join(" "));
    }
}

#[test]
fn commands_are_found() {
    let text = "Say `everstep list ./a [--json]` or `list`:\n```sh\n# first\ncargo run -- demo | less   # it runs\n```\n\
                ```rust\ncargo xtask none\n```\n`everstep show ./a\nb`";
    let found: Vec<_> = commands(text).iter().map(|words| words.join(" ")).collect();
    assert_eq!(
        found,
        ["cargo run -- demo", "everstep list ./a --json", "everstep show ./a b"]
    );
}

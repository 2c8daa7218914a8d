//! Commands that documents and help texts show are understood by the program: its commands, options and values. Those
//! of `cargo xtask` are tried where they are defined, in `xtask`.
#![cfg(all(feature = "cli", feature = "fjall", feature = "sled"))]
#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

#[path = "documents/commands.rs"]
mod commands;

use std::path::Path;
use std::process::{Command, Output};

use commands::{commands, commands_of};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Has the program read a command and do nothing: what it does not understand comes before the help.
fn help(words: &[String]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_everstep"));
    program.args(words).arg("--help").output().unwrap()
}

/// What the program has against a command.
fn refused(words: &[String]) -> Option<String> {
    let output = help(words);
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_program_understands_every_command_of_the_documents() {
    let mut shown = commands_of(root(), &["everstep"]);
    shown.extend(commands_of(root(), &["cargo", "run", "--"]));
    // `cargo xtask bench --json` goes to the program; `cargo xtask bench storage --json` does not.
    let benches = commands_of(root(), &["cargo", "xtask", "bench"]);
    let of_program = benches
        .into_iter()
        .filter(|(_, words)| words.first().is_none_or(|word| word.starts_with('-')));
    shown.extend(of_program.map(|(page, words)| (page, [vec!["bench".to_owned()], words].concat())));

    assert!(shown.len() > 15, "the pages were read: {shown:?}");
    let wrong = shown
        .iter()
        .filter_map(|(page, words)| Some(format!("{page}: {}", refused(words)?)));
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a document asks of cargo is something that one of these tests knows.
#[test]
fn cargo_is_asked_for_nothing_else() {
    for (page, words) in commands_of(root(), &["cargo"]) {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let known = match words[..] {
            ["run", "--example", name, ..] => root().join(format!("examples/{name}.rs")).exists(),
            ["xtask", "bench", name, ..] if !name.starts_with('-') => root().join("benches").join(name).exists(),
            ["run", "--", ..] | ["xtask", ..] => true,
            _ => false,
        };
        assert!(known, "{page}: `cargo {}` is not tried by any test", words.join(" "));
    }
}

/// Help texts show examples, each on a line; what it does may stand behind two spaces.
#[test]
fn the_program_understands_the_examples_of_its_help() {
    let help_of = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
        String::from_utf8(help(&words).stdout).unwrap()
    };
    let whole = help_of(&[]);
    let listed = whole
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let subcommands = listed
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    let texts: Vec<_> = subcommands
        .map(|name| help_of(&[name]))
        .chain([whole.clone()])
        .collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let shown = lines.filter_map(|line| line.strip_prefix("  everstep ")?.split("  ").next());
    let mut seen = 0;
    for line in shown {
        seen += 1;
        let words = commands(&format!("`everstep {line}`")).remove(0);
        assert_eq!(refused(&words[1..]), None, "everstep {line}");
    }
    assert!(seen > 20, "the help was read: {seen} examples");
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

//! The commands of the `everstep` program. Each is a file with a struct that clap parses and a `run`.
//!
//! They read a store directly and know no workflow of yours: payloads are CBOR, which describes itself, and are shown
//! as JSON.
//!
//! **What never lives here:** anything that a program could not do with the crate: it uses what is public, like everybody.
//!
//! **Who may call it:** `main`, and nobody else.
//!
//! **In which order to read:** `problem` (what goes wrong, and with which exit code), `look` (how an instance is read),
//! `text`, `paint` and `width` (how it gets to a terminal), then the commands: `list`, `show`, `history`, `store`, `demo`,
//! `bench`.
//!
//! **Architecture invariant:** what others wrote goes to a terminal through `text::plain`, which `paint` and `text::short`
//! do by themselves.

mod bench;
mod completions;
mod demo;
mod history;
mod json;
mod list;
mod look;
mod paint;
mod problem;
mod show;
mod store;
mod text;
mod width;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::json;

use problem::{Outcome, Problem};

/// Durable workflows: async functions that survive crashes, restarts and deploys.
#[derive(Debug, Parser)]
#[command(name = "everstep", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    /// JSON: an object, or an object a line. Errors too
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
A first look:
  everstep demo                          an order flow; kill it and start again
  everstep list ./everstep-demo          what is in its store
  everstep show ./everstep-demo order-3  one instance: status, entries, timeline

A store is a directory (`./data`, which is `fjall:./data`) or `sled:./data`. It
belongs to one process at a time: stop the program that has it open, or look at
a backup.

Exit codes:
  0    done
  1    looked, and something is wrong (`verify` has findings), or it failed
  2    the command line is wrong
  3    the store can't be used: missing, in use, damaged, of a newer release
  4    there is no such instance
  130  stopped by Ctrl-C

Every error has a code with a page that says what to do: docs/errors/README.md";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an order flow; kill it, start it again, see it carry on
    Demo(demo::Demo),
    /// List the instances of a store
    List(list::List),
    /// Show one instance: where it stands, its entries, its timeline
    Show(show::Show),
    /// Tell what an instance did, in the order in which it was decided
    History(history::History),
    /// Read everything in a store and report what is wrong
    Verify(store::Verify),
    /// Write a store, or one instance, to a file
    Export(store::Export),
    /// Bring what `export` wrote into a store
    Import(store::Import),
    /// Copy a store into a new one
    Backup(store::Backup),
    /// Open a store that has lost commits; the loss is written into it
    AcceptLoss(store::AcceptLoss),
    /// Measure what workflows cost, beside what the disk allows
    Bench(bench::Bench),
    /// Print a completion script for a shell
    Completions(completions::Completions),
}

/// Where a command writes to, and how.
struct Output {
    /// Colours are taken out where it is not a terminal.
    out: anstream::AutoStream<io::Stdout>,
    json: bool,
}

impl Output {
    /// Writes one JSON object on a line of its own.
    fn object(&mut self, object: &serde_json::Value) -> Outcome {
        Ok(writeln!(self.out, "{}", text::plain_json(&object.to_string()))?)
    }
}

/// The command line is wrong, or asks for help.
fn misused(error: &clap::Error) -> ExitCode {
    let as_json = std::env::args_os().any(|argument| argument == "--json");
    if !as_json || !error.use_stderr() {
        error.exit();
    }
    let text = error.render().to_string();
    let (message, help) = text.split_once("\n\n").unwrap_or((&text, ""));
    let message = message.trim().trim_start_matches("error: ");
    let error = json!({"code": null, "message": message, "help": help.trim(), "page": null});
    anstream::eprintln!("{}", text::plain_json(&json!({"error": error}).to_string()));
    ExitCode::from(2)
}

pub(crate) fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misused(&error),
    };
    let mut output = Output {
        out: anstream::stdout(),
        json: arguments.json,
    };
    let outcome = match &arguments.command {
        Command::Demo(demo) => demo.run(&output),
        Command::List(list) => list.run(&mut output),
        Command::Show(show) => show.run(&mut output),
        Command::History(history) => history.run(&mut output),
        Command::Verify(verify) => verify.run(&mut output),
        Command::Export(export) => export.run(&mut output),
        Command::Import(import) => import.run(&mut output),
        Command::Backup(backup) => backup.run(&mut output),
        Command::AcceptLoss(accept) => accept.run(&mut output),
        Command::Bench(bench) => bench.run(&mut output),
        Command::Completions(completions) => completions.run(&mut output),
    };
    match outcome.and_then(|()| Ok(output.out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has enough: `everstep list ./data | head`.
        Err(Problem::Silent(code)) => code.into(),
        Err(problem) => problem.tell(arguments.json),
    }
}

#[cfg(test)]
#[path = "../../tests/documents/commands.rs"]
mod commands;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    /// What the program has against a command. It may be asked for help; a name with no more than options is one in a
    /// sentence.
    fn refused(words: &[String]) -> Option<String> {
        let words: Vec<_> = std::iter::once("everstep")
            .chain(words.iter().map(String::as_str))
            .collect();
        let error = Arguments::try_parse_from(&words).err()?;
        let missing = [
            ErrorKind::MissingRequiredArgument,
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
        ];
        let named = words.iter().skip(2).all(|word| word.starts_with('-'));
        let understood = error.kind() == ErrorKind::DisplayHelp || named && missing.contains(&error.kind());
        (!understood).then(|| error.to_string())
    }

    /// They were tried with `--help` behind them once, which forgives what is missing.
    #[test]
    fn every_command_of_the_documents_is_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut shown = commands::commands_of(root, &["everstep"]);
        shown.extend(commands::commands_of(root, &["cargo", "run", "--"]));
        // `cargo xtask bench --json` goes to the program; `cargo xtask bench storage --json` does not.
        let benches = commands::commands_of(root, &["cargo", "xtask", "bench"]);
        let of_program = benches
            .into_iter()
            .filter(|(_, words)| words.first().is_none_or(|word| word.starts_with('-')));
        shown.extend(of_program.map(|(page, words)| (page, [vec!["bench".to_owned()], words].concat())));
        assert!(shown.len() > 15, "the pages were read: {shown:?}");
        let wrong = shown
            .iter()
            .filter_map(|(page, words)| Some(format!("{page}: everstep {}: {}", words.join(" "), refused(words)?)));
        let wrong: Vec<_> = wrong.collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Help texts show examples, each on a line; what it does may stand behind two spaces.
    #[test]
    fn every_example_of_the_help_is_understood() {
        let mut program = Arguments::command();
        let texts: Vec<_> = std::iter::once(program.render_help().to_string())
            .chain(
                program
                    .get_subcommands_mut()
                    .map(|command| command.render_help().to_string()),
            )
            .collect();
        let lines = texts.iter().flat_map(|text| text.lines());
        let shown = lines.filter_map(|line| line.strip_prefix("  everstep ")?.split("  ").next());
        let mut seen = 0;
        for line in shown {
            seen += 1;
            let words = commands::commands(&format!("`everstep {line}`")).remove(0);
            assert_eq!(refused(&words[1..]), None, "everstep {line}");
        }
        assert!(seen > 20, "the help was read: {seen} examples");
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let refused = |line: &str| refused(&line.split(' ').map(str::to_owned).collect::<Vec<_>>()).is_some();
        assert!(refused("show ./data") && refused("lsit") && refused("demo --instances x") && refused("list ./a b"));
        assert!(!refused("show ./data order-1") && !refused("show") && !refused("accept-loss --help"));
    }
}

//! `cargo xtask bench [NAME] [ARGUMENTS...]`: measures. Whatever follows the
//! name goes to the bench itself (`cargo xtask bench storage --json`).

use clap::Args;

use crate::error::{Error, Result};
use crate::metadata::{self, Bench};
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// The bench to run (every bench if left out), then arguments for it
    #[arg(value_name = "NAME | ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    let (name, arguments) = split(&options.words);
    let benches = select(metadata::benches()?, name)?;
    if benches.is_empty() {
        println!("this workspace has no benches");
    }
    for bench in benches {
        shell::run(
            shell::cargo()
                .args(["bench", "--package", &bench.package, "--bench", &bench.name])
                .args(["--all-features", "--"])
                .args(arguments),
        )?;
    }
    Ok(())
}

/// The first word is the name, unless it is an option: then there is no name.
fn split(words: &[String]) -> (Option<&str>, &[String]) {
    match words {
        [name, arguments @ ..] if !name.starts_with('-') => (Some(name), arguments),
        arguments => (None, arguments),
    }
}

fn select(benches: Vec<Bench>, name: Option<&str>) -> Result<Vec<Bench>> {
    let Some(name) = name else { return Ok(benches) };
    let (chosen, others): (Vec<_>, Vec<_>) = benches.into_iter().partition(|bench| bench.name == name);
    if chosen.is_empty() {
        let mut known: Vec<_> = others.into_iter().map(|bench| bench.name).collect();
        if known.is_empty() {
            known.push(String::from("none yet"));
        }
        return Err(Error::UnknownBench {
            name: name.to_owned(),
            known: known.join(", "),
        });
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().copied().map(String::from).collect()
    }

    fn benches() -> Vec<Bench> {
        ["storage", "replay"]
            .map(|name| Bench {
                package: "everstep".into(),
                name: name.into(),
            })
            .into()
    }

    #[test]
    fn options_without_a_name_go_to_every_bench() {
        assert_eq!(split(&words(&["--json"])), (None, &words(&["--json"])[..]));
        let storage = words(&["storage", "--json", "16"]);
        assert_eq!(split(&storage), (Some("storage"), &words(&["--json", "16"])[..]));
        assert_eq!(split(&[]), (None, &[][..]));
    }

    #[test]
    fn a_name_chooses_and_an_unknown_one_is_refused_with_the_known_ones() {
        assert_eq!(select(benches(), None).unwrap().len(), 2);
        let chosen = select(benches(), Some("replay")).unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].name, "replay");
        let error = select(benches(), Some("x")).unwrap_err();
        assert_eq!(error.to_string(), "no bench is named `x`; there are: storage, replay");
    }
}

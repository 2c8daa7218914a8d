//! `cargo xtask bench [NAME] [ARGUMENTS...]`: measures. Without a name that is
//! `everstep bench`, built for speed, with the arguments (`cargo xtask bench
//! --only W1 --json`); with one, the bench of that name, of a part alone
//! (`cargo xtask bench storage --json`).

use clap::Args;

use crate::error::{Error, Result};
use crate::metadata::{self, Bench};
use crate::shell;

#[derive(Args)]
pub(crate) struct Options {
    /// The bench to run (that of whole workflows if left out), then arguments for it
    #[arg(value_name = "NAME | ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result {
    let (name, arguments) = split(&options.words);
    let mut cargo = shell::cargo();
    let Some(name) = name else {
        let program = ["run", "--quiet", "--release", "--package", "everstep", "--", "bench"];
        return shell::run(cargo.args(program).args(arguments));
    };
    let bench = select(metadata::benches()?, name)?;
    cargo.args(["bench", "--package", &bench.package, "--bench", &bench.name]);
    shell::run(cargo.args(["--all-features", "--"]).args(arguments))
}

/// The first word is the name, unless it is an option: then there is no name.
fn split(words: &[String]) -> (Option<&str>, &[String]) {
    match words {
        [name, arguments @ ..] if !name.starts_with('-') => (Some(name), arguments),
        arguments => (None, arguments),
    }
}

fn select(benches: Vec<Bench>, name: &str) -> Result<Bench> {
    let known: Vec<_> = benches.iter().map(|bench| bench.name.clone()).collect();
    let chosen = benches.into_iter().find(|bench| bench.name == name);
    chosen.ok_or_else(|| Error::UnknownBench {
        name: name.to_owned(),
        known: known.join(", "),
    })
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
    fn options_without_a_name_go_to_the_program() {
        assert_eq!(split(&words(&["--json"])), (None, &words(&["--json"])[..]));
        let storage = words(&["storage", "--json", "16"]);
        assert_eq!(split(&storage), (Some("storage"), &words(&["--json", "16"])[..]));
        assert_eq!(split(&[]), (None, &[][..]));
    }

    #[test]
    fn a_name_chooses_and_an_unknown_one_is_refused_with_the_known_ones() {
        assert_eq!(select(benches(), "replay").unwrap().name, "replay");
        let Err(error) = select(benches(), "x") else {
            panic!("there is no bench x");
        };
        assert_eq!(error.to_string(), "no bench is named `x`; there are: storage, replay");
    }
}

//! `everstep completions`: a script that teaches a shell the commands and options.

use std::io::Write;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Arguments, Outcome, Output};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep completions bash >> ~/.bash_completion
  everstep completions zsh  > ~/.zfunc/_everstep
  everstep completions fish > ~/.config/fish/completions/everstep.fish")]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self, output: &mut Output) -> Outcome {
        // In one piece: a reader that has enough (`| head`) is told apart from a disk that is full.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "everstep", &mut script);
        Ok(output.out.write_all(&script)?)
    }
}

//! What can go wrong in a command, told so that the reader knows what to do.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("could not start `{command}`: {source}")]
    Start { command: String, source: io::Error },

    #[error("`{command}` failed with {status}")]
    Failed { command: String, status: ExitStatus },

    #[error("stage `{stage}` failed: {source}")]
    Stage { stage: &'static str, source: Box<Error> },

    #[error(
        "`{program}` is missing and installing {packages} needs root; run `apt-get install {packages}` as root and try again"
    )]
    NotRoot { program: &'static str, packages: String },

    #[error(
        "`{program}` is missing and this is not a Debian system; install what provides it (on Debian: {packages}) and try again"
    )]
    NotDebian { program: &'static str, packages: String },

    #[error("could not read the output of `cargo metadata`: {0}")]
    Metadata(#[from] serde_json::Error),

    #[error("could not create {}: {source}", path.display())]
    Folder { path: PathBuf, source: io::Error },

    #[error("`rustc -vV` does not say which host it runs on")]
    NoHost,

    #[error("no bench is named `{name}`; there are: {known}")]
    UnknownBench { name: String, known: String },
}

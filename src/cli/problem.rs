//! What a command fails with: what happened, what to do, and the exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use everstep::storage;
use serde_json::json;

use super::{paint, text};

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Problem>;

/// The exit codes, as `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Wrong = 1,
    Store = 3,
    NoInstance = 4,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Problem {
    /// Everything was said already, or nobody listens.
    Silent(Exit),
    /// The store, or the runtime on it.
    Everstep(everstep::Error),
    /// There is nothing at the place that was named.
    NoStore(String),
    /// There is no such instance.
    NoInstance(String, String),
    /// A file that is no part of the store: what was tried, on what, and what the system said.
    File(&'static str, String, io::Error),
    /// Anything else.
    Other(String),
}

impl Problem {
    /// What the system said about a file, with what was tried.
    pub(crate) fn file(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::File(action, path.display().to_string(), error)
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Silent(exit) => *exit,
            Self::Everstep(everstep::Error::Storage(storage::Error::Payload(_))) => Exit::Wrong,
            Self::Everstep(everstep::Error::Storage(_)) | Self::NoStore(_) => Exit::Store,
            Self::NoInstance(..) => Exit::NoInstance,
            Self::Everstep(_) | Self::File(..) | Self::Other(_) => Exit::Wrong,
        }
    }

    /// The stable code, where there is one.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Everstep(error) => Some(error.code()),
            Self::NoInstance(..) => Some("ES0401"),
            Self::NoStore(_) => Some("ES0203"),
            Self::File(_, _, error) if error.kind() == io::ErrorKind::AlreadyExists => Some("ES0234"),
            Self::File(..) => Some("ES0204"),
            Self::Silent(_) | Self::Other(_) => None,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Silent(_) => String::new(),
            Self::Everstep(error) => error.to_string(),
            Self::NoStore(url) if in_memory(url) => {
                format!("`{url}` lives in the process that opened it: nobody else can look at it")
            }
            Self::NoStore(url) => format!("there is no store at {url}"),
            Self::NoInstance(instance, url) => format!("there is no instance `{instance}` in {url}"),
            Self::File(_, path, error) if error.kind() == io::ErrorKind::AlreadyExists => {
                format!("{path} exists; nothing is ever overwritten, so choose another place")
            }
            Self::File(action, path, error) => format!("could not {action} {path}: {error}"),
            Self::Other(message) => message.clone(),
        }
    }

    /// What to do about it, in one line.
    fn help(&self) -> Option<String> {
        use storage::Error as Store;
        let everstep::Error::Storage(error) = (match self {
            Self::Everstep(error) => error,
            Self::NoStore(url) if in_memory(url) => return Some("a store on disk is `./data` or `sled:./data`".into()),
            Self::NoStore(_) => return Some("check the path; `everstep demo` makes a store to look at".into()),
            Self::NoInstance(_, url) => return Some(format!("`everstep list {url}` shows which there are")),
            Self::File(_, _, error) => return Some(of_file(error.kind()).into()),
            Self::Silent(_) | Self::Other(_) => return None,
        }) else {
            return None;
        };
        Some(match error {
            Store::Locked { pid: Some(pid), .. } => format!(
                "a store belongs to one process at a time; stop process {pid}, or look at a backup that it makes"
            ),
            Store::Locked { pid: None, .. } => "a store belongs to one process at a time; stop the other one".into(),
            Store::UnknownScheme { scheme, .. } if ["fjall", "sled"].contains(&scheme.as_str()) => format!(
                "this program was built without {scheme}: build it with `--features {scheme}`; `everstep demo --store \
                 memory:` runs without"
            ),
            Store::InvalidUrl { .. } | Store::UnknownScheme { .. } => "a store is `./data` or `sled:./data`".into(),
            Store::Full => "make room on its disk and start again: what was acknowledged is there".into(),
            Store::Refused(_) => "nothing was written; `everstep show` tells how the instance stands".into(),
            Store::Import { .. } => "if the file was cut or changed on its way, export again".into(),
            Store::NotEmpty { .. } => "name a directory that does not exist yet, or an empty one".into(),
            Store::BehindWatermark { .. }
            | Store::DifferentPast { .. }
            | Store::ForeignWatermark
            | Store::DamagedLog { .. }
            | Store::NoWatermark { .. } => {
                "restore a backup, or see `everstep accept-loss --help`".into()
            }
            Store::Corrupt(_) | Store::Decode { .. } | Store::InvalidKey(_) => {
                "`everstep verify` lists everything that is wrong with the store, `everstep export --salvage` saves what is \
                 sound"
                    .into()
            }
            Store::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "opening a store writes to its directory; copy it to where you may write".into()
            }
            Store::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                "opening a store writes to its directory; copy it to where you may write".into()
            }
            _ => return None,
        })
    }

    /// Says it, and gives the exit code.
    pub(crate) fn tell(&self, as_json: bool) -> ExitCode {
        let (code, message, help) = (self.code(), self.message(), self.help());
        let page = code.map(|code| format!("{}/blob/main/docs/errors/{code}.md", env!("CARGO_PKG_REPOSITORY")));
        if as_json {
            let error = json!({"code": code, "message": message, "help": help, "page": page});
            anstream::eprintln!("{}", text::plain_json(&json!({"error": error}).to_string()));
            return self.exit().into();
        }
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        let message = text::plain(&message);
        anstream::eprintln!("{}: {message}", paint::bad(&format!("error{code}")));
        if let Some(help) = help {
            anstream::eprintln!("  {}: {}", paint::strong("help"), text::plain(&help));
        }
        if let Some(page) = page {
            anstream::eprintln!("  {}: {page}", paint::strong("more"));
        }
        self.exit().into()
    }
}

/// What to do about a file that is no part of the store.
fn of_file(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::AlreadyExists => "name a file that does not exist yet",
        io::ErrorKind::PermissionDenied => "check whose it is, and its mode",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or write to somewhere else; nothing is wrong with the store"
        }
        _ => "check the path",
    }
}

fn in_memory(url: &str) -> bool {
    url.starts_with("memory:")
}

impl From<everstep::Error> for Problem {
    fn from(error: everstep::Error) -> Self {
        Self::Everstep(error)
    }
}

impl From<storage::Error> for Problem {
    fn from(error: storage::Error) -> Self {
        Self::Everstep(error.into())
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Silent(Exit::Done);
        }
        Self::Other(error.to_string())
    }
}

impl From<serde_json::Error> for Problem {
    fn from(error: serde_json::Error) -> Self {
        Self::Other(error.to_string())
    }
}

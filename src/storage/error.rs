//! What can go wrong with a store, each with a stable code and what to do about it.
//!
//! Every code has a page under `docs/errors/`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::ids::Shard;
use crate::storage::key::InvalidKey;
use crate::storage::payload::PayloadError;
use crate::storage::record::{Seen, Status};
use crate::storage::value::DecodeError;

/// What a storage call returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a storage call did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL can't be read.
    #[error("`{url}` does not name a store: {reason}")]
    InvalidUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The URL names an engine that this build does not have.
    #[error("`{scheme}:` is not a known kind of store; known are {known}")]
    UnknownScheme {
        /// What was asked for.
        scheme: String,
        /// What there is.
        known: String,
    },
    /// The path is something else than a directory for this store.
    #[error("{} can't hold a store: {reason}", path.display())]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// The file system refused.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Another process has the store open.
    #[error("{} is in use by {}", path.display(), holder(*pid))]
    Locked {
        /// The store.
        path: PathBuf,
        /// The process, if it could be told.
        pid: Option<u32>,
    },
    /// The store was written by a newer release. It was left untouched.
    #[error("the store has format {found}, this release knows up to {known}; open it with a newer release")]
    NewerFormat {
        /// The format of the store.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The store has lost commits that were durable once.
    #[error(
        "shard {shard} of the store stands at commit {found}, but commit {expected} was durable; restore it from a \
         backup, or accept the loss on purpose"
    )]
    BehindWatermark {
        /// The shard that is behind.
        shard: Shard,
        /// The last commit known to have been durable.
        expected: u64,
        /// The last commit that is there.
        found: u64,
    },
    /// The store and its watermark tell of different pasts.
    #[error(
        "shard {shard} of the store has another past than its watermark at commit {sequence}; restore both from the \
         same backup, or accept the loss on purpose"
    )]
    DifferentPast {
        /// The shard.
        shard: Shard,
        /// Where they differ.
        sequence: u64,
    },
    /// The watermark vouches for a store that was made at another time.
    #[error(
        "the watermark belongs to another store than the one beside it; restore both from the same backup, or accept \
         the loss on purpose"
    )]
    ForeignWatermark,
    /// The log of the engine is damaged, and what is behind the damage may be all there is of commits that were
    /// durable. Not a byte of it was changed.
    #[error(
        "{} can't be read at byte {at} ({reason}): up to there it holds {} of shard {shard}, and commit {expected} was \
         durable; restore it from a backup, or accept the loss on purpose", path.display(), up_to(*found)
    )]
    DamagedLog {
        /// The file.
        path: PathBuf,
        /// Up to where it can be read.
        at: u64,
        /// What is there instead.
        reason: String,
        /// The shard that is missing most.
        shard: Shard,
        /// The last commit of that shard known to have been durable.
        expected: u64,
        /// The last one that the log holds before the damage. None if it holds none: then what there is lies in
        /// tables, which are not part of the log.
        found: Option<u64>,
    },
    /// There is a store, but no watermark that could vouch for it.
    #[error(
        "the watermark {} is {found}, so nothing tells whether the store is complete; restore the file from a \
         backup, or accept a possible loss on purpose", path.display()
    )]
    NoWatermark {
        /// The file.
        path: PathBuf,
        /// `missing`, or `damaged`.
        found: &'static str,
    },
    /// What is stored can't be right.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// A value can't be read.
    #[error("the value at {key} can't be read: {source}")]
    Decode {
        /// The key, as text.
        key: String,
        /// What is wrong with the value.
        source: DecodeError,
    },
    /// A key can't be read.
    #[error(transparent)]
    InvalidKey(#[from] InvalidKey),
    /// A payload can't be written or read.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The disk is full. Nothing is acknowledged any more; a restart with room goes on.
    #[error("the disk is full; make room and restart")]
    Full,
    /// A write or sync failed. Nothing is acknowledged any more; a restart recovers.
    #[error("the store failed and acknowledges nothing any more ({0}); restart to recover")]
    Failed(String),
    /// A commit may have been done or not. Nothing is acknowledged any more; a restart shows what became of it.
    #[error(
        "what became of a commit is unknown, and the store acknowledges nothing any more ({0}); restart to recover"
    )]
    Unknown(String),
    /// There is no such shard in this store.
    #[error("there is no shard {shard} in this store, which has {shards}")]
    NoShard {
        /// What the commit said.
        shard: Shard,
        /// How many there are.
        shards: u16,
    },
    /// Another owner has taken the shard.
    #[error("the shard was taken over by another owner")]
    Fenced,
    /// The engine can't be reached now.
    #[error("the engine is unavailable: {0}")]
    Unavailable(String),
    /// The queue is full, and the caller did not want to wait.
    #[error("too many commits are waiting")]
    Overloaded,
    /// A condition of the commit did not hold. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The commit is larger than a commit may be. Nothing was written.
    #[error("the commit has {bytes} bytes, at most {max} are allowed")]
    TooLarge {
        /// Bytes of the commit.
        bytes: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// A line of an import can't be read.
    #[error("line {line} of the import: {reason}")]
    Import {
        /// Which line, from one.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// An import was cut short, so the store is not whole.
    #[error("an import into this store was cut short; import the same again, or remove the store")]
    ImportUnfinished,
    /// The store has an older format, and this release does not know the way from there.
    #[error("the store has format {found}, and this release can't bring it to {known}; use a release in between")]
    NoMigration {
        /// The format of the store.
        found: u32,
        /// The format of this release.
        known: u32,
    },
    /// An instance that was deleted has something on its way to others, which an export would lose.
    #[error("what {instance:?} sent before it was deleted is still on its way; export again when it has got there")]
    OnItsWay {
        /// Who sent it.
        instance: String,
    },
    /// What is to be made anew is there already.
    #[error("{what} is not empty; nothing is ever overwritten, so choose another place")]
    NotEmpty {
        /// The store or directory.
        what: String,
    },
}

/// Which condition of a commit did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The instance exists already.
    #[error("the instance exists already")]
    Exists,
    /// There is no such instance.
    #[error("there is no such instance")]
    Missing,
    /// The instance has ended.
    #[error("the instance has ended: {0}")]
    Ended(Status),
    /// The instance has moved on.
    #[error("the instance is at revision {found}, not {expected}")]
    Revision {
        /// The revision expected.
        expected: u64,
        /// The revision found.
        found: u64,
    },
    /// A message with this id was accepted before.
    #[error("a message with this id was accepted before")]
    Duplicate(Seen),
    /// The inbox holds as much as it may.
    #[error("the inbox is full: {messages} messages of {bytes} bytes wait in it")]
    InboxFull {
        /// How many messages wait.
        messages: usize,
        /// How large they are together.
        bytes: usize,
    },
    /// The commit comes from an activation that is over.
    #[error("the commit comes from an activation that is over")]
    StaleActivation,
    /// What was on its way is not there any more, or in another place.
    #[error("what was on its way is not there any more")]
    NotPosted,
}

impl Error {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUrl { .. } => "ES0201",
            Self::UnknownScheme { .. } => "ES0202",
            Self::NotAStore { .. } => "ES0203",
            Self::Io { .. } => "ES0204",
            Self::Locked { .. } => "ES0205",
            Self::NewerFormat { .. } => "ES0206",
            Self::BehindWatermark { .. } | Self::DifferentPast { .. } | Self::ForeignWatermark => "ES0207",
            Self::NoWatermark { .. } => "ES0208",
            Self::Corrupt(_) => "ES0209",
            Self::Full => "ES0210",
            Self::Failed(_) => "ES0211",
            Self::Fenced => "ES0212",
            Self::Overloaded => "ES0213",
            Self::Refused(_) => "ES0214",
            Self::TooLarge { .. } => "ES0215",
            Self::Closed => "ES0216",
            Self::Unavailable(_) => "ES0217",
            Self::Unknown(_) => "ES0218",
            Self::NoShard { .. } => "ES0219",
            Self::InvalidKey(_) => "ES0221",
            Self::Decode { source, .. } => source.code(),
            Self::Import { .. } => "ES0231",
            Self::ImportUnfinished => "ES0232",
            Self::NoMigration { .. } => "ES0233",
            Self::NotEmpty { .. } => "ES0234",
            Self::OnItsWay { .. } => "ES0235",
            Self::DamagedLog { .. } => "ES0236",
            Self::Payload(error) => error.code(),
        }
    }

    /// Whether it says that what is stored can't be read: that concerns whose it is, and nobody else.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self, Self::Corrupt(_) | Self::Decode { .. } | Self::InvalidKey(_))
    }

    /// A file system error with what was tried, and on what.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match Arc::new(source) {
            full if is_full(&full) => Self::Full,
            source => Self::Io { action, path, source },
        }
    }
}

impl From<crate::storage::engine::ReadError> for Error {
    fn from(error: crate::storage::engine::ReadError) -> Self {
        use crate::storage::engine::ReadError;
        match error {
            ReadError::Corrupt(what) => Self::Corrupt(what),
            // Opening writes, and some engines say so of that.
            ReadError::Unavailable(error) if is_full(&error) => Self::Full,
            ReadError::Unavailable(error) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<crate::storage::engine::CommitError> for Error {
    fn from(error: crate::storage::engine::CommitError) -> Self {
        use crate::storage::engine::CommitError;
        match error {
            CommitError::Fenced { .. } => Self::Fenced,
            CommitError::TooLarge { bytes, max } => Self::TooLarge { bytes, max },
            CommitError::Corrupt(what) => Self::Corrupt(what),
            CommitError::Unavailable(error) | CommitError::Unknown(error) if is_full(&error) => Self::Full,
            CommitError::Unavailable(error) => Self::Unavailable(error.to_string()),
            CommitError::Unknown(error) => Self::Unknown(error.to_string()),
            CommitError::Unreadable(error) => error.into(),
            conflict @ CommitError::Conflict { .. } => Self::Failed(conflict.to_string()),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull || error.kind() == io::ErrorKind::QuotaExceeded
}

/// The last commit that was found, for people.
fn up_to(found: Option<u64>) -> String {
    found.map_or_else(|| "no commit".to_owned(), |found| format!("the commits up to {found}"))
}

/// Who holds a lock, for people.
fn holder(pid: Option<u32>) -> String {
    match pid {
        Some(pid) if pid == std::process::id() => {
            format!("process {pid}, this one: a runtime, a handle or a pending call of it is still alive")
        }
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

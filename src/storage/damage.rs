//! A log of an engine that is damaged: what is said of it, and how what can't be read is set aside.
//!
//! A log that is damaged in the middle may hold, behind the damage, all there is of commits that were durable. So the
//! store is refused with every file as it was. Whoever accepts the loss has the log cut off where it can't be read any
//! more, and the files as they were kept in the directory of the store: nothing is ever deleted that could still be of
//! use to somebody.
//!
//! ```text
//! data/damaged/new/       copies of the files that are about to change, being made
//! data/damaged/pending/   all of them, durable, with the file `cut`, which says what is to become of the log
//! data/damaged/1/         the same, when the store was opened without them and its header says so
//! ```
//!
//! A crash may come anywhere. Before `pending` has its name nothing has changed, and the loss has to be accepted once
//! more. From then on every opening carries out what is left, which is a few steps that can each be taken twice: the
//! files behind the damage are removed, the last one first, and then the damaged one is replaced by what can be read of
//! it. A file that is not what was copied was put there by somebody else, a backup for instance, and is left alone.

#![cfg_attr(
    not(all(feature = "fjall", feature = "sled")),
    allow(dead_code, reason = "each engine on disk is refused in its own way")
)]

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::ids::Shard;
use crate::storage::directory;
use crate::storage::engine::ReadError;
use crate::storage::error::{Error, Result};

/// Where files are kept that were set aside.
pub(crate) const DAMAGED: &str = "damaged";
const NEW: &str = "new";
const PENDING: &str = "pending";
const CUT: &str = "cut";

/// Damage to a log.
#[derive(Debug)]
pub(crate) struct Damage {
    /// The file that can't be read to its end.
    pub(crate) file: PathBuf,
    /// Up to where it can.
    pub(crate) at: u64,
    /// What is there instead.
    pub(crate) reason: String,
    /// The last commit of each shard that the log holds before that.
    pub(crate) readable: BTreeMap<Shard, u64>,
    /// The files of the log behind it, in their order.
    pub(crate) behind: Vec<PathBuf>,
}

/// Why an engine was not opened.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its log is damaged. It can be opened when what can't be read was set aside.
    Damaged(Damage),
    /// It can't read its files, and it may be because of these, which it makes anew when they are missing. They can be set
    /// aside too, though nothing tells beforehand what is left then.
    Beside {
        /// What it says.
        what: String,
        /// What it can do without.
        files: Vec<PathBuf>,
    },
    /// Anything else.
    Read(ReadError),
}

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl Refused {
    /// The error for whoever wanted the store open; `durable` is the last commit of each shard that is known to have
    /// been durable.
    pub(crate) fn error(self, durable: &[u64]) -> Error {
        match self {
            Self::Damaged(damage) => damage.error(durable),
            Self::Beside { what, .. } => Error::Corrupt(format!("{what}, or accept a possible loss on purpose")),
            Self::Read(error) => error.into(),
        }
    }

    /// Sets aside what the engine can be opened without, see [`Damage::set_aside`]. Tells whether there is such a thing.
    pub(crate) fn set_aside(&self, store: &Path) -> Result<bool> {
        match self {
            Self::Damaged(damage) => damage.set_aside(store)?,
            Self::Beside { what, files } => {
                let steps = files.iter().cloned().map(Step::Remove).collect::<Vec<_>>();
                set_aside(store, &steps, what)?;
            }
            Self::Read(_) => return Ok(false),
        }
        Ok(true)
    }
}

impl From<Refused> for ReadError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Damaged(_) => Self::Corrupt(format!("{refused}; restore it from a backup")),
            Refused::Beside { what, .. } => Self::Corrupt(what),
            Refused::Read(error) => error,
        }
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(Damage { file, at, reason, .. }) => {
                write!(f, "{} can't be read at byte {at} ({reason})", file.display())
            }
            Self::Beside { what, .. } => f.write_str(what),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl Damage {
    /// Whether a shard is known to have got further than the log before the damage says. Of a shard that it says
    /// nothing of, this is not known.
    pub(crate) fn is_behind(&self, durable: &[u64]) -> bool {
        self.readable
            .iter()
            .any(|(shard, last)| durable.get(usize::from(shard.0)).is_some_and(|durable| last < durable))
    }

    /// Names the shard that is missing most.
    fn error(self, durable: &[u64]) -> Error {
        let missing = |shard: u16| {
            let found = self.readable.get(&Shard(shard)).copied();
            let expected = durable.get(usize::from(shard)).copied().unwrap_or_default();
            (expected.saturating_sub(found.unwrap_or_default()), expected, found)
        };
        let shards = u16::try_from(durable.len()).unwrap_or(u16::MAX).max(1);
        // Of several that miss as much, the first.
        let worst = (0..shards)
            .rev()
            .max_by_key(|shard| missing(*shard).0)
            .unwrap_or_default();
        let (_, expected, found) = missing(worst);
        Error::DamagedLog {
            path: self.file,
            at: self.at,
            reason: self.reason,
            shard: Shard(worst),
            expected,
            found,
        }
    }

    /// Keeps the files that can't be read, or lie behind one, and says what is to become of the log. Changes nothing
    /// yet: [`finish`] does. `store` is the directory of the store, which holds the log somewhere below.
    pub(crate) fn set_aside(&self, store: &Path) -> Result<()> {
        let behind = self.behind.iter().rev().cloned().map(Step::Remove);
        let steps: Vec<_> = behind.chain([Step::Cut(self.file.clone(), self.at)]).collect();
        set_aside(store, &steps, &self.reason)
    }
}

fn set_aside(store: &Path, steps: &[Step], reason: &str) -> Result<()> {
    let damaged = store.join(DAMAGED);
    make(&damaged)?;
    // One that was accepted before is over: the log was opened since, or this could not be found in it.
    close(store)?;
    let new = damaged.join(NEW);
    remove_dir(&new)?;
    make(&new)?;
    let mut plan = format!("# {}\n", reason.replace('\n', " "));
    for step in steps {
        let file = step.file();
        let name = file.strip_prefix(store).ok().and_then(Path::to_str);
        let name = name.ok_or_else(|| Error::Corrupt(format!("{} has no usual name", file.display())))?;
        plan.push_str(&match step {
            Step::Remove(_) => format!("remove {name}\n"),
            Step::Cut(_, at) => format!("{at} {name}\n"),
        });
        let copy = new.join(file.file_name().unwrap_or_default());
        fs::copy(file, &copy).map_err(Error::io("copy", file))?;
        fs::set_permissions(&copy, Permissions::from_mode(0o600)).map_err(Error::io("change the mode of", &copy))?;
        directory::sync(&copy)?;
    }
    write_new(&new.join(CUT), plan.as_bytes())?;
    directory::sync(&new)?;
    let pending = damaged.join(PENDING);
    fs::rename(&new, &pending).map_err(Error::io("rename", &new))?;
    directory::sync(&damaged)?;
    directory::sync(store)?;
    tracing::warn!(path = %damaged.display(), reason, "what can't be read of the log is set aside");
    Ok(())
}

/// One thing to be done to the log. Doing it twice is doing it once.
enum Step {
    /// This file lies behind the damage, or is made anew.
    Remove(PathBuf),
    /// This one can be read up to there.
    Cut(PathBuf, u64),
}

impl Step {
    fn file(&self) -> &Path {
        let (Self::Remove(file) | Self::Cut(file, _)) = self;
        file
    }
}

/// Carries out what was begun. Tells whether a loss was accepted that is not in the header of the store yet.
pub(crate) fn finish(store: &Path) -> Result<bool> {
    finish_some(store, usize::MAX)
}

/// The same, and no more than so many steps of it.
fn finish_some(store: &Path, most: usize) -> Result<bool> {
    let pending = store.join(DAMAGED).join(PENDING);
    let Some(steps) = steps(store, &pending)? else {
        return Ok(false);
    };
    let copy = |file: &Path| pending.join(file.file_name().unwrap_or_default());
    let is_as_it_was = |file: &Path| same(file, &copy(file)).map_err(Error::io("read", file));
    // The damaged file goes last. Where it is another one, all is done, or somebody has put a sound log there.
    let damaged = steps.iter().find_map(|step| match step {
        Step::Cut(file, _) => Some(file),
        Step::Remove(_) => None,
    });
    if !damaged.map_or(Ok(true), |file| is_as_it_was(file))? {
        return Ok(true);
    }
    for step in steps.iter().take(most) {
        let file = step.file();
        if is_as_it_was(file)? {
            match step {
                Step::Remove(file) => fs::remove_file(file).map_err(Error::io("remove", file))?,
                Step::Cut(file, at) => replace(file, &copy(file), *at)?,
            }
            file.parent().map_or(Ok(()), directory::sync)?;
        }
    }
    Ok(true)
}

/// What is to be done, in its order; none if nothing was set aside.
fn steps(store: &Path, pending: &Path) -> Result<Option<Vec<Step>>> {
    let path = pending.join(CUT);
    let plan = match fs::read_to_string(&path) {
        Ok(plan) => plan,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !pending.exists() => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let reason = "has no plan any more of what was to be done; move the directory out of the store";
            return Err(Error::Corrupt(format!("{} {reason}", pending.display())));
        }
        Err(error) => return Err(Error::io("read", &path)(error)),
    };
    let step = |line: &str| {
        let (what, name) = line.split_once(' ')?;
        let file = store.join(name);
        match what {
            "remove" => Some(Step::Remove(file)),
            at => at.parse().ok().map(|at| Step::Cut(file, at)),
        }
    };
    let lines = plan.lines().filter(|line| !line.starts_with('#'));
    let steps: Option<Vec<_>> = lines.map(step).collect();
    let unreadable = || Error::Corrupt(format!("{} can't be read; restore a backup", path.display()));
    steps.map(Some).ok_or_else(unreadable)
}

/// Gives what was set aside a name of its own, when the store was opened without it and its header says so.
pub(crate) fn close(store: &Path) -> Result<()> {
    let damaged = store.join(DAMAGED);
    let pending = damaged.join(PENDING);
    if !pending.exists() {
        return Ok(());
    }
    let free = (1_u64..).map(|number| damaged.join(number.to_string()));
    let Some(name) = free.into_iter().find(|name| !name.exists()) else {
        return Ok(());
    };
    fs::rename(&pending, name).map_err(Error::io("rename", &pending))?;
    directory::sync(&damaged)
}

/// Puts the first bytes of `copy` in the place of `file`.
fn replace(file: &Path, copy: &Path, length: u64) -> Result<()> {
    let new = file.with_extension("cut");
    fs::copy(copy, &new).map_err(Error::io("copy", copy))?;
    let opened = File::options()
        .write(true)
        .open(&new)
        .map_err(Error::io("open", &new))?;
    opened
        .set_len(length)
        .and_then(|()| opened.sync_all())
        .map_err(Error::io("write", &new))?;
    fs::rename(&new, file).map_err(Error::io("rename", &new))
}

/// Whether there is a file that holds the same bytes as a copy. Without the copy there is nothing to go by, and the file is
/// left alone.
fn same(file: &Path, copy: &Path) -> io::Result<bool> {
    let length = |path: &Path| match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    match (length(file)?, length(copy)?) {
        (Some(found), Some(kept)) if found == kept => Ok(fs::read(file)? == fs::read(copy)?),
        _ => Ok(false),
    }
}

fn make(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome.map_err(Error::io("create", path)),
    }
}

fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(Error::io("remove", path)),
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create_new(path).map_err(Error::io("create", path))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(Error::io("write", path))
}

#[cfg(test)]
mod tests;

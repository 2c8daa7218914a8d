//! The directory of an embedded store.
//!
//! ```text
//! data/            0700
//!   lock           held while a process has the store open; says which
//!   watermark      how far the store has got, outside the engine
//!   flight         who was running when the process died; not synced, and no loss if it is missing
//!   fjall/         the engine's own files (or sled/)
//! ```
//!
//! The watermark is made before the engine: a directory with an engine and no watermark is one whose watermark was
//! lost, and never one that was being made when the power went.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::storage::error::{Error, Result};

/// What some file systems put into the top directory of every volume, for what a check of them finds. It belongs to
/// them: a new volume is as good as an empty directory, and what is in there is never touched.
const LOST_AND_FOUND: &str = "lost+found";

/// A directory that this process holds the lock of.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

impl Directory {
    /// Makes the directory if it is missing, and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Self> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(Error::NotAStore {
                    path: path.to_owned(),
                    reason: "it is a file".into(),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)?,
            Err(error) => return Err(Error::io("look at", path)(error)),
        }
        let lock = take_lock(path)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Where the watermark lies.
    pub(crate) fn watermark(&self) -> PathBuf {
        watermark(&self.path)
    }

    /// Where the flight recorder lies.
    pub(crate) fn flight(&self) -> PathBuf {
        self.path.join("flight")
    }

    /// Where the files of an engine lie.
    pub(crate) fn engine(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Refuses a directory that holds something else: another engine's store, or files of somebody else.
    pub(crate) fn holds_only(&self, engine: &str) -> Result<()> {
        holds_only(&self.path, engine)
    }

    /// Takes the rights of everyone else away from all files and directories of the store.
    pub(crate) fn make_private(&self) -> Result<()> {
        make_private(&self.path, Some(LOST_AND_FOUND))
    }
}

/// Where the watermark of the store in a directory lies.
pub(crate) fn watermark(directory: &Path) -> PathBuf {
    directory.join("watermark")
}

/// Refuses a directory that holds something else: another engine's store, or files of somebody else. Changes nothing,
/// so it can be asked before the lock is taken.
pub(crate) fn holds_only(path: &Path, engine: &str) -> Result<()> {
    let refuse = |reason| {
        Err(Error::NotAStore {
            path: path.to_owned(),
            reason,
        })
    };
    for file in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let name = file.map_err(Error::io("list", path))?.file_name();
        match name.to_str() {
            Some("lock" | "watermark" | "watermark.new" | "flight") => {}
            Some(name) if name == engine => {}
            Some(other @ ("fjall" | "sled")) => {
                let path = path.display();
                return refuse(format!("it holds a {other} store; open it as `{other}:{path}`"));
            }
            _ if watermark(path).exists() => {}
            Some(LOST_AND_FOUND) if is_empty(&path.join(LOST_AND_FOUND))? => {}
            _ => return refuse(format!("it is not empty: {}", name.to_string_lossy())),
        }
    }
    Ok(())
}

/// Whether this is a directory with nothing in it, as far as this process may look: on a volume it is root's alone.
fn is_empty(path: &Path) -> Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut listing) => Ok(listing.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(Error::io("list", path)(error)),
    }
}

/// Makes a file, or the names in a directory, durable.
pub(crate) fn sync(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("sync", path))
}

/// Makes a whole tree durable: every file and every name in it, and the name of the tree itself. Engines sync what
/// they write, but not always the directories that they make.
pub(crate) fn sync_tree(path: &Path) -> Result<()> {
    for file in std::fs::read_dir(path).map_err(Error::io("list", path))? {
        let file = file.map_err(Error::io("list", path))?;
        if file.file_type().map_err(Error::io("look at", file.path()))?.is_dir() {
            sync_tree(&file.path())?;
        } else {
            sync(&file.path())?;
        }
    }
    sync(path)?;
    path.parent().map_or(Ok(()), sync)
}

/// Makes a directory with all that is above it, durably: the name of each one that was missing is synced, or a power
/// cut could take the whole store away and leave no watermark to tell.
pub(crate) fn make(path: &Path) -> Result<()> {
    let missing: Vec<_> = path.ancestors().take_while(|above| !above.exists()).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::io("create", path))?;
    let parents = missing.iter().filter_map(|made| made.parent());
    parents
        .map(|parent| {
            if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            }
        })
        .try_for_each(sync)
}

fn take_lock(directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::io("open", &path))?;
    hold(file, directory)
}

/// Locks an opened lock file, and says in it who has it. Between its opening and its locking the directory may have got
/// another name, or been removed: the lock of what used to be here is none of what is here now.
fn hold(mut file: File, directory: &Path) -> Result<File> {
    let path = directory.join("lock");
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = file.read_to_string(&mut holder);
            let pid = read.ok().and_then(|_| holder.trim().parse().ok());
            return Err(Error::Locked {
                path: directory.to_owned(),
                pid,
            });
        }
        Err(TryLockError::Error(error)) => return Err(Error::io("lock", &path)(error)),
    }
    let held = file.metadata().map_err(Error::io("look at", &path))?;
    let here = std::fs::metadata(&path).ok();
    if here.is_none_or(|here| (here.dev(), here.ino()) != (held.dev(), held.ino())) {
        return Err(Error::Locked {
            path: directory.to_owned(),
            pid: None,
        });
    }
    file.set_len(0).map_err(Error::io("write", &path))?;
    writeln!(file, "{}", std::process::id()).map_err(Error::io("write", &path))?;
    Ok(file)
}

fn make_private(path: &Path, except: Option<&str>) -> Result<()> {
    let metadata = std::fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
    let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
    if metadata.permissions().mode() & 0o777 != mode && !metadata.is_symlink() {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::io("change the mode of", path))?;
    }
    if metadata.is_dir() {
        for file in std::fs::read_dir(path).map_err(Error::io("list", path))? {
            let file = file.map_err(Error::io("list", path))?;
            if except.is_none_or(|except| file.file_name() != except) {
                make_private_if_there(&file.path())?;
            }
        }
    }
    Ok(())
}

/// The engine may remove files of its own at any time.
fn make_private_if_there(path: &Path) -> Result<()> {
    match make_private(path, None) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two backups to one place: the second had opened the lock file of the first, the first took its final name and
    /// let the lock go, a third began under the old name. The second then held the lock of a copy that was finished,
    /// took it for that of the third, and removed what the third was writing.
    #[test]
    fn the_lock_of_what_was_moved_away_is_none_of_what_is_here() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("copy.partial"), directory.path().join("copy"));
        let first = Directory::lock(&old).unwrap();
        let second = File::options().read(true).write(true).open(old.join("lock")).unwrap();
        std::fs::rename(&old, &new).unwrap();
        drop(first);
        let code = |outcome: Result<File>| outcome.unwrap_err().code();
        assert_eq!(
            code(hold(second.try_clone().unwrap(), &old)),
            "ES0205",
            "nothing is here"
        );
        let _third = Directory::lock(&old).unwrap();
        assert_eq!(code(hold(second, &old)), "ES0205", "somebody else is here");
        // Whoever asks for what was moved, under the name that it has now, gets it.
        Directory::lock(&new).unwrap();
    }
}

//! The directory of an embedded store.
//!
//! ```text
//! data/            0700
//!   lock           held while a process has the store open; says which
//!   watermark      how far the store has got, outside the engine
//!   flight         who was running when the process died; not synced, and no loss if it is missing
//!   fjall/         the engine's own files (or sled/)
//!   damaged/       files that were set aside when a loss was accepted; only then
//! ```
//!
//! The watermark is made before the engine: a directory with an engine and no watermark is one whose watermark was
//! lost, and never one that was being made when the power went.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::storage::damage::DAMAGED;
use crate::storage::error::{Error, Result};

/// What some file systems put into the top directory of every volume, for what a check of them finds. It belongs to
/// them: a new volume is as good as an empty directory, and what is in there is never touched.
const LOST_AND_FOUND: &str = "lost+found";

/// What lies in the directory of a store. Anything else there is somebody else's.
const OURS: [&str; 7] = ["lock", "watermark", "watermark.new", "flight", "fjall", "sled", DAMAGED];

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
        // The directory itself may be reached through a link, and is meant all the same.
        let metadata = std::fs::metadata(&self.path).map_err(Error::io("look at", &self.path))?;
        make_private_alone(&self.path, &metadata)?;
        OURS.iter()
            .try_for_each(|name| make_private_if_there(&self.path.join(name)))
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
            Some("lock" | "watermark" | "watermark.new" | "flight" | DAMAGED) => {}
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
    refuse_link(&path)?;
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

/// Takes the rights of everyone else away from a file, or a directory and all that is in it.
fn make_private(path: &Path) -> Result<()> {
    let metadata = std::fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    make_private_alone(path, &metadata)?;
    if metadata.is_dir() {
        for file in std::fs::read_dir(path).map_err(Error::io("list", path))? {
            make_private_if_there(&file.map_err(Error::io("list", path))?.path())?;
        }
    }
    Ok(())
}

/// What belongs to somebody else stays as it is: whoever lets us write there has seen to who else may. A volume that is
/// mounted for a group is such a directory.
fn make_private_alone(path: &Path, metadata: &Metadata) -> Result<()> {
    let mode = if metadata.is_dir() { 0o700 } else { 0o600 };
    if metadata.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::warn!(path = %path.display(), "it belongs to somebody else, who decides who may read it");
            Ok(())
        }
        outcome => outcome.map_err(Error::io("change the mode of", path)),
    }
}

/// The engine may remove files of its own at any time.
fn make_private_if_there(path: &Path) -> Result<()> {
    match make_private(path) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// Refuses to write through a link: what it leads to is not ours.
pub(crate) fn refuse_link(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(Error::NotAStore {
            path: path.to_owned(),
            reason: "it is a symbolic link".into(),
        }),
        _ => Ok(()),
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

    /// Found in review: behind a link nothing was made private; and what others had put beside a store was.
    #[test]
    fn what_is_ours_is_made_private_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let (data, link) = (directory.path().join("data"), directory.path().join("link"));
        std::fs::create_dir(&data).unwrap();
        std::os::unix::fs::symlink(&data, &link).unwrap();
        for name in ["fjall", "notes"] {
            std::fs::write(data.join(name), name).unwrap();
        }
        for path in [&data, &data.join("fjall"), &data.join("notes")] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        Directory::lock(&link).unwrap().make_private().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&data), 0o700);
        assert_eq!(mode(&data.join("fjall")), 0o600);
        assert_eq!(mode(&data.join("notes")), 0o755);
    }

    /// Found in review: a directory that the process may write and does not own was refused, and volumes are such.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_belongs_to_somebody_else_is_left_to_them() {
        let path = Path::new("/proc/self/fdinfo");
        make_private_alone(path, &std::fs::metadata(path).unwrap()).unwrap();
    }

    /// Found in review: the lock was written through a link, and what that led to was overwritten.
    #[test]
    fn nothing_is_written_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (data, precious) = (directory.path().join("data"), directory.path().join("precious"));
        std::fs::create_dir(&data).unwrap();
        std::fs::write(&precious, "precious").unwrap();
        for name in ["lock", "watermark.new"] {
            std::os::unix::fs::symlink(&precious, data.join(name)).unwrap();
        }
        assert_eq!(Directory::lock(&data).unwrap_err().code(), "ES0203");
        let marks = [crate::storage::watermark::Mark::default()];
        let made = crate::storage::watermark::Watermark::create(&data.join("watermark"), 1, &marks, None);
        assert_eq!(made.unwrap_err().code(), "ES0203");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }
}

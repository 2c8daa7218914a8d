//! Where a store lives on disk: making it, opening it, and syncing what sled makes.
//!
//! Sled's files lie in the folder `tree` of the store's directory. A new store is made under the name `tree.new`,
//! synced whole, and then renamed: a power cut while it is made leaves a leftover that the next open clears away, and
//! never a folder that looks like a store and does not open. So a `tree` without its log is damage, not a new store.
//!
//! Everything is synced at every open, not only the first: after a kill what is read back may be in the kernel's
//! memory only, and must not be shown before it is durable.
//!
//! Whoever calls has made sure that no other process is at the same place; sled's own lock is a second guard.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::chunk::SEGMENT_BYTES;
use super::rows::read_error;
use crate::storage::engine::ReadError;

const TREE: &str = "tree";
const TREE_NEW: &str = "tree.new";
const LOG: &str = "db";
const SETTINGS: &str = "conf";
const SUMMARY: &str = "snap.";

/// Bytes that sled keeps of its pages in memory. Its own default, 1 GiB, is too much for a part of a program.
const CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// How often, and after which pause, a store that is locked is tried again.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Opens or makes the store in a directory; gives sled and a second handle on its log.
pub(super) fn open(dir: &Path) -> Result<(::sled::Db, File), ReadError> {
    let tree = dir.join(TREE);
    if !is_there(dir)? {
        create(dir, &tree)?;
    }
    let log = tree.join(LOG);
    if !log.is_file() {
        return Err(ReadError::Corrupt(format!(
            "{} is missing: restore it from a backup",
            log.display()
        )));
    }
    let db = guarded(&tree, || start(&tree))?;
    sync_below(&tree)
        .and_then(|()| sync(dir))
        .map_err(|error| failed("sync", dir, &error))?;
    let log = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&log)
        .map_err(|error| failed("open", &log, &error))?;
    Ok((db, log))
}

/// Whether there is a store, so that opening does not make one.
pub(super) fn is_there(dir: &Path) -> Result<bool, ReadError> {
    let tree = dir.join(TREE);
    tree.try_exists().map_err(|error| failed("look into", dir, &error))
}

/// The files of a store that sled makes anew from its log if they are missing: its settings, which are always the same
/// here, and what it had made of the log when it was last closed. None if there is no log.
pub(super) fn made_anew(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let tree = dir.join(TREE);
    if !tree.join(LOG).is_file() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(&tree)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_file() && (name == SETTINGS || name.starts_with(SUMMARY)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Makes an empty store that is on disk as a whole before it has its name.
fn create(dir: &Path, tree: &Path) -> Result<(), ReadError> {
    let made = missing(dir);
    fs::create_dir_all(dir).map_err(|error| failed("make the directory", dir, &error))?;
    let new = dir.join(TREE_NEW);
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed("clear away", &new, &error)),
        _ => {}
    }
    guarded(&new, || start(&new)?.flush().map(|_| ()))?;
    let place = || {
        sync_below(&new)?;
        fs::rename(&new, tree)?;
        sync(dir)?;
        made.iter().filter_map(|made| made.parent()).try_for_each(sync)
    };
    place().map_err(|error| failed("make a store in", dir, &error))
}

/// Starts sled. Its threads let go of the log a moment after the last handle is dropped, so a store that was just
/// closed may still be locked; one that is really in use is so after half a second, too.
#[expect(clippy::disallowed_methods, reason = "sled gives no sign of when it has let go")]
fn start(path: &Path) -> Result<::sled::Db, ::sled::Error> {
    for _ in 0..LOCK_TRIES {
        match start_once(path) {
            Err(::sled::Error::Io(error)) if is_locked(&error) => thread::sleep(LOCK_PAUSE),
            outcome => return outcome,
        }
    }
    start_once(path)
}

/// Sled's `mode` is left alone: 0.34.7 never looks at it.
fn start_once(path: &Path) -> Result<::sled::Db, ::sled::Error> {
    ::sled::Config::new()
        .path(path)
        .segment_size(SEGMENT_BYTES)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None)
        .open()
}

/// Sled panics on some damage while it opens.
fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, ::sled::Error>) -> Result<T, ReadError> {
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(::sled::Error::Io(error))) if !is_damage(&error) => Err(failed("open", path, &unlocked(error))),
        Ok(Err(error)) => Err(match read_error(error) {
            ReadError::Corrupt(what) => damaged(path, &what),
            ReadError::Unavailable(error) => damaged(path, &error.to_string()),
        }),
        Err(panic) => Err(damaged(path, words(panic.as_ref()))),
    }
}

fn damaged(path: &Path, what: &str) -> ReadError {
    let path = path.display();
    ReadError::Corrupt(format!(
        "sled can't read its files in {path} ({what}): restore them from a backup"
    ))
}

/// Some damage sled takes for a file that ends too early, or for one of another kind.
fn is_damage(error: &io::Error) -> bool {
    [ErrorKind::UnexpectedEof, ErrorKind::InvalidData].contains(&error.kind())
}

/// Tells a store that is in use from one that can't be read.
fn unlocked(error: io::Error) -> io::Error {
    if is_locked(&error) {
        return io::Error::new(
            ErrorKind::WouldBlock,
            "it is open already, here or in another process; close it there",
        );
    }
    error
}

/// Sled gives no kind to this error, only words.
fn is_locked(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or(panic.downcast_ref::<&str>().copied());
    let first = text.and_then(|text| text.lines().next());
    first.unwrap_or("it panicked without a word")
}

/// The directories on the way to `dir` that are not there yet.
fn missing(dir: &Path) -> Vec<PathBuf> {
    dir.ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists())
        .map(Path::to_path_buf)
        .collect()
}

/// Syncs a directory with everything in it.
fn sync_below(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_below(&entry.path())?;
        } else {
            sync(&entry.path())?;
        }
    }
    sync(dir)
}

/// Syncs one file or directory. The parent of a relative path of one name is the current directory.
fn sync(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    File::open(path)?.sync_all()
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> ReadError {
    ReadError::Unavailable(io::Error::new(
        error.kind(),
        format!("can't {verb} {}: {error}", path.display()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(error: &ReadError) -> String {
        match error {
            ReadError::Unavailable(error) => error.to_string(),
            ReadError::Corrupt(what) => what.clone(),
        }
    }

    #[test]
    fn a_panic_while_opening_is_damage() {
        let error = guarded::<()>(Path::new("here"), || panic!("segment {}\nand more", 7)).unwrap_err();
        assert!(matches!(error, ReadError::Corrupt(_)));
        assert_eq!(
            message(&error),
            "sled can't read its files in here (segment 7): restore them from a backup"
        );
    }

    #[test]
    fn a_store_that_was_half_made_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let half = dir.path().join(TREE_NEW).join("blobs");
        fs::create_dir_all(&half).unwrap();
        fs::write(dir.path().join(TREE_NEW).join("conf"), [0; 40]).unwrap();
        open(dir.path()).unwrap();
        assert!(!half.exists());
        assert!(dir.path().join(TREE).join(LOG).is_file());
    }

    #[test]
    fn directories_on_the_way_are_made() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        assert_eq!(missing(&deep), [deep.clone(), dir.path().join("a")]);
        open(&deep).unwrap();
        assert!(missing(&deep).is_empty());
    }

    #[test]
    fn a_store_without_its_log_is_damaged_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        let log = dir.path().join(TREE).join(LOG);
        fs::remove_file(&log).unwrap();
        assert!(matches!(open(dir.path()), Err(ReadError::Corrupt(_))));
        assert!(!log.exists());
    }

    /// Sled refused about one in 200 stores that were opened right after they were closed.
    #[test]
    fn a_store_that_is_let_go_of_a_little_late_opens() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path()).unwrap();
        thread::scope(|scope| {
            let tree = dir.path().join(TREE);
            assert!(matches!(start_once(&tree), Err(::sled::Error::Io(error)) if is_locked(&error)));
            scope.spawn(|| drop(first));
            open(dir.path()).unwrap();
        });
    }

    #[test]
    fn what_can_not_be_opened_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        assert!(message(&open(&file).unwrap_err()).contains("file"));
        let store = dir.path().join("store");
        let _first = open(&store).unwrap();
        let error = open(&store).unwrap_err();
        assert!(message(&error).contains("open already"), "{error:?}");
        assert!(matches!(error, ReadError::Unavailable(error) if error.kind() == ErrorKind::WouldBlock));
    }
}

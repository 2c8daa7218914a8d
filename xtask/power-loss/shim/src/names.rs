//! Creation, removal and renaming.

use std::ffi::CStr;

use everstep_power_loss::Event;
use libc::{c_char, c_int, c_uint, mode_t};

use crate::{
    content::resize_event,
    log::Log,
    place::{Entry, Root},
    real::{self, c_str},
};

const HERE: c_int = libc::AT_FDCWD;

/// Makes a call that creates a name. The inode is known only afterwards, so
/// the absence of the name is recorded before and its meaning after.
fn create(log: &mut Log, entry: &Entry, call: impl FnOnce() -> c_int) -> c_int {
    log.append(Event::Entries(vec![entry.change(None, None)]));
    let result = call();
    if result >= 0 {
        let Some(found) = entry.stat() else {
            real::refuse("a new file is gone at once")
        };
        if real::is_kind(&found, libc::S_IFLNK) {
            real::refuse("a symbolic link below the root");
        }
        log.append(Event::Entries(vec![entry.change(None, Some(found.st_ino))]));
    }
    result
}

/// Gives a file that is about to lose its name another one outside the root, so
/// that a cut can bring it back and its inode number is not used again.
fn keep(root: &Root, entry: &Entry, id: u64) {
    let (from, to) = ((entry.parent.0, entry.name.as_c_str()), kept_name(id));
    let errno = real::errno();
    if real::linkat(from, (root.kept.0, &to), 0) != 0 && real::errno() != libc::EEXIST {
        real::refuse("a removed file cannot be kept");
    }
    real::set_errno(errno);
}

fn kept_name(id: u64) -> std::ffi::CString {
    std::ffi::CString::new(id.to_string()).unwrap_or_default()
}

fn open_with(dir: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    let call = || real::openat(dir, path, flags | libc::O_LARGEFILE, mode);
    // O_TMPFILE contains the bit of O_DIRECTORY, O_SYNC that of O_DSYNC.
    let unnamed = flags & libc::O_TMPFILE == libc::O_TMPFILE;
    let synced = flags & libc::O_DSYNC != 0;
    if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 && !unnamed && !synced {
        return call();
    }
    let Some(entry) = Entry::find(dir, path) else {
        return call();
    };
    if unnamed || synced {
        real::refuse("O_TMPFILE, O_DSYNC and O_SYNC are not simulated");
    }
    let mut log = entry.root.lock();
    match entry.stat() {
        None if flags & libc::O_CREAT != 0 => create(&mut log, &entry, call),
        Some(found) if real::is_kind(&found, libc::S_IFLNK) => real::refuse("a symbolic link below the root"),
        Some(found) if real::is_kind(&found, libc::S_IFREG) && truncates(flags) => {
            let Some(own) = real::open_own(entry.parent.0, &entry.name, libc::O_RDONLY) else {
                return call();
            };
            log.around(resize_event(own.0, 0), call)
        }
        _ => call(),
    }
}

fn truncates(flags: c_int) -> bool {
    let exclusive = libc::O_CREAT | libc::O_EXCL;
    flags & libc::O_TRUNC != 0 && flags & exclusive != exclusive
}

fn unlink_with(dir: c_int, path: &CStr) -> c_int {
    let call = || real::unlinkat(dir, path, 0);
    let Some(entry) = Entry::find(dir, path) else {
        return call();
    };
    let mut log = entry.root.lock();
    let Some(found) = entry.stat().filter(|found| real::is_kind(found, libc::S_IFREG)) else {
        return call();
    };
    keep(entry.root, &entry, found.st_ino);
    log.around(Event::Entries(vec![entry.change(Some(found.st_ino), None)]), call)
}

/// Directories cannot have two names: an empty one is moved instead of removed.
fn rmdir_with(dir: c_int, path: &CStr) -> c_int {
    let call = || real::unlinkat(dir, path, libc::AT_REMOVEDIR);
    let Some(entry) = Entry::find(dir, path) else {
        return call();
    };
    let mut log = entry.root.lock();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let own = real::open_own(entry.parent.0, &entry.name, flags);
    let Some((own, found)) = own.and_then(|own| real::fstat(own.0).map(|found| (own, found))) else {
        return call();
    };
    if !real::is_empty_dir(&own) {
        return call();
    }
    let to = kept_name(found.st_ino);
    let event = Event::Entries(vec![entry.change(Some(found.st_ino), None)]);
    let kept = (entry.root.kept.0, to.as_c_str());
    log.around(event, || real::renameat((entry.parent.0, &entry.name), kept, 0))
}

fn mkdir_with(dir: c_int, path: &CStr, mode: mode_t) -> c_int {
    let call = || real::mkdirat(dir, path, mode);
    let Some(entry) = Entry::find(dir, path) else {
        return call();
    };
    let mut log = entry.root.lock();
    if entry.stat().is_some() {
        return call();
    }
    create(&mut log, &entry, call)
}

fn link_with(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_int) -> c_int {
    let call = || real::linkat(from, to, flags);
    let Some(entry) = Entry::find(to.0, to.1) else {
        return call();
    };
    let mut log = entry.root.lock();
    if entry.stat().is_some() {
        return call();
    }
    create(&mut log, &entry, call)
}

fn rename_with(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_uint) -> c_int {
    let call = || real::renameat(from, to, flags);
    let (source, target) = match (Entry::find(from.0, from.1), Entry::find(to.0, to.1)) {
        (Some(source), Some(target)) => (source, target),
        (None, None) => return call(),
        _ => real::refuse("a rename across the edge of the root"),
    };
    if flags & !libc::RENAME_NOREPLACE != 0 {
        real::refuse("an exchanging rename");
    }
    let mut log = source.root.lock();
    let Some(id) = source.stat().map(|found| found.st_ino) else {
        return call();
    };
    let replaced = target.stat();
    match replaced {
        // Two names of one file: the call does nothing. Or it will fail.
        Some(found) if found.st_ino == id || flags != 0 => return call(),
        Some(found) if real::is_kind(&found, libc::S_IFREG) => {
            keep(target.root, &target, found.st_ino);
        }
        Some(_) => real::refuse("a rename onto a directory"),
        None => {}
    }
    let replaced = replaced.map(|found| found.st_ino);
    let changes = vec![source.change(Some(id), None), target.change(replaced, Some(id))];
    log.around(Event::Entries(changes), call)
}

// The mode is variadic in C; on the supported machines that passes alike.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller promises a C string, here and in all functions below.
    open_with(HERE, unsafe { c_str(path) }, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as above.
    open_with(HERE, unsafe { c_str(path) }, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as above.
    open_with(dir, unsafe { c_str(path) }, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as above.
    open_with(dir, unsafe { c_str(path) }, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat64(path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    // SAFETY: as above.
    open_with(HERE, unsafe { c_str(path) }, flags, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { creat64(path, mode) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: as above.
    unlink_with(HERE, unsafe { c_str(path) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: as above.
    rmdir_with(HERE, unsafe { c_str(path) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    let path = unsafe { c_str(path) };
    match flags {
        0 => unlink_with(dir, path),
        libc::AT_REMOVEDIR => rmdir_with(dir, path),
        _ => real::unlinkat(dir, path, flags),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    mkdir_with(HERE, unsafe { c_str(path) }, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    mkdir_with(dir, unsafe { c_str(path) }, mode)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn link(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as above.
    let (from, to) = unsafe { (c_str(from), c_str(to)) };
    link_with((HERE, from), (HERE, to), 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn linkat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    let (from, to) = unsafe { (c_str(from), c_str(to)) };
    link_with((from_dir, from), (to_dir, to), flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: as above.
    let (from, to) = unsafe { (c_str(from), c_str(to)) };
    rename_with((HERE, from), (HERE, to), 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int {
    // SAFETY: as above.
    let (from, to) = unsafe { (c_str(from), c_str(to)) };
    rename_with((from_dir, from), (to_dir, to), 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: as above.
    let (from, to) = unsafe { (c_str(from), c_str(to)) };
    rename_with((from_dir, from), (to_dir, to), flags)
}

//! What lies below the root.

use std::{
    ffi::{CStr, CString},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use libc::{c_int, pid_t, stat};

use crate::{
    log::{self, Log},
    real::{self, Fd},
};

/// The one directory that can lose power.
pub(crate) struct Root {
    path: Vec<u8>,
    device: u64,
    pid: pid_t,
    pub(crate) kept: Fd,
    log: log::Lock,
    failing: Option<Failing>,
}

/// The sync that is to fail.
struct Failing {
    /// Syncs of such files that are still to come before it, and it.
    left: AtomicU64,
    /// What the path of a file has in it if its syncs count.
    part: Vec<u8>,
}

impl Failing {
    /// From `number:part`.
    fn parse(text: &[u8]) -> Option<Self> {
        let (number, part) = std::str::from_utf8(text).ok()?.split_once(':')?;
        Some(Self {
            left: AtomicU64::new(number.parse().ok()?),
            part: part.as_bytes().to_vec(),
        })
    }
}

static ROOT: OnceLock<Option<Root>> = OnceLock::new();

fn root() -> Option<&'static Root> {
    ROOT.get_or_init(Root::from_environment).as_ref()
}

impl Root {
    fn from_environment() -> Option<Self> {
        let variable = |name: &CStr| {
            // SAFETY: the name is a C string; the value is copied at once.
            let value = unsafe { libc::getenv(name.as_ptr()) };
            // SAFETY: getenv returns null or a C string.
            (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_owned())
        };
        let directory = |path: &CStr| {
            let fd = real::open_own(libc::AT_FDCWD, path, libc::O_PATH | libc::O_DIRECTORY);
            fd.unwrap_or_else(|| real::refuse("the root or the journal is not a directory"))
        };
        let root = directory(&variable(c"POWER_LOSS_ROOT")?);
        let Some(journal) = variable(c"POWER_LOSS_JOURNAL") else {
            real::refuse("POWER_LOSS_JOURNAL is not set")
        };
        let journal = directory(&journal);
        let (here, there) = (real::fstat(root.0)?, real::fstat(journal.0)?);
        if here.st_dev != there.st_dev {
            real::refuse("the journal must be on the root's file system");
        }
        real::mkdirat(journal.0, c"kept", 0o700);
        let Some(kept) = real::open_own(journal.0, c"kept", libc::O_PATH) else {
            real::refuse("the journal has no folder for removed files")
        };
        // SAFETY: getpid has no preconditions.
        let pid = unsafe { libc::getpid() };
        let log = log::Lock::new(Log::new(journal));
        let failing = variable(c"POWER_LOSS_FAIL_SYNC").map(|text| {
            let failing = Failing::parse(text.to_bytes());
            failing.unwrap_or_else(|| real::refuse("POWER_LOSS_FAIL_SYNC is not `number:part of a path`"))
        });
        Some(Self {
            path: real::path_of(root.0)?,
            device: here.st_dev,
            pid,
            kept,
            log,
            failing,
        })
    }

    /// Whether an open descriptor points to the root or below.
    fn holds(&self, fd: c_int, found: &stat) -> bool {
        let inside = real::path_of(fd).is_some_and(|path| {
            path.strip_prefix(self.path.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        });
        if inside && found.st_dev != self.device {
            real::refuse("something is mounted below the root");
        }
        inside
    }

    /// Whether this sync, of a file or directory below the root, is the one that is to fail.
    pub(crate) fn is_to_fail(&self, fd: c_int) -> bool {
        let Some(Failing { left, part }) = &self.failing else {
            return false;
        };
        let counts = real::path_of(fd)
            .and_then(|path| path.strip_prefix(self.path.as_slice()).map(<[u8]>::to_vec))
            .is_some_and(|below| below.windows(part.len().max(1)).any(|window| window == part.as_slice()));
        counts && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
    }

    /// The journal, for one effect.
    pub(crate) fn lock(&self) -> log::Guard<'_> {
        // SAFETY: getpid has no preconditions.
        if unsafe { libc::getpid() } != self.pid {
            real::refuse("a forked process changes files below the root");
        }
        self.log.lock()
    }
}

/// The root, if this descriptor is a regular file below it.
pub(crate) fn file_below(fd: c_int) -> Option<&'static Root> {
    below(fd, |found| real::is_kind(found, libc::S_IFREG))
}

/// The root, if this descriptor is a file or directory below it.
pub(crate) fn any_below(fd: c_int) -> Option<&'static Root> {
    below(fd, |found| {
        real::is_kind(found, libc::S_IFREG) || real::is_kind(found, libc::S_IFDIR)
    })
}

fn below(fd: c_int, wanted: impl FnOnce(&stat) -> bool) -> Option<&'static Root> {
    let root = root()?;
    let errno = real::errno();
    let found = real::fstat(fd).filter(wanted);
    let held = found.is_some_and(|found| root.holds(fd, &found));
    real::set_errno(errno);
    held.then_some(root)
}

/// A name in a directory that is the root or below it.
pub(crate) struct Entry {
    pub(crate) root: &'static Root,
    pub(crate) parent: Fd,
    pub(crate) dir: u64,
    pub(crate) name: CString,
}

impl Entry {
    /// Finds the directory of `path`, following links up to the last name.
    pub(crate) fn find(dir: c_int, path: &CStr) -> Option<Self> {
        let root = root()?;
        let errno = real::errno();
        let entry = Self::find_below(root, dir, path.to_bytes());
        real::set_errno(errno);
        entry
    }

    fn find_below(root: &'static Root, dir: c_int, path: &[u8]) -> Option<Self> {
        let trimmed = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
        let path = &path[..trimmed];
        let split = path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = match split {
            Some(at) => (&path[..=at], &path[at + 1..]),
            None => (b".".as_slice(), path),
        };
        if [b"".as_slice(), b".", b".."].contains(&name) {
            return None;
        }
        let parent = CString::new(parent).ok()?;
        let parent = real::open_own(dir, &parent, libc::O_PATH | libc::O_DIRECTORY)?;
        let found = real::fstat(parent.0)?;
        if !root.holds(parent.0, &found) {
            return None;
        }
        Some(Self {
            root,
            parent,
            dir: found.st_ino,
            name: CString::new(name).ok()?,
        })
    }

    /// What the name means now.
    pub(crate) fn stat(&self) -> Option<stat> {
        real::fstatat(self.parent.0, &self.name, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// The change from one meaning of the name to another.
    pub(crate) fn change(&self, before: Option<u64>, after: Option<u64>) -> everstep_power_loss::Change {
        let name = self.name.as_bytes().to_vec();
        everstep_power_loss::Change {
            dir: self.dir,
            name,
            before,
            after,
        }
    }
}

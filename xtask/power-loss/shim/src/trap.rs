//! A process that ends itself at a sync.
//!
//! `POWER_LOSS_TRAP` is `before:3:/some/directory` or `after:3:/some/directory`: right before or right after its third
//! sync of something below the directory, the process ends as hard as SIGKILL ends it. What it wrote is then not synced,
//! or it is and nobody was told. It needs neither of the other variables.

use std::{
    ffi::CStr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use libc::c_int;

use crate::real;

#[derive(PartialEq, Eq)]
enum When {
    Before,
    After,
}

struct Trap {
    when: When,
    /// Syncs that are still to come before it, and it.
    left: AtomicU64,
    below: Vec<u8>,
}

static TRAP: OnceLock<Option<Trap>> = OnceLock::new();

impl Trap {
    fn from_environment() -> Option<Self> {
        // SAFETY: the name is a C string.
        let value = unsafe { libc::getenv(c"POWER_LOSS_TRAP".as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: not null, and getenv returns C strings; it is copied at once.
        let text = unsafe { CStr::from_ptr(value) }.to_owned();
        let parsed = text.to_str().ok().and_then(Self::parse);
        Some(parsed.unwrap_or_else(|| real::refuse("POWER_LOSS_TRAP is not `before:number:directory`")))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let when = match parts.next()? {
            "before" => When::Before,
            "after" => When::After,
            _ => return None,
        };
        let number = parts.next()?.parse().ok()?;
        let below = parts.next()?.as_bytes().to_vec();
        let left = AtomicU64::new(number);
        Some(Self { when, left, below })
    }

    /// Whether this sync is the one.
    fn is_here(&self, fd: c_int) -> bool {
        let errno = real::errno();
        let inside = real::path_of(fd).is_some_and(|path| path.starts_with(&self.below));
        real::set_errno(errno);
        let left = |left: u64| left.checked_sub(1);
        inside && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(1)
    }
}

/// Makes a sync, unless the process ends before or behind it.
pub(crate) fn around(fd: c_int, sync: impl FnOnce() -> c_int) -> c_int {
    let trap = TRAP.get_or_init(Trap::from_environment).as_ref();
    let Some(trap) = trap.filter(|trap| trap.is_here(fd)) else {
        return sync();
    };
    if trap.when == When::After {
        sync();
    }
    // SAFETY: no memory is involved.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    // The signal has come by now, or comes at once.
    loop {
        std::thread::park();
    }
}

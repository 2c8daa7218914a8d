//! The two calls that make things durable.

use std::sync::{Mutex, PoisonError};

use everstep_power_loss::Event;
use libc::{c_int, c_long};

use crate::{place::any_below, real, trap};

/// Files of which a sync has failed. The system may have dropped what it could not write, and says so only once: that a
/// later sync of the file succeeds proves nothing, and none is recorded.
static FAILED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// What was recorded when the sync began is covered once it has succeeded;
/// writes that other threads make meanwhile are not.
fn sync_with(fd: c_int, number: c_long) -> c_int {
    // SAFETY: no memory is involved.
    let call = || unsafe { libc::syscall(number, fd) as c_int };
    let Some(root) = any_below(fd) else {
        return call();
    };
    let Some(found) = real::fstat(fd) else {
        return call();
    };
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if root.is_to_fail(fd) {
        failed.push(found.st_ino);
        real::set_errno(libc::EIO);
        return -1;
    }
    let proves_nothing = failed.contains(&found.st_ino);
    drop(failed);
    let upto = root.lock().newest();
    let result = call();
    if result == 0 && !proves_nothing {
        let mut log = root.lock();
        log.append(Event::Synced {
            file: found.st_ino,
            upto,
        });
        log.compact_if_large();
    }
    result
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    trap::around(fd, || sync_with(fd, libc::SYS_fsync))
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    trap::around(fd, || sync_with(fd, libc::SYS_fdatasync))
}

//! The two calls that make things durable.

use everstep_power_loss::Event;
use libc::{c_int, c_long};

use crate::{place::any_below, real, trap};

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
    let upto = root.lock().newest();
    let result = call();
    if result == 0 {
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

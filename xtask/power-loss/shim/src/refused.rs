//! Calls that would change files unseen: turned down if the caller has another
//! way, fatal if not.

use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};

use crate::{place::file_below, real};

fn turn_down(code: c_int) -> ssize_t {
    real::set_errno(code);
    -1
}

/// `std::fs::copy` falls back to reading and writing.
#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    if file_below(to).is_some() {
        return turn_down(libc::ENOSYS);
    }
    let number = libc::SYS_copy_file_range;
    // SAFETY: the caller's arguments are passed on.
    unsafe { libc::syscall(number, from, from_at, to, to_at, count, flags) as ssize_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t {
    if file_below(to).is_some() {
        return turn_down(libc::EINVAL);
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { libc::syscall(libc::SYS_sendfile, to, from, at, count) as ssize_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendfile(to: c_int, from: c_int, at: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: the same function on 64-bit machines.
    unsafe { sendfile64(to, from, at, count) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    if file_below(to).is_some() {
        return turn_down(libc::EINVAL);
    }
    // SAFETY: the caller's arguments are passed on.
    unsafe { libc::syscall(libc::SYS_splice, from, from_at, to, to_at, count, flags) as ssize_t }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
) -> *mut c_void {
    // MAP_SHARED_VALIDATE contains the bit of MAP_SHARED.
    let writes = flags & libc::MAP_SHARED != 0 && protection & libc::PROT_WRITE != 0;
    if writes && flags & libc::MAP_ANONYMOUS == 0 && file_below(fd).is_some() {
        real::refuse("a file below the root is mapped for writing");
    }
    // SAFETY: the caller's arguments are passed on.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, address, length, protection, flags, fd, at) };
    mapped as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
) -> *mut c_void {
    // SAFETY: the same function on 64-bit machines.
    unsafe { mmap64(address, length, protection, flags, fd, at) }
}

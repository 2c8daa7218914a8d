//! Writes and changes of length.

use std::slice;

use everstep_power_loss::Event;
use libc::{c_char, c_int, c_void, iovec, off_t, size_t, ssize_t};

use crate::{
    place::file_below,
    real::{self, Fd, c_str},
};

/// The largest write that Linux makes in one call.
const WRITE_BYTES_MAX: usize = 0x7fff_f000;

/// Records a write of `parts` at `offset`, or where the descriptor stands, and
/// makes it with `call`.
fn write_with(fd: c_int, parts: &[&[u8]], offset: Option<off_t>, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(root) = file_below(fd) else {
        return call();
    };
    let new = parts.concat();
    if new.is_empty() || new.len() > WRITE_BYTES_MAX || offset.is_some_and(|at| at < 0) {
        return call();
    }
    let mut log = root.lock();
    let (file, old_len) = identity(fd);
    let offset = position(fd, offset, old_len);
    let end = old_len.min(offset.saturating_add(new.len() as u64));
    let old = saved(fd, offset, end);
    let announced = new.len() as ssize_t;
    let of = log.append(Event::Write {
        file,
        offset,
        old_len,
        old,
        new,
    });
    let result = call();
    if result != announced {
        log.append(Event::Outcome {
            of,
            done: u64::try_from(result).unwrap_or(0),
        });
    }
    result
}

fn identity(fd: c_int) -> (u64, u64) {
    let found = real::fstat(fd).unwrap_or_else(|| real::refuse("a file cannot be inspected"));
    (found.st_ino, found.st_size as u64)
}

/// Where a write goes. Appending descriptors ignore even `pwrite`'s offset.
fn position(fd: c_int, offset: Option<off_t>, length: u64) -> u64 {
    // SAFETY: reading the flags of a descriptor involves no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags & libc::O_APPEND != 0 {
        return length;
    }
    // SAFETY: asking for the position changes nothing.
    let at = offset.unwrap_or_else(|| unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) });
    u64::try_from(at).unwrap_or_else(|_| real::refuse("a file has no position"))
}

/// The content from `start` to `end`, without trailing zeros. Opened anew, as
/// the descriptor may be write-only or unbuffered.
fn saved(fd: c_int, start: u64, end: u64) -> Vec<u8> {
    if start >= end {
        return Vec::new();
    }
    let own = real::open_own(libc::AT_FDCWD, &real::proc_path(fd), libc::O_RDONLY);
    let bytes = own.and_then(|own| real::read_range(own.0, start, end - start));
    let mut bytes = bytes.unwrap_or_else(|| real::refuse("old content cannot be read"));
    bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
    bytes
}

/// What a change of the length from now to `new_len` takes away.
pub(crate) fn resize_event(fd: c_int, new_len: u64) -> Event {
    let (file, old_len) = identity(fd);
    Event::Resize {
        file,
        old_len,
        new_len,
        tail: saved(fd, new_len, old_len),
    }
}

/// # Safety
/// `parts` must be valid for `count` vectors, and each of them for reading.
unsafe fn slices<'a>(parts: *const iovec, count: c_int) -> Vec<&'a [u8]> {
    let count = usize::try_from(count).unwrap_or(0);
    if count == 0 || parts.is_null() {
        return Vec::new();
    }
    // SAFETY: by contract; an empty vector may have any pointer and is skipped.
    unsafe {
        let parts = slice::from_raw_parts(parts, count).iter();
        let parts = parts.filter(|part| part.iov_len > 0);
        parts
            .map(|part| slice::from_raw_parts(part.iov_base.cast(), part.iov_len))
            .collect()
    }
}

/// # Safety
/// As for [`slices`].
unsafe fn pwritev_with(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    // RWF_APPEND is seen in no engine, RWF_DSYNC and RWF_SYNC would be syncs.
    if flags & (libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND) != 0 && file_below(fd).is_some() {
        real::refuse("pwritev2 with flags that change its meaning");
    }
    // SAFETY: by contract.
    let slices = unsafe { slices(parts, count) };
    let offset = (at != -1).then_some(at);
    // SAFETY: the caller's arguments are passed on; 64-bit machines ignore the
    // upper half of the offset.
    write_with(fd, &slices, offset, || unsafe {
        libc::syscall(libc::SYS_pwritev2, fd, parts, count, at, 0, flags) as ssize_t
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t };
    if bytes.is_null() || count > WRITE_BYTES_MAX {
        return call();
    }
    // SAFETY: the caller promises `count` readable bytes.
    let part = unsafe { slice::from_raw_parts(bytes.cast(), count) };
    write_with(fd, &[part], None, call)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: the caller's arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) as ssize_t };
    if bytes.is_null() || count > WRITE_BYTES_MAX {
        return call();
    }
    // SAFETY: the caller promises `count` readable bytes.
    let part = unsafe { slice::from_raw_parts(bytes.cast(), count) };
    write_with(fd, &[part], Some(at), call)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, count: size_t, at: off_t) -> ssize_t {
    // SAFETY: the same function on 64-bit machines.
    unsafe { pwrite64(fd, bytes, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller promises valid vectors.
    let slices = unsafe { slices(parts, count) };
    // SAFETY: the caller's arguments are passed on.
    write_with(fd, &slices, None, || unsafe {
        libc::syscall(libc::SYS_writev, fd, parts, count) as ssize_t
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    if at == -1 {
        real::set_errno(libc::EINVAL);
        return -1;
    }
    // SAFETY: the caller promises valid vectors.
    unsafe { pwritev_with(fd, parts, count, at, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: the same function on 64-bit machines.
    unsafe { pwritev(fd, parts, count, at) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    // SAFETY: the caller promises valid vectors.
    unsafe { pwritev_with(fd, parts, count, at, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    // SAFETY: the same function on 64-bit machines.
    unsafe { pwritev2(fd, parts, count, at, flags) }
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    let Some(root) = file_below(fd) else {
        return real::ftruncate(fd, length);
    };
    let Ok(new_len) = u64::try_from(length) else {
        return real::ftruncate(fd, length);
    };
    let mut log = root.lock();
    log.around(resize_event(fd, new_len), || real::ftruncate(fd, length))
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate(fd: c_int, length: off_t) -> c_int {
    ftruncate64(fd, length)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate64(path: *const c_char, length: off_t) -> c_int {
    // SAFETY: the caller promises a C string.
    let path = unsafe { c_str(path) };
    let fd = real::openat(libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CLOEXEC, 0);
    if fd < 0 {
        return -1;
    }
    let own = Fd(fd);
    let result = ftruncate64(own.0, length);
    let errno = real::errno();
    drop(own);
    real::set_errno(errno);
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn truncate(path: *const c_char, length: off_t) -> c_int {
    // SAFETY: the same function on 64-bit machines.
    unsafe { truncate64(path, length) }
}

#[unsafe(no_mangle)]
extern "C" fn fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    // SAFETY: no memory is involved.
    let call = || unsafe { libc::syscall(libc::SYS_fallocate, fd, mode, offset, length) as c_int };
    let Some(root) = file_below(fd) else {
        return call();
    };
    match mode {
        0 => {}
        libc::FALLOC_FL_KEEP_SIZE => return call(),
        _ => real::refuse("fallocate with a mode that changes content"),
    }
    let mut log = root.lock();
    let end = u64::try_from(offset.saturating_add(length)).unwrap_or(0);
    if end <= identity(fd).1 {
        return call();
    }
    log.around(resize_event(fd, end), call)
}

#[unsafe(no_mangle)]
extern "C" fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    fallocate64(fd, mode, offset, length)
}

#[unsafe(no_mangle)]
extern "C" fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int {
    let before = real::errno();
    let failed = fallocate64(fd, 0, offset, length) < 0;
    let code = if failed { real::errno() } else { 0 };
    real::set_errno(before);
    code
}

#[unsafe(no_mangle)]
extern "C" fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int {
    posix_fallocate64(fd, offset, length)
}

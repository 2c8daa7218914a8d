//! System calls past the interposed functions, and safe wrappers for the rest.

use std::{
    ffi::{CStr, CString},
    mem::MaybeUninit,
};

use libc::{c_char, c_int, c_long, c_uint, mode_t, off_t, size_t, ssize_t, stat};

/// A descriptor of the shim's own.
pub(crate) struct Fd(pub(crate) c_int);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is not used after this.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: glibc's pointer to this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

pub(crate) fn openat(dir: c_int, path: &CStr, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the path is a C string that outlives the call.
    unsafe { libc::syscall(libc::SYS_openat, dir, path.as_ptr(), flags, mode) as c_int }
}

/// Opens for the shim itself.
pub(crate) fn open_own(dir: c_int, path: &CStr, flags: c_int) -> Option<Fd> {
    let fd = openat(dir, path, flags | libc::O_CLOEXEC, 0o600);
    (fd >= 0).then_some(Fd(fd))
}

pub(crate) fn fstat(fd: c_int) -> Option<stat> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: the buffer has room for a stat; it is read only if filled.
    unsafe { (libc::fstat(fd, found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

pub(crate) fn fstatat(dir: c_int, path: &CStr, flags: c_int) -> Option<stat> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: as above, and the path is a C string.
    unsafe { (libc::fstatat(dir, path.as_ptr(), found.as_mut_ptr(), flags) == 0).then(|| found.assume_init()) }
}

pub(crate) fn is_kind(found: &stat, kind: mode_t) -> bool {
    found.st_mode & libc::S_IFMT == kind
}

/// The path in `/proc` that stands for a descriptor.
pub(crate) fn proc_path(fd: c_int) -> CString {
    CString::new(format!("/proc/self/fd/{fd}")).unwrap_or_default()
}

/// Where a descriptor points to now.
pub(crate) fn path_of(fd: c_int) -> Option<Vec<u8>> {
    let link = proc_path(fd);
    let mut path = vec![0; libc::PATH_MAX as usize];
    // SAFETY: the buffer has as much room as the call is told.
    let length = unsafe { libc::readlink(link.as_ptr(), path.as_mut_ptr().cast(), path.len()) };
    path.truncate(usize::try_from(length).ok()?);
    Some(path)
}

/// Reads a range, less where the file ends before it does.
pub(crate) fn read_range(fd: c_int, start: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        let rest = &mut bytes[filled..];
        let at = (start + filled as u64) as off_t;
        // SAFETY: `rest` is valid for its length.
        let count = unsafe { libc::pread(fd, rest.as_mut_ptr().cast(), rest.len(), at) };
        match count {
            0 => break,
            count if count > 0 => filled += count as usize,
            _ if errno() == libc::EINTR => {}
            _ => return None,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

pub(crate) fn write(fd: c_int, bytes: &[u8]) -> ssize_t {
    // SAFETY: the slice is valid for its length.
    unsafe { libc::syscall(libc::SYS_write, fd, bytes.as_ptr(), bytes.len()) as ssize_t }
}

pub(crate) fn ftruncate(fd: c_int, length: off_t) -> c_int {
    // SAFETY: no memory is involved.
    unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) as c_int }
}

pub(crate) fn unlinkat(dir: c_int, path: &CStr, flags: c_int) -> c_int {
    // SAFETY: the path is a C string.
    unsafe { libc::syscall(libc::SYS_unlinkat, dir, path.as_ptr(), flags) as c_int }
}

pub(crate) fn mkdirat(dir: c_int, path: &CStr, mode: mode_t) -> c_int {
    // SAFETY: the path is a C string.
    unsafe { libc::syscall(libc::SYS_mkdirat, dir, path.as_ptr(), mode) as c_int }
}

pub(crate) fn linkat(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_int) -> c_int {
    let (old, new) = (from.1.as_ptr(), to.1.as_ptr());
    // SAFETY: both paths are C strings.
    unsafe { libc::syscall(libc::SYS_linkat, from.0, old, to.0, new, flags) as c_int }
}

pub(crate) fn renameat(from: (c_int, &CStr), to: (c_int, &CStr), flags: c_uint) -> c_int {
    let (old, new) = (from.1.as_ptr(), to.1.as_ptr());
    // SAFETY: both paths are C strings.
    unsafe { libc::syscall(libc::SYS_renameat2, from.0, old, to.0, new, flags) as c_int }
}

/// Whether an open directory has no entries but `.` and `..`.
pub(crate) fn is_empty_dir(dir: &Fd) -> bool {
    let mut buffer = [0_u8; 4096];
    let room: size_t = buffer.len();
    // SAFETY: the buffer is valid for `room` bytes.
    let filled: c_long = unsafe { libc::syscall(libc::SYS_getdents64, dir.0, buffer.as_mut_ptr(), room) };
    let Ok(filled) = usize::try_from(filled) else {
        return false;
    };
    let (mut at, mut count) = (0, 0);
    while at + 18 <= filled {
        // The length of an entry is its field at byte 16.
        at += usize::from(u16::from_ne_bytes([buffer[at + 16], buffer[at + 17]]));
        count += 1;
    }
    count == 2
}

/// Borrows a path argument.
///
/// # Safety
/// `path` must be null or a C string that outlives the result.
pub(crate) unsafe fn c_str<'a>(path: *const c_char) -> &'a CStr {
    if path.is_null() {
        return c"";
    }
    // SAFETY: not null, and a C string by contract.
    unsafe { CStr::from_ptr(path) }
}

/// Ends the process with a message: a simulation with a hole proves nothing.
pub(crate) fn refuse(what: &str) -> ! {
    write(2, format!("power loss shim: {what}\n").as_bytes());
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

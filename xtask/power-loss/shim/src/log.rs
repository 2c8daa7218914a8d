//! The journal, and the lock under which effects happen.

use std::sync::{Mutex, MutexGuard, PoisonError};

use everstep_power_loss::{Event, Record, compact};
use libc::c_int;

use crate::real::{self, Fd};

/// Below this size the journal is left alone; a test seldom writes more.
const COMPACT_BYTES_MIN: usize = 64 << 20;

pub(crate) type Guard<'a> = MutexGuard<'a, Log>;

/// One effect at a time.
pub(crate) struct Lock(Mutex<Log>);

impl Lock {
    pub(crate) fn new(log: Log) -> Self {
        Self(Mutex::new(log))
    }

    pub(crate) fn lock(&self) -> Guard<'_> {
        let errno = real::errno();
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.open();
        real::set_errno(errno);
        log
    }
}

/// Opened with the first effect: a process that changes nothing below the root
/// may run beside the one that does.
pub(crate) struct Log {
    folder: Fd,
    file: Option<Fd>,
    seq: u64,
    bytes: usize,
    compact_at_bytes: usize,
}

impl Log {
    pub(crate) fn new(folder: Fd) -> Self {
        Self {
            folder,
            file: None,
            seq: 0,
            bytes: 0,
            compact_at_bytes: COMPACT_BYTES_MIN,
        }
    }

    fn open(&mut self) {
        if self.file.is_some() {
            return;
        }
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_APPEND;
        let Some(file) = real::open_own(self.folder.0, c"records", flags) else {
            real::refuse("the journal cannot be opened")
        };
        // SAFETY: no memory is involved. The kernel drops the lock on our death.
        if unsafe { libc::flock(file.0, libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            real::refuse("a second process changes files below the root");
        }
        let (records, valid) = Record::decode_all(&read_whole(&file));
        real::ftruncate(file.0, valid as libc::off_t);
        self.seq = records.last().map_or(0, |record| record.seq);
        self.bytes = valid;
        self.file = Some(file);
    }

    /// The number of the newest record.
    pub(crate) fn newest(&self) -> u64 {
        self.seq
    }

    /// Appends a record and returns its number.
    pub(crate) fn append(&mut self, event: Event) -> u64 {
        let errno = real::errno();
        self.seq += 1;
        let mut line = Vec::new();
        Record { seq: self.seq, event }.encode(&mut line);
        self.write(&line);
        real::set_errno(errno);
        self.seq
    }

    fn write(&mut self, line: &[u8]) {
        let fd = self.file.as_ref().map_or(-1, |file| file.0);
        if usize::try_from(real::write(fd, line)) != Ok(line.len()) {
            real::refuse("the journal cannot be written");
        }
        self.bytes += line.len();
    }

    /// Makes the call that `event` announces, and notes if it failed.
    pub(crate) fn around(&mut self, event: Event, call: impl FnOnce() -> c_int) -> c_int {
        let of = self.append(event);
        let result = call();
        if result < 0 {
            self.append(Event::Outcome { of, done: 0 });
        }
        result
    }

    /// Drops what syncs have made superfluous, once that may be much.
    pub(crate) fn compact_if_large(&mut self) {
        if self.bytes < self.compact_at_bytes {
            return;
        }
        let errno = real::errno();
        self.compact();
        self.compact_at_bytes = COMPACT_BYTES_MIN.max(2 * self.bytes);
        real::set_errno(errno);
    }

    /// Through a second file: a kill leaves the old journal or the new one.
    fn compact(&mut self) {
        let Some(old) = self.file.take() else { return };
        let (records, _) = Record::decode_all(&read_whole(&old));
        let mut lines = Vec::new();
        compact(records).iter().for_each(|record| record.encode(&mut lines));
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;
        let new = real::open_own(self.folder.0, c"records.new", flags);
        // SAFETY: no memory is involved.
        let locked = new
            .as_ref()
            .is_some_and(|new| unsafe { libc::flock(new.0, libc::LOCK_EX) } == 0);
        self.file = new;
        self.bytes = 0;
        self.write(&lines);
        let (from, to) = ((self.folder.0, c"records.new"), (self.folder.0, c"records"));
        if !locked || real::renameat(from, to, 0) != 0 {
            real::refuse("the journal cannot be compacted");
        }
    }
}

fn read_whole(file: &Fd) -> Vec<u8> {
    let length = real::fstat(file.0).map(|found| found.st_size as u64);
    let bytes = length.and_then(|length| real::read_range(file.0, 0, length));
    bytes.unwrap_or_else(|| real::refuse("the journal cannot be read"))
}

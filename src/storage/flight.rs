//! Who was running when the process died.
//!
//! A small file beside the store with a slot for each resident that runs attempts: which instance, and at which
//! revision; while a commit is on its way, at which two. It is written without a sync: a process that dies leaves its writes with the system, and a machine that
//! dies takes no blame away from anybody who deserves it. After the death of a process, an instance whose stored
//! revision is one of its slot had attempts running.
//!
//! ```text
//! slot, 256 bytes: checksum (8) | first revision (8) | last (8) | attempts (1) | length of the id (1) | id (200) | zeros
//! ```

use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::InstanceId;
use crate::storage::error::{Error, Result};

const SLOT_BYTES: usize = 256;
const ID_AT: usize = 26;

/// What a slot says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flown {
    pub(crate) instance: InstanceId,
    pub(crate) revisions: RangeInclusive<u64>,
    /// Whether attempts were running; if not, its code was.
    pub(crate) attempts: bool,
}

/// The flight recorder of an open store; one without a file records nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flight {
    recorder: Option<Arc<Recorder>>,
}

#[derive(Debug)]
struct Recorder {
    file: File,
    slots: Mutex<Slots>,
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    next: u32,
}

impl Flight {
    /// Opens or makes the file, and gives what the process before left in it. It stays there until [`Flight::clear`].
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<Flown>)> {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        let file = options.open(path).map_err(Error::io("open", path))?;
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let flown = bytes.chunks_exact(SLOT_BYTES).filter_map(read).collect();
        let recorder = Recorder {
            file,
            slots: Mutex::default(),
            failed: AtomicBool::new(false),
        };
        let recorder = Some(Arc::new(recorder));
        Ok((Self { recorder }, flown))
    }

    /// Empties the file: what was in it has been dealt with, or nobody is running any more.
    pub(crate) fn clear(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.check(recorder.file.set_len(0));
        }
    }

    /// A slot for a resident.
    pub(crate) fn slot(&self) -> Option<FlightSlot> {
        let recorder = Arc::clone(self.recorder.as_ref()?);
        let number = {
            let mut slots = recorder.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.free.pop().unwrap_or_else(|| {
                slots.next += 1;
                slots.next - 1
            })
        };
        Some(FlightSlot {
            recorder,
            number,
            written: None,
        })
    }
}

impl Recorder {
    fn write(&self, number: u32, slot: &[u8; SLOT_BYTES]) {
        self.check(self.file.write_all_at(slot, u64::from(number) * SLOT_BYTES as u64));
    }

    /// A recorder that can't write costs the exact count of crashes and nothing else; it is told once.
    fn check(&self, outcome: std::io::Result<()>) {
        if let Err(error) = outcome
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::error!(%error, "the flight recorder can't be written: crashes are not charged");
        }
    }
}

/// The slot of one resident. Free again when dropped.
#[derive(Debug)]
pub(crate) struct FlightSlot {
    recorder: Arc<Recorder>,
    number: u32,
    written: Option<(RangeInclusive<u64>, bool)>,
}

impl FlightSlot {
    /// The instance is running at one of these revisions: its attempts, or only its code.
    pub(crate) fn running(&mut self, instance: &InstanceId, revisions: RangeInclusive<u64>, attempts: bool) {
        let running = Some((revisions, attempts));
        if self.written != running {
            self.written = running;
            if let Some((revisions, attempts)) = &self.written {
                self.recorder.write(self.number, &write(instance, revisions, *attempts));
            }
        }
    }

    /// The instance is not running.
    pub(crate) fn rests(&mut self) {
        if self.written.take().is_some() {
            self.recorder.write(self.number, &[0; SLOT_BYTES]);
        }
    }
}

impl Drop for FlightSlot {
    fn drop(&mut self) {
        self.rests();
        let mut slots = self.recorder.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.free.push(self.number);
    }
}

fn write(instance: &InstanceId, revisions: &RangeInclusive<u64>, attempts: bool) -> [u8; SLOT_BYTES] {
    let id = instance.as_str().as_bytes();
    let mut slot = [0; SLOT_BYTES];
    slot[8..16].copy_from_slice(&revisions.start().to_le_bytes());
    slot[16..24].copy_from_slice(&revisions.end().to_le_bytes());
    slot[24] = u8::from(attempts);
    slot[25] = u8::try_from(id.len()).expect("an id has at most 200 bytes");
    slot[ID_AT..ID_AT + id.len()].copy_from_slice(id);
    let checksum = xxh3_64(&slot[8..]);
    slot[..8].copy_from_slice(&checksum.to_le_bytes());
    slot
}

/// What a slot says; nothing if it is empty, or was being written when the process died.
fn read(slot: &[u8]) -> Option<Flown> {
    let checksum = u64::from_le_bytes(slot[..8].try_into().ok()?);
    if checksum != xxh3_64(&slot[8..]) {
        return None;
    }
    let number = |at: usize| Some(u64::from_le_bytes(slot[at..at + 8].try_into().ok()?));
    let id = slot.get(ID_AT..ID_AT + usize::from(slot[25]))?;
    Some(Flown {
        instance: InstanceId::internal(std::str::from_utf8(id).ok()?).ok()?,
        revisions: number(8)?..=number(16)?,
        attempts: slot[24] == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_running_is_found_by_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flight");
        let id = |text: &str| InstanceId::new(text).unwrap();
        let (flight, flown) = Flight::open(&path).unwrap();
        assert!(flown.is_empty());
        let (mut a, mut b) = (flight.slot().unwrap(), flight.slot().unwrap());
        a.running(&id("a"), 3..=4, true);
        b.running(&id("b"), 4..=4, false);
        b.rests();
        let long = "x".repeat(200);
        let mut c = flight.slot().unwrap();
        c.running(&id(&long), 5..=5, false);
        // The process dies: nothing is dropped in order.
        std::mem::forget((a, c));
        let (flight, mut flown) = Flight::open(&path).unwrap();
        flown.sort_by_key(|flown| *flown.revisions.start());
        let seen: Vec<_> = flown
            .iter()
            .map(|flown| (flown.instance.as_str(), flown.revisions.clone(), flown.attempts))
            .collect();
        assert_eq!(seen, [("a", 3..=4, true), (long.as_str(), 5..=5, false)]);
        flight.clear();
        assert!(Flight::open(&path).unwrap().1.is_empty());
    }

    #[test]
    fn a_slot_that_was_being_written_says_nothing() {
        let mut slot = write(&InstanceId::new("a").unwrap(), &(3..=3), true);
        slot[9] ^= 1;
        assert_eq!(read(&slot), None);
        assert_eq!(read(&[0; SLOT_BYTES]), None);
    }
}

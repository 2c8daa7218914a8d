//! Who was running when the process died.
//!
//! A small file beside the store with a slot for each resident that runs: which instance, and at which revision; while a
//! commit is on its way, at which two. It is written without a sync: a process that dies leaves its writes with the
//! system, and a machine that dies takes no blame away from anybody who deserves it. After the death of a process, an
//! instance whose stored revision is one of its slot was running, and so were the attempts that the slot tells of.
//!
//! ```text
//! slot, 256 bytes: checksum (8) | first revision (8) | last (8) | cleared (1) | length of the id (1) | id (200)
//!                  | zeros (2) | deaths (4) | attempts (24)
//! ```

mod in_flight;

use std::collections::HashMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use xxhash_rust::xxh3::xxh3_64;

use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::error::{Error, Result};

pub(crate) use in_flight::InFlight;

const SLOT_BYTES: usize = 256;
const ID_AT: usize = 26;
const DEATHS_AT: usize = 228;
const ATTEMPTS_AT: usize = 232;

/// What a slot says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flown {
    pub(crate) instance: InstanceId,
    pub(crate) revisions: RangeInclusive<u64>,
    /// Deaths of processes that it had been charged for when it ran.
    pub(crate) deaths: u32,
    /// Whether it had been a suspect, and nothing had happened for a while.
    pub(crate) cleared: bool,
    /// The attempts that had begun; if there are none, its code was running.
    pub(crate) attempts: InFlight,
}

/// What the process before has left in the file, and where.
pub(crate) type Left = Vec<(Flown, Arc<FlightSlot>)>;

/// The flight recorder of an open store; one without a file records nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flight {
    recorder: Option<Arc<Recorder>>,
}

#[derive(Debug)]
struct Recorder {
    file: File,
    slots: Mutex<Slots>,
    /// Whether nobody runs any more. Whoever has not noticed writes nothing.
    closed: RwLock<bool>,
    failed: AtomicBool,
}

#[derive(Debug, Default)]
struct Slots {
    free: Vec<u32>,
    next: u32,
}

impl Flight {
    /// Opens or makes the file, and gives what the process before left in it. Each stays there until its slot is dropped.
    pub(crate) fn open(path: &Path) -> Result<(Self, Left)> {
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true).mode(0o600);
        crate::storage::directory::refuse_link(path)?;
        let file = options.open(path).map_err(Error::io("open", path))?;
        let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
        let recorder = Arc::new(Recorder {
            file,
            slots: Mutex::default(),
            closed: RwLock::new(false),
            failed: AtomicBool::new(false),
        });
        let mut flown = Vec::new();
        {
            let mut slots = recorder.slots.lock().unwrap_or_else(PoisonError::into_inner);
            for (number, slot) in (0..).zip(bytes.chunks_exact(SLOT_BYTES)) {
                slots.next = number + 1;
                match read(slot) {
                    None => slots.free.push(number),
                    Some(found) => {
                        let slot = FlightSlot::found(&recorder, number, &found);
                        flown.push((found, Arc::new(slot)));
                    }
                }
            }
        }
        let recorder = Some(recorder);
        Ok((Self { recorder }, flown))
    }

    /// Nobody is running any more: empties the file, except for what these say.
    pub(crate) fn close<'a>(&self, kept: impl IntoIterator<Item = &'a FlightSlot>) {
        if let Some(recorder) = &self.recorder {
            {
                let mut closed = recorder.closed.write().unwrap_or_else(PoisonError::into_inner);
                *closed = true;
                recorder.check(recorder.file.set_len(0));
            }
            // Nobody else writes any more, and whoever has its slot at hand may be waiting to see so.
            for slot in kept {
                if let Some(written) = &slot.says().written {
                    recorder.write(slot.number, &write(&slot.instance, written));
                }
            }
        }
    }

    /// A slot for a resident.
    pub(crate) fn slot(&self, instance: &InstanceId) -> Option<Arc<FlightSlot>> {
        let recorder = Arc::clone(self.recorder.as_ref()?);
        let number = {
            let mut slots = recorder.slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.free.pop().unwrap_or_else(|| {
                slots.next += 1;
                slots.next - 1
            })
        };
        Some(Arc::new(FlightSlot {
            recorder,
            number,
            instance: instance.clone(),
            says: Mutex::default(),
        }))
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
    instance: InstanceId,
    says: Mutex<Says>,
}

#[derive(Debug, Default)]
struct Says {
    /// What the file says; nothing if the instance rests.
    written: Option<Written>,
    cleared: bool,
    /// The places of the attempts that have begun.
    begun: HashMap<u64, usize>,
    /// Attempts of the process before that nobody has counted yet.
    uncounted: InFlight,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    revisions: RangeInclusive<u64>,
    deaths: u32,
    cleared: bool,
    attempts: InFlight,
}

impl FlightSlot {
    /// A slot that the process before has left.
    fn found(recorder: &Arc<Recorder>, number: u32, found: &Flown) -> Self {
        let written = Written {
            revisions: found.revisions.clone(),
            deaths: found.deaths,
            cleared: found.cleared,
            attempts: found.attempts,
        };
        Self {
            recorder: Arc::clone(recorder),
            number,
            instance: found.instance.clone(),
            says: Mutex::new(Says {
                written: Some(written),
                uncounted: found.attempts,
                ..Says::default()
            }),
        }
    }

    /// The instance is running at one of these revisions, and has been charged for so many deaths.
    pub(crate) fn running(&self, revisions: RangeInclusive<u64>, deaths: u32) {
        let mut says = self.says();
        let written = Written {
            revisions,
            deaths,
            cleared: says.cleared,
            attempts: says.attempts(),
        };
        self.update(&mut says, Some(written));
    }

    /// An attempt begins. It is told of with the next that is said.
    pub(crate) fn begins(&self, attempt: u64, location: &Location) {
        self.says().begun.insert(attempt, in_flight::place_of(location));
    }

    /// An attempt begins, and nothing else is said.
    pub(crate) fn begins_now(&self, attempt: u64, location: &Location) {
        self.begins(attempt, location);
        self.say_again();
    }

    /// An attempt is over, and its end is stored.
    pub(crate) fn is_over(&self, attempt: u64) {
        self.says().begun.remove(&attempt);
    }

    /// The instance waits to be run, at this revision, so that its attempts of the process before are counted.
    pub(crate) fn waits(&self, revision: u64, deaths: u32) {
        {
            let mut says = self.says();
            says.begun.clear();
            says.cleared = false;
        }
        self.running(revision..=revision, deaths);
    }

    /// The attempts of the process before are counted, and that is stored.
    pub(crate) fn is_counted(&self) {
        self.says().uncounted = InFlight::default();
    }

    /// The instance is no suspect any more.
    pub(crate) fn is_cleared(&self) {
        self.says().cleared = true;
        self.say_again();
    }

    /// The instance is not running.
    pub(crate) fn rests(&self) {
        self.update(&mut self.says(), None);
    }

    fn say_again(&self) {
        let mut says = self.says();
        let (cleared, attempts) = (says.cleared, says.attempts());
        let again = says.written.clone().map(|written| Written {
            cleared,
            attempts,
            ..written
        });
        self.update(&mut says, again);
    }

    fn update(&self, says: &mut Says, written: Option<Written>) {
        if says.written == written {
            return;
        }
        let closed = self.recorder.closed.read().unwrap_or_else(PoisonError::into_inner);
        if !*closed {
            let slot = written.as_ref().map(|written| write(&self.instance, written));
            self.recorder.write(self.number, &slot.unwrap_or([0; SLOT_BYTES]));
        }
        says.written = written;
    }

    fn says(&self) -> MutexGuard<'_, Says> {
        self.says.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Says {
    fn attempts(&self) -> InFlight {
        let mut attempts = self.uncounted;
        self.begun.values().for_each(|place| attempts.add(*place));
        attempts
    }
}

impl Drop for FlightSlot {
    fn drop(&mut self) {
        self.rests();
        let mut slots = self.recorder.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.free.push(self.number);
    }
}

fn write(instance: &InstanceId, written: &Written) -> [u8; SLOT_BYTES] {
    let Written {
        revisions,
        deaths,
        cleared,
        attempts,
    } = written;
    let id = instance.as_str().as_bytes();
    let mut slot = [0; SLOT_BYTES];
    slot[8..16].copy_from_slice(&revisions.start().to_le_bytes());
    slot[16..24].copy_from_slice(&revisions.end().to_le_bytes());
    slot[24] = u8::from(*cleared);
    slot[25] = u8::try_from(id.len()).expect("an id has at most 200 bytes");
    slot[ID_AT..ID_AT + id.len()].copy_from_slice(id);
    slot[DEATHS_AT..ATTEMPTS_AT].copy_from_slice(&deaths.to_le_bytes());
    slot[ATTEMPTS_AT..].copy_from_slice(&attempts.to_bytes());
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
        deaths: u32::from_le_bytes(slot[DEATHS_AT..ATTEMPTS_AT].try_into().ok()?),
        cleared: slot[24] == 1,
        attempts: InFlight::from_bytes(&slot[ATTEMPTS_AT..]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Segment;

    fn id(text: &str) -> InstanceId {
        InstanceId::new(text).unwrap()
    }

    fn step(name: u32) -> Location {
        Location::root().child(Segment::Name(name)).unwrap()
    }

    /// The process dies: nothing is dropped in order.
    fn die(slots: impl IntoIterator<Item = Arc<FlightSlot>>) {
        slots.into_iter().for_each(std::mem::forget);
    }

    /// What the process before was running, in the order of their revisions.
    fn found(path: &Path) -> Vec<(String, RangeInclusive<u64>, u32, Vec<u32>)> {
        let (_, mut flown) = Flight::open(path).unwrap();
        flown.sort_by_key(|(flown, _)| *flown.revisions.start());
        let found = flown.iter().map(|(flown, _)| {
            let steps = (0..4).filter(|name| flown.attempts.has(&step(*name)));
            let id = flown.instance.to_string();
            (id, flown.revisions.clone(), flown.deaths, steps.collect())
        });
        let found = found.collect();
        die(flown.into_iter().map(|(_, slot)| slot));
        found
    }

    #[test]
    fn what_was_running_is_found_by_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flight");
        let (flight, flown) = Flight::open(&path).unwrap();
        assert!(flown.is_empty());
        let long = "x".repeat(200);
        let [a, b, c] = ["a", "b", &long].map(|text| flight.slot(&id(text)).unwrap());
        a.begins(7, &step(1));
        a.running(3..=4, 2);
        a.begins_now(8, &step(3));
        b.running(4..=4, 0);
        b.rests();
        c.begins(9, &step(2));
        c.is_over(9);
        c.running(5..=5, 0);
        die([a, b, c]);
        let expected = [("a".into(), 3..=4, 2, vec![1, 3]), (long.clone(), 5..=5, 0, vec![])];
        assert_eq!(found(&path), expected);
        // Whoever is not looked at stays.
        assert_eq!(found(&path), expected);
        let (flight, mut flown) = Flight::open(&path).unwrap();
        let kept = flown.swap_remove(0).1;
        let other = flight.slot(&id("another")).unwrap();
        other.running(6..=6, 0);
        flight.close([&*kept]);
        // It has not heard that nobody runs any more.
        other.running(7..=7, 0);
        drop((other, flown, kept));
        assert_eq!(found(&path).len(), 1);
    }

    #[test]
    fn a_slot_that_was_being_written_says_nothing() {
        let written = Written {
            revisions: 3..=3,
            deaths: 0,
            cleared: false,
            attempts: InFlight::default(),
        };
        let mut slot = write(&id("a"), &written);
        slot[9] ^= 1;
        assert_eq!(read(&slot), None);
        assert_eq!(read(&[0; SLOT_BYTES]), None);
    }
}

//! Where a process kills itself.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place in the life of a step, or of what undoes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// An attempt has begun and done nothing.
    Begun,
    /// An attempt has had its effect, and has not said so.
    Effect,
    /// The code has just been given the result.
    Seen,
    /// Something was undone, and has not said so.
    Undone,
}

pub(crate) const POINTS: [(&str, Point); 4] = [
    ("begun", Point::Begun),
    ("effect", Point::Effect),
    ("seen", Point::Seen),
    ("undone", Point::Undone),
];

/// A point, and at which time of coming there the process dies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trap {
    point: Point,
    time: u64,
}

impl FromStr for Trap {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, time) = text.split_once(':').ok_or("a trap is point:time")?;
        let found = POINTS.iter().find(|(known, _)| *known == name);
        let (_, point) = found.ok_or("no such point")?;
        let time = time.parse().map_err(|_| "a time is a number")?;
        Ok(Self { point: *point, time })
    }
}

static TRAP: OnceLock<(Trap, AtomicU64)> = OnceLock::new();

/// Sets the trap of this process.
pub(crate) fn set(trap: Trap) {
    TRAP.get_or_init(|| (trap, AtomicU64::new(0)));
}

/// The process is at a point. If its trap is there, it ends here, as hard as SIGKILL does.
pub(crate) fn reach(point: Point) {
    let Some((trap, times)) = TRAP.get() else { return };
    if trap.point == point && times.fetch_add(1, Ordering::Relaxed) + 1 == trap.time {
        let own = rustix::process::getpid();
        // Should this fail the process lives on, and the parent's own kill comes later.
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

//! Puts the story on the screen: a line for each thing that happens, and on a terminal a bar below them.
//!
//! Steps run in tasks of their own, wherever the runtime puts them, so the one teller is a static.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use everstep::clock::{Clock, Millis, SystemClock};
use serde_json::json;

use crate::cli::paint;

static TELLER: OnceLock<Teller> = OnceLock::new();
/// Attempts at steps in this process.
static EFFECTS: AtomicU32 = AtomicU32::new(0);

struct Teller {
    out: Mutex<anstream::AutoStream<io::Stdout>>,
    json: bool,
    bar: bool,
    began_ms: Millis,
    orders: u32,
    finished: AtomicU32,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark {
    Begun,
    Before,
    Done,
    Failed,
    Waits,
    Told,
    Undoes,
    Ended,
    Undone,
}

impl Mark {
    fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Before => "before",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Waits => "waits",
            Self::Told => "told",
            Self::Undoes => "undoes",
            Self::Ended => "ended",
            Self::Undone => "undone",
        }
    }

    fn paint(self, what: &str) -> String {
        match self {
            Self::Begun => format!("▶ {what}"),
            Self::Before => paint::strong(&format!("↻ {what}")),
            Self::Done => paint::good(&format!("✓ {what}")),
            Self::Failed => paint::bad(&format!("✗ {what}")),
            Self::Waits => paint::faint(&format!("… {what}")),
            Self::Told => paint::busy(&format!("✉ {what}")),
            Self::Undoes => paint::odd(&format!("↶ {what}")),
            Self::Ended => paint::good(&format!("■ completed: {what}")),
            Self::Undone => paint::odd(&format!("■ {what}")),
        }
    }
}

/// Makes the teller.
pub(crate) fn begin(json: bool, orders: u32) {
    let teller = Teller {
        out: Mutex::new(anstream::stdout()),
        json,
        bar: !json && io::stdout().is_terminal(),
        began_ms: SystemClock.now_ms(),
        orders,
        finished: AtomicU32::new(0),
    };
    // A demo is told once in a process.
    let _ = TELLER.set(teller);
}

/// Tells what happened to an order.
pub(crate) fn tell(order: u32, mark: Mark, what: &str) {
    let Some(teller) = TELLER.get() else { return };
    let at_ms = SystemClock.now_ms().saturating_sub(teller.began_ms);
    if teller.json {
        let object = json!({"at_ms": at_ms, "order": format!("order-{order}"), "event": mark.name(), "what": what});
        return teller.line(&object.to_string());
    }
    let time = paint::faint(&format!("{:3}.{}s", at_ms / 1_000, at_ms % 1_000 / 100));
    let width = 6 + teller.orders.to_string().len();
    teller.line(&format!(
        "{time}  {:width$}  {}",
        format!("order-{order}"),
        mark.paint(what)
    ));
}

/// Tells something about the whole.
pub(crate) fn note(text: &str) {
    let Some(teller) = TELLER.get() else { return };
    if teller.json {
        let plain = anstream::adapter::strip_str(text.trim()).to_string();
        return teller.line(&json!({"event": "note", "what": plain}).to_string());
    }
    teller.line(text);
}

/// One order more has ended.
pub(crate) fn finished() {
    if let Some(teller) = TELLER.get() {
        teller.finished.fetch_add(1, Ordering::Relaxed);
    }
}

/// One attempt at a step more has had its effect on the world.
pub(crate) fn effect() {
    EFFECTS.fetch_add(1, Ordering::Relaxed);
}

/// How many there were.
pub(crate) fn effects() -> u32 {
    EFFECTS.load(Ordering::Relaxed)
}

impl Teller {
    fn line(&self, line: &str) {
        let mut out = self.lock();
        let clear = if self.bar { "\r\x1b[2K" } else { "" };
        let finished = self.finished.load(Ordering::Relaxed);
        let bar = if self.bar && finished < self.orders {
            self.drawn(finished)
        } else {
            String::new()
        };
        // A demo whose reader is gone has nobody to tell that.
        let _ = write!(out, "{clear}{line}\n{bar}").and_then(|()| out.flush());
    }

    fn drawn(&self, finished: u32) -> String {
        const CELLS: u32 = 24;
        let full = (finished * CELLS / self.orders) as usize;
        let bar = format!("{}{}", "█".repeat(full), "░".repeat(CELLS as usize - full));
        let hint = format!("Ctrl-C or kill -9 {}, then start again", std::process::id());
        format!(
            "{} {finished} of {} orders  {}",
            paint::busy(&bar),
            self.orders,
            paint::faint(&hint)
        )
    }

    fn lock(&self) -> MutexGuard<'_, anstream::AutoStream<io::Stdout>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

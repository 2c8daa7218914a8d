//! Puts the story on the screen: a line for each thing that happens, and on a terminal a bar below them.
//!
//! Steps run in tasks of their own, wherever the runtime puts them, so the one teller is a static.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use everstep::clock::{Clock, Millis, SystemClock};
use serde_json::json;

use crate::cli::{paint, text, width};

static TELLER: OnceLock<Teller> = OnceLock::new();
/// Attempts at steps in this process.
static EFFECTS: AtomicU32 = AtomicU32::new(0);

struct Teller {
    out: Mutex<anstream::AutoStream<io::Stdout>>,
    json: bool,
    /// Whether a bar is drawn below the last line.
    bar: AtomicBool,
    /// Whether one stands there.
    stands: AtomicBool,
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
        bar: AtomicBool::new(!json && io::stdout().is_terminal()),
        stands: AtomicBool::new(false),
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
        return teller.line(&text::plain_json(&object.to_string()));
    }
    let time = format!("{:3}.{}s", at_ms / 1_000, at_ms % 1_000 / 100);
    let order = format!("order-{order:<0$}", teller.orders.to_string().len());
    // Behind the mark, which takes two columns.
    let before = time.len() + order.len() + 6;
    let what = match width::terminal() {
        // With less behind it than this, words in a column would be no easier to read.
        Some(columns) if columns > before + 30 => width::wrap(&mark.paint(what), columns, before),
        _ => mark.paint(what),
    };
    teller.line(&format!("{}  {order}  {what}", paint::faint(&time)));
}

/// Tells something about the whole.
pub(crate) fn note(text: &str) {
    let Some(teller) = TELLER.get() else { return };
    if teller.json {
        let plain = anstream::adapter::strip_str(text.trim()).to_string();
        return teller.line(&text::plain_json(&json!({"event": "note", "what": plain}).to_string()));
    }
    teller.line(&width::wrap(text, width::page(), 0));
}

/// No more is drawn than has to stay: the bar, if it is full.
pub(crate) fn end() {
    let Some(teller) = TELLER.get() else { return };
    let mut out = teller.lock();
    if teller.bar.swap(false, Ordering::Relaxed) {
        let finished = teller.finished.load(Ordering::Relaxed);
        let full = if finished == teller.orders {
            format!("{}\n", teller.drawn())
        } else {
            String::new()
        };
        let clear = teller.clear();
        let _ = write!(out, "{clear}{full}").and_then(|()| out.flush());
    }
}

/// One order more has ended. To be said before it is told, since the bar is drawn with that.
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

/// Takes the bar away, and what somebody typed below it (`^C`).
const CLEAR: &str = "\r\x1b[2K\x1b[1A\x1b[2K";

impl Teller {
    fn line(&self, line: &str) {
        let mut out = self.lock();
        let clear = self.clear();
        let bar = if self.bar.load(Ordering::Relaxed) {
            self.stands.store(true, Ordering::Relaxed);
            // The cursor rests below it: after `kill -9` that is where the shell goes on.
            format!("{}\n", self.drawn())
        } else {
            String::new()
        };
        // In one piece, or `kill -9` could come in between. A demo whose reader is gone has nobody to tell that.
        let told = format!("{clear}{line}\n{bar}");
        let _ = out.write_all(told.as_bytes()).and_then(|()| out.flush());
    }

    /// What takes the bar away, if there is one.
    fn clear(&self) -> &'static str {
        if self.stands.swap(false, Ordering::Relaxed) {
            CLEAR
        } else {
            ""
        }
    }

    fn drawn(&self) -> String {
        let finished = self.finished.load(Ordering::Relaxed);
        let Bar { cells, told, hint } = Bar::new(
            (finished, self.orders),
            std::process::id(),
            width::terminal().unwrap_or(width::PAGE),
        );
        format!("{}{told}{}", paint::busy(&cells), paint::faint(&hint))
    }

    fn lock(&self) -> MutexGuard<'_, anstream::AutoStream<io::Stdout>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bar, in its colours' parts. It has to stay on one line: what a terminal wraps is not cleared with it.
struct Bar {
    cells: String,
    told: String,
    hint: String,
}

impl Bar {
    fn new((finished, of): (u32, u32), pid: u32, columns: usize) -> Self {
        const CELLS: (usize, usize) = (8, 24);
        // The last column stays empty: some terminals go on to the next line as soon as there is something in it.
        let room = columns.saturating_sub(1);
        let told = text::short(&format!(" {finished} of {of} orders"), room);
        let hint = format!("  Ctrl-C or kill -9 {pid}, then start again");
        let left = room - told.chars().count();
        let hint = if finished < of && left >= CELLS.0 + hint.len() {
            hint
        } else {
            String::new()
        };
        let cells = (left - hint.len()).min(CELLS.1);
        let full = (u64::from(finished) * cells as u64 / u64::from(of.max(1))) as usize;
        Self {
            cells: format!("{}{}", "█".repeat(full), "░".repeat(cells - full)),
            told,
            hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a user: on a terminal of 80 columns the bar took 81 with a pid of five digits. It was wrapped, and each
    /// line that was told left a dead one behind.
    #[test]
    fn the_bar_is_narrower_than_the_terminal() {
        for columns in 1..200 {
            for finished in 0..=10_000 / 7 {
                let bar = Bar::new((finished * 7, 10_000), 4_194_304, columns);
                let wide = [&bar.cells, &bar.told, &bar.hint].map(|part| part.chars().count());
                assert!(wide.iter().sum::<usize>() < columns, "{columns}: {wide:?}");
            }
        }
        let bar = |finished| Bar::new((finished, 6), 12_345, 80);
        assert_eq!(bar(0).cells, "░".repeat(22));
        assert_eq!(bar(0).hint, "  Ctrl-C or kill -9 12345, then start again");
        assert_eq!(bar(3).told, " 3 of 6 orders");
        assert_eq!((bar(6).cells, bar(6).hint), ("█".repeat(24), String::new()));
        assert_eq!(Bar::new((1, 6), 12_345, 40).hint, "", "no room for it");
    }
}

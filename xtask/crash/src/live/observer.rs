//! The world outside: a file that every step appends to, and that no crash takes back.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::point::{self, Point};

/// What an attempt did to the world: under its idempotency key, a mark that no other attempt makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) key: String,
    pub(crate) number: String,
}

/// One line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// An attempt left a mark.
    Effect(Mark),
    /// The code was given the result of an attempt, for the first time or in replay.
    Seen(Mark),
    /// What a mark stood for was undone.
    Undone(Mark),
}

impl Line {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split('\t');
        let (word, key, number) = (words.next()?, words.next()?, words.next()?);
        let mark = Mark {
            key: key.to_owned(),
            number: number.to_owned(),
        };
        match word {
            "effect" => Some(Self::Effect(mark)),
            "seen" => Some(Self::Seen(mark)),
            "undone" => Some(Self::Undone(mark)),
            _ => None,
        }
    }
}

static FILE: OnceLock<File> = OnceLock::new();
static MARKS: AtomicU64 = AtomicU64::new(0);

/// Opens the file for this process.
pub(crate) fn open(path: &Path) -> Result<(), String> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
    FILE.set(file).map_err(|_| "the observer is opened once".to_owned())
}

/// An attempt does what it does.
pub(crate) fn effect(key: &str) -> std::io::Result<Mark> {
    point::reach(Point::Begun);
    let mark = Mark {
        key: key.to_owned(),
        number: format!("{}.{}", std::process::id(), MARKS.fetch_add(1, Ordering::Relaxed)),
    };
    append("effect", &mark)?;
    point::reach(Point::Effect);
    Ok(mark)
}

/// The code is given a result.
pub(crate) fn seen(mark: &Mark) -> std::io::Result<()> {
    append("seen", mark)?;
    point::reach(Point::Seen);
    Ok(())
}

/// What an attempt did is undone.
pub(crate) fn undone(mark: &Mark) -> std::io::Result<()> {
    append("undone", mark)?;
    point::reach(Point::Undone);
    Ok(())
}

/// One line in one write: a kill leaves all of it or nothing.
fn append(word: &str, mark: &Mark) -> std::io::Result<()> {
    let mut file = FILE
        .get()
        .ok_or_else(|| std::io::Error::other("the observer is not open"))?;
    file.write_all(format!("{word}\t{}\t{}\n", mark.key, mark.number).as_bytes())
}

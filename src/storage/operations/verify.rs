//! Reading everything and telling what is wrong, without changing a row.
//!
//! Each shard is read once from its first possible key to its last, under one snapshot. The rows of an instance lie
//! together, so one instance at a time is held in memory; what lies beside the namespaces is compared with the
//! instance it names by looking at single rows of the same snapshot.

use std::path::PathBuf;

use crate::ids::Shard;
use crate::storage::directory::{self, Directory};
use crate::storage::engine::{Engine, Position, ReadError, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::open::{Kind, OpenOptions, Place, began, durable, read, stored_position};
use crate::storage::operations::beside;
use crate::storage::operations::instance::InstanceCheck;
use crate::storage::operations::report::{Fault, Finding, Report};
use crate::storage::operations::schema::schema;
use crate::storage::operations::walk::{Row, Walk};
use crate::storage::record::StoreHeader;
use crate::storage::store::Store;
use crate::storage::watermark::{Found, Mark, Watermark};

impl Store {
    /// Reads everything and reports all that is wrong. Changes nothing, and commits go on meanwhile: each shard is
    /// read as it is at one moment.
    ///
    /// An error means that the store could not be read, not that something is wrong with it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("data").display().to_string();
    /// use everstep::storage::OpenOptions;
    /// let store = OpenOptions::new().open(&path)?;
    /// let report = store.verify()?;
    /// assert!(report.is_clean(), "{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<Report> {
        verify(self.engine(), self.shard_count())
    }
}

impl OpenOptions {
    /// Verifies a store that is not open, also one that would not open: a store behind its watermark is read and
    /// the gap is a finding. Neither a new epoch nor a new watermark is written.
    ///
    /// No row changes, but files may. The lock file says who is reading. The engine is opened as it always is, and does
    /// to its own files what it does at every start:
    ///
    /// - fjall cuts its newest journal off at the first bytes that it can't read: room that was never written, or a
    ///   write that a kill cut short. If they are known to be damaged instead, it is refused. It may write what its journals hold into tables, and removes files that nothing needs any more.
    /// - sled drops the end of its log that it can't read, too, and replaces the summary of the log that lies beside it.
    ///   What it recovered is synced.
    ///
    /// Whoever wants the bytes of a damaged store as they are, copies the directory first.
    pub fn verify(&self, url: &str) -> Result<Report> {
        match Place::find(url)? {
            Place::Engine(engine) => verify(&*engine, shards(&*engine, None)),
            Place::Directory { path, kind } => self.verify_directory(path, kind),
        }
    }

    fn verify_directory(&self, path: PathBuf, kind: Kind) -> Result<Report> {
        let found = Watermark::read(&directory::watermark(&path))?;
        // The lock writes, and a store of a newer release is left as it is.
        if let Found::Marks { format, .. } = found {
            self.knows(format)?;
        }
        let engine = path.join(kind.name);
        // Nothing is made where nothing is: opening would.
        match (kind.is_there)(&engine) {
            Ok(true) => {}
            Ok(false) if !engine.exists() && !was_open(&found) => {
                let reason = format!("there is no {} store in it", kind.name);
                return Err(Error::NotAStore { path, reason });
            }
            Ok(false) => return Ok(gone(format!("there is nothing left in {}", engine.display()), &found)),
            Err(ReadError::Corrupt(what)) => return Ok(gone(what, &found)),
            Err(error) => return Err(error.into()),
        }
        let directory = Directory::lock(&path)?;
        let found = Watermark::read(&directory.watermark())?;
        if let Found::Marks { format, .. } = found {
            self.knows(format)?;
        }
        let marks = marks(&found);
        let durable = durable(marks);
        let engine = (kind.open)(&directory.engine(kind.name), &durable).map_err(|refused| refused.error(&durable))?;
        let mut report = verify(&*engine, shards(&*engine, marks))?;
        let position = |shard| stored_position(&*engine, shard).ok();
        compare(position, marks, &mut report);
        Ok(report)
    }
}

/// What the watermark says, if it can be read.
fn marks(found: &Found) -> Option<&[Mark]> {
    match found {
        Found::Marks { marks, .. } => Some(marks),
        Found::Missing | Found::Damaged => None,
    }
}

/// Whether the watermark says that the store was ever open.
fn was_open(found: &Found) -> bool {
    marks(found).is_some_and(|marks| began(Some(marks)))
}

/// The report of a store whose engine is not there, or not enough of it to be opened.
fn gone(what: String, found: &Found) -> Report {
    let marks = marks(found);
    let mut report = Report {
        shards: marks.map_or(1, |marks| u16::try_from(marks.len()).unwrap_or(1)),
        ..Report::default()
    };
    let finding = || Finding {
        fault: Fault::EngineDamaged,
        shard: Shard(0),
        instance: None,
        key: "the engine".into(),
        detail: what,
    };
    report.add(finding, Fault::EngineDamaged);
    compare(|_| Some(Position::default()), marks, &mut report);
    report
}

/// How many shards there are, as far as can be told.
fn shards(engine: &dyn Engine, marks: Option<&[Mark]>) -> u16 {
    let header: Result<Option<StoreHeader>> = read(engine, Shard(0), &Key::Store);
    match (header, marks) {
        (Ok(Some(header)), _) => header.shards,
        (_, Some(marks)) => u16::try_from(marks.len()).unwrap_or(1),
        _ => 1,
    }
}

/// Compares every shard with the watermark. `position` says where a shard stands, unless that can't be read.
fn compare(position: impl Fn(Shard) -> Option<Position>, marks: Option<&[Mark]>, report: &mut Report) {
    let Some(marks) = marks else {
        let finding = || Finding {
            fault: Fault::NoWatermark,
            shard: Shard(0),
            instance: None,
            key: "the watermark".into(),
            detail: "it is missing or damaged, so nothing tells whether the store is complete".into(),
        };
        report.add(finding, Fault::NoWatermark);
        return;
    };
    for (shard, mark) in (0..).map(Shard).zip(marks) {
        let Some(found) = position(shard) else {
            continue; // The walk has reported the row.
        };
        let expected = mark.position;
        if found.sequence < expected.sequence || (found.sequence == expected.sequence && found != expected) {
            let finding = || Finding {
                fault: Fault::BehindWatermark,
                shard,
                instance: None,
                key: "the watermark".into(),
                detail: format!("commit {} was durable, found {}", expected.sequence, found.sequence),
            };
            report.add(finding, Fault::BehindWatermark);
        }
    }
}

/// Verifies all shards of an engine.
pub(super) fn verify(engine: &dyn Engine, shards: u16) -> Result<Report> {
    let mut report = Report {
        shards,
        ..Report::default()
    };
    for shard in (0..shards).map(Shard) {
        let snapshot = engine.snapshot(shard)?;
        Verifier {
            snapshot: &*snapshot,
            shard,
            shards,
            report: &mut report,
            instance: None,
        }
        .shard()?;
    }
    Ok(report)
}

/// Reads one shard.
pub(super) struct Verifier<'a> {
    pub(super) snapshot: &'a dyn Snapshot,
    pub(super) shard: Shard,
    pub(super) shards: u16,
    report: &'a mut Report,
    /// The instance whose rows are being read.
    instance: Option<InstanceCheck>,
}

impl Verifier<'_> {
    fn shard(&mut self) -> Result<()> {
        for range in key::territory(self.shard, self.shards).windows(2) {
            let mut walk = Walk::new(self.snapshot, (range[0].clone(), range[1].clone()));
            loop {
                match walk.next() {
                    Ok(Some(row)) => self.row(&row)?,
                    Ok(None) => break,
                    Err(ReadError::Corrupt(what)) => {
                        self.find(Fault::EngineDamaged, None, &range[0], what);
                        break;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.end_instance()?;
        }
        self.must_have(&Key::Position(self.shard), Fault::MissingPosition)?;
        if self.shard.0 == 0 {
            self.must_have(&Key::Store, Fault::MissingHeader)?;
        }
        Ok(())
    }

    fn row(&mut self, row: &Row) -> Result<()> {
        self.report.rows += 1;
        self.report.bytes += row.bytes();
        let key = match Key::unpack(&row.key) {
            Ok(key) => key,
            Err(error) => {
                let owner = self.instance.as_ref().filter(|check| check.owns(&row.key));
                let owner = owner.map(|check| check.id().to_owned());
                self.find(Fault::InvalidKey, owner.as_deref(), &row.key, error.to_string());
                return Ok(());
            }
        };
        if let Key::Instance(_, instance, _) = &key {
            self.begin_instance(instance, &row.key)?;
        }
        let readable = match schema(&key).check(&row.key, &row.value) {
            Ok(()) => true,
            Err(error) => {
                self.find((&error).into(), owner(&key), &row.key, error.to_string());
                false
            }
        };
        match &key {
            Key::Instance(_, _, local) => {
                if let Some(mut check) = self.instance.take() {
                    check.row(self, local, row, readable)?;
                    self.instance = Some(check);
                }
                Ok(())
            }
            Key::Store if readable => beside::header(self, row),
            // Whose it is stands in the key: an alarm that can't be read still may be an orphan.
            _ => beside::row(self, &key, row),
        }
    }

    fn begin_instance(&mut self, instance: &str, key: &[u8]) -> Result<()> {
        if self.instance.as_ref().is_some_and(|check| check.id() == instance) {
            return Ok(());
        }
        self.end_instance()?;
        self.report.instances += 1;
        self.instance = Some(InstanceCheck::begin(self, instance, key));
        Ok(())
    }

    fn end_instance(&mut self) -> Result<()> {
        match self.instance.take() {
            Some(check) => check.end(self),
            None => Ok(()),
        }
    }

    fn must_have(&mut self, key: &Key<'_>, fault: Fault) -> Result<()> {
        let bytes = key.pack();
        if let Ok(None) = self.snapshot.get(&bytes) {
            self.find(fault, None, &bytes, "there is no such row".into());
        }
        Ok(())
    }

    pub(super) fn find(&mut self, fault: Fault, instance: Option<&str>, key: &[u8], detail: String) {
        let finding = || Finding {
            fault,
            shard: self.shard,
            instance: instance.map(str::to_owned),
            key: key::describe(key),
            detail,
        };
        self.report.add(finding, fault);
    }
}

/// Whose row a key is.
fn owner<'a>(key: &'a Key<'_>) -> Option<&'a str> {
    match key {
        Key::Store | Key::Position(_) | Key::Dead(..) => None,
        Key::Instance(_, instance, _)
        | Key::Alarm(_, _, instance)
        | Key::Index(_, _, instance)
        | Key::Dedup(_, instance, _)
        | Key::Runnable(_, instance)
        | Key::Outbox(_, instance, ..)
        | Key::Tombstone(_, instance)
        | Key::Gate(.., instance)
        | Key::Placed(.., instance) => Some(instance),
    }
}

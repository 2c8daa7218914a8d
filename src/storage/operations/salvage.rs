//! Getting out of a damaged store what is sound in it.
//!
//! An export ends at the first thing that can't be read, so that a file never passes for more than it holds. Here whoever
//! asks wants what there is, and is told of everything that there is not: each instance is read through before a row of
//! it is written, and is in the file as a whole or not at all.

use std::collections::BTreeSet;
use std::io::Write;

use serde::Serialize;

use crate::ids::Shard;
use crate::storage::engine::{ReadError, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::operations::export::{Lines, nothing_left_behind};
use crate::storage::operations::line::Scope;
use crate::storage::operations::of_store;
use crate::storage::operations::walk::{Instances, Walk};
use crate::storage::store::Store;

/// What was saved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Salvaged {
    /// Instances in the file.
    pub instances: u64,
    /// Rows, those that are no instance's included.
    pub rows: u64,
    /// Things that are not in it.
    pub left_out: u64,
}

/// Something that is not in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Whose it is, if that can be told.
    pub instance: Option<String>,
    /// The code of what is wrong.
    pub code: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl Store {
    /// Exports every instance that is sound, and tells of each that is not. What it writes is an
    /// [export](Store::export) like any other, to be imported as a new store.
    ///
    /// Where the engine can't read on among the instances, those behind are looked for in the listing. Ids are held in
    /// memory, nothing else is.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name).display().to_string();
    /// use everstep::storage::OpenOptions;
    /// let store = OpenOptions::new().open(&path("old"))?;
    /// let mut file = Vec::new();
    /// let salvaged = store.salvage(&mut file, &mut |left_out| panic!("{left_out:?}"))?;
    /// assert_eq!(salvaged.left_out, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn salvage(&self, out: &mut dyn Write, left_out: &mut dyn FnMut(LeftOut)) -> Result<Salvaged> {
        let snapshots = self.snapshots()?;
        let mut told = Told { left_out, count: 0 };
        let mut ids = BTreeSet::new();
        for (shard, snapshot) in self.shards().zip(&snapshots) {
            if let Err(error) = nothing_left_behind(&**snapshot, shard) {
                let sender = match &error {
                    Error::OnItsWay { instance } => Some(instance.clone()),
                    _ => None,
                };
                told.or_fail(sender, error)?;
            }
            find(&**snapshot, shard, &mut ids, &mut told)?;
        }
        let mut lines = Lines::begin(out, Scope::Store, self.shard_count())?;
        let mut saved = BTreeSet::new();
        for (id, shard) in ids {
            let snapshot = &*snapshots[usize::from(shard.0)];
            let (mut nowhere, scope) = (std::io::sink(), Scope::Store);
            let sound = Lines::begin(&mut nowhere, scope, self.shard_count())?.instance(snapshot, shard, &id);
            match sound {
                Ok(()) => {
                    lines.instance(snapshot, shard, &id)?;
                    saved.insert(id);
                }
                Err(error) => told.or_fail(Some(id), error)?,
            }
        }
        of_store::visit(
            &snapshots,
            &mut |key, row| match key {
                // Nobody would ever leave it.
                Key::Gate(.., instance) if !saved.contains(instance.as_ref()) => Ok(()),
                _ => lines.row(row),
            },
            &mut |whose, error| told.or_fail(whose, error),
        )?;
        let exported = lines.end()?;
        Ok(Salvaged {
            instances: exported.instances,
            rows: exported.rows,
            left_out: told.count,
        })
    }
}

/// Whoever wants to know what is left out, and how often that was.
struct Told<'a> {
    left_out: &'a mut dyn FnMut(LeftOut),
    count: u64,
}

impl Told<'_> {
    /// Tells of damage. Anything else is an error: it may be over the next time.
    fn or_fail(&mut self, instance: Option<String>, error: Error) -> Result<()> {
        let (Error::Corrupt(_) | Error::Decode { .. } | Error::InvalidKey(_) | Error::OnItsWay { .. }) = error else {
            return Err(error);
        };
        self.count += 1;
        (self.left_out)(LeftOut {
            instance,
            code: error.code(),
            reason: error.to_string(),
        });
        Ok(())
    }
}

/// Finds the instances of a shard: by their rows, and by the listing, which names also those whose rows can't be reached.
fn find(snapshot: &dyn Snapshot, shard: Shard, ids: &mut BTreeSet<(String, Shard)>, told: &mut Told<'_>) -> Result<()> {
    let mut instances = Instances::new(snapshot, shard);
    let ended = loop {
        match instances.next() {
            Ok(Some(id)) => ids.insert((id, shard)),
            Ok(None) => break None,
            Err(ReadError::Corrupt(what)) => break Some(what),
            Err(error) => return Err(error.into()),
        };
    };
    if let Some(key) = instances.passed_over() {
        let what = format!("{} lies among the instances and can't be read", key::describe(key));
        told.or_fail(None, Error::Corrupt(what))?;
    }
    let Some(what) = ended else {
        return Ok(());
    };
    let what = format!("the instances of {shard} can't be read on, and are looked for in the listing: {what}");
    told.or_fail(None, Error::Corrupt(what))?;
    let mut listing = Walk::new(snapshot, key::index(shard));
    loop {
        match listing.next() {
            Ok(Some(row)) => {
                if let Ok(Key::Index(_, _, id)) = Key::unpack(&row.key) {
                    ids.insert((id.into_owned(), shard));
                }
            }
            Ok(None) => return Ok(()),
            Err(ReadError::Corrupt(what)) => {
                let what = format!("the listing of {shard} can't be read on: {what}");
                return told.or_fail(None, Error::Corrupt(what));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

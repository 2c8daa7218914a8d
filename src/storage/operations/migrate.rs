//! Bringing a store of an older format to that of this release, when it is opened.
//!
//! A migration goes through every row of every shard and says what becomes of it. The changes are committed in
//! slices, and after each slice the store header says how far it got, so a process that is killed anywhere goes on
//! from there.
//!
//! **Never half.** A store is at a format only when its header says that format and no migration. Before the first
//! row changes, the watermark and the header say the new format, so that a release that does not know it refuses the
//! store: the watermark is read before anything is touched, and an engine that has none has the header.
//!
//! **A step may be shown a row twice.** The slice and the header that counts it can lie in different shards, and are
//! two commits. So a step recognises what it has done (the schema version in the envelope tells) and leaves it. It
//! has to anyway: a row that it moves to a later key comes by again.

use crate::ids::Shard;
use crate::storage::batch::Batch;
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::open::FORMAT;
use crate::storage::operations::walk::Walk;
use crate::storage::operations::writer::{SLICE_BYTES, SLICE_ROWS};
use crate::storage::record::{MigrationProgress, StoreHeader};
use crate::storage::store::Parts;

/// The way from one format to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    /// The format it begins with.
    pub(crate) from: u32,
    /// The format it ends with.
    pub(crate) to: u32,
    /// What becomes of a row: operations on this row, or on others of its shard.
    pub(crate) step: fn(key: &[u8], value: &[u8], changes: &mut Batch) -> Result<()>,
}

/// The format of a release, and the ways to it from older ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Formats {
    /// The format that is written.
    pub(crate) current: u32,
    /// One way for each older format that can still be opened.
    pub(crate) migrations: &'static [Migration],
    /// Rows of one slice.
    pub(crate) slice_rows: usize,
}

impl Default for Formats {
    fn default() -> Self {
        Self {
            current: FORMAT,
            // Nothing was published before format 1.
            migrations: &[],
            slice_rows: SLICE_ROWS,
        }
    }
}

impl Formats {
    /// Whether there is a way from what a header says to the format of this release.
    pub(crate) fn path_from(&self, header: &StoreHeader) -> Result<()> {
        let mut at = header.format;
        if let Some(progress) = &header.migration {
            self.find(progress.from, |to| to == at)?;
        }
        while at != self.current {
            at = self.find(at, |to| to > at)?.to;
        }
        Ok(())
    }

    /// The migration that a header calls for: the one that has begun, or the next one.
    fn next(&self, header: &StoreHeader) -> Result<Option<&Migration>> {
        match &header.migration {
            Some(progress) => self.find(progress.from, |to| to == header.format).map(Some),
            None if header.format == self.current => Ok(None),
            None => self.find(header.format, |to| to > header.format).map(Some),
        }
    }

    fn find(&self, from: u32, to: impl Fn(u32) -> bool) -> Result<&Migration> {
        let fits = |migration: &&Migration| migration.from == from && to(migration.to);
        self.migrations.iter().find(fits).ok_or(Error::NoMigration {
            found: from,
            known: self.current,
        })
    }
}

/// Brings a store that was taken over, and that nobody has open yet, to the current format.
pub(crate) fn migrate(parts: &mut Parts, formats: &Formats) -> Result<()> {
    while let Some(migration) = formats.next(&parts.header)? {
        let first = match &parts.header.migration {
            Some(progress) => Shard(progress.shard),
            None => {
                parts.header.format = migration.to;
                parts.header.migration = Some(MigrationProgress {
                    from: migration.from,
                    shard: 0,
                    done: Vec::new(),
                });
                parts.write_header()?;
                Shard(0)
            }
        };
        tracing::info!(from = migration.from, to = migration.to, shard = %first, "migrating the store");
        for shard in parts.shards().filter(|shard| *shard >= first) {
            migrate_shard(parts, migration, shard, formats.slice_rows)?;
        }
        parts.header.migration = None;
        parts.write_header()?;
    }
    Ok(())
}

/// Migrates one shard from where the header says.
fn migrate_shard(parts: &mut Parts, migration: &Migration, shard: Shard, slice_rows: usize) -> Result<()> {
    let cuts = key::territory(shard, parts.header.shards);
    let mut start = match &parts.header.migration {
        Some(progress) if progress.shard == shard.0 && !progress.done.is_empty() => after(&progress.done),
        _ => cuts[0].clone(),
    };
    let own = [Key::Store.pack(), Key::Position(shard).pack()];
    loop {
        // A snapshot for each slice: rows that the step moved ahead come by, and no snapshot is held for long.
        let snapshot = parts.engine.snapshot(shard)?;
        let mut walk = Walk::new(&*snapshot, (start, cuts[cuts.len() - 1].clone()));
        let mut changes = Batch::new();
        let mut done = None;
        for _ in 0..slice_rows {
            let Some(row) = walk.next()? else {
                break;
            };
            // The header and the positions belong to the opening, not to a migration.
            if !own.contains(&row.key) {
                (migration.step)(&row.key, &row.value, &mut changes)?;
            }
            done = Some(row.key);
            if changes.bytes() >= SLICE_BYTES {
                break;
            }
        }
        let Some(done) = done else {
            return Ok(());
        };
        drop(snapshot);
        parts.commit(shard, changes)?;
        start = after(&done);
        parts.header.migration = Some(MigrationProgress {
            from: migration.from,
            shard: shard.0,
            done,
        });
        parts.write_header()?;
    }
}

/// The smallest key behind a key.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = key.to_vec();
    after.push(0);
    after
}

#[cfg(test)]
mod tests;

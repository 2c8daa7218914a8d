//! A copy of a running store, as a store.
//!
//! Rows are copied as they are, from one snapshot for each shard, all taken between two commits: the copy is the store
//! at one moment, and is as good as one that was killed at that moment. Shards that are moments apart would not do. What
//! was on its way between them could be in neither: not yet where it goes, and no longer where it comes from.
//!
//! The copy is made beside its place, under a name that ends in `.partial`, and renamed when it is whole and durable:
//! whatever has the right name is complete. Its lock is held until it has that name, so of two backups to one place the
//! second is refused, and never takes the half of the first away.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::storage::directory;
use crate::storage::error::{Error, Result};
use crate::storage::key::{self, Key};
use crate::storage::open::{OpenOptions, Place};
use crate::storage::operations::walk::Walk;
use crate::storage::operations::writer::Slices;
use crate::storage::record::{Importing, StoreHeader};
use crate::storage::store::{Parts, Store};

/// What a backup holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    /// Rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
}

impl Store {
    /// Copies everything into a new store, which need not have the same engine. Commits go on meanwhile.
    ///
    /// The target must not exist, or be an empty directory. When this returns the copy is durable, and opens like any
    /// other store; until then there is nothing under its name but the empty directory, if there was one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name).display().to_string();
    /// use everstep::storage::OpenOptions;
    /// let store = OpenOptions::new().open(&path("data"))?;
    /// store.backup(&path("monday"))?;
    /// assert!(OpenOptions::new().open(&path("monday"))?.verify()?.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, url: &str) -> Result<Copied> {
        let Place::Directory { path, kind } = Place::find(url)? else {
            return Err(Error::InvalidUrl {
                url: url.to_owned(),
                reason: "a backup needs a directory",
            });
        };
        must_be_free(&path)?;
        let partial = partial(&path)?;
        discard(&partial)?;
        let place = Place::Directory {
            path: partial.clone(),
            kind,
        };
        let mut parts = OpenOptions::new().shards(self.shard_count()).prepare(place)?;
        let copied = self.copy_into(&mut parts)?;
        let leases = parts.leases.clone();
        let (engine, watermark, directory) = (parts.engine, parts.watermark, parts.directory);
        if let Some(watermark) = watermark {
            for lease in &leases {
                watermark.advance(lease.shard, lease.epoch, lease.position)?;
            }
            watermark.sync()?;
        }
        drop(engine);
        if let Some(directory) = &directory {
            directory.make_private()?;
            directory::sync_tree(&directory.engine(kind.name))?;
        }
        std::fs::rename(&partial, &path).map_err(Error::io("rename", &partial))?;
        directory::sync(&parent(&path))?;
        // Only now the lock goes. A backup to the same place that began meanwhile takes what it finds without one under
        // the `.partial` name for a leftover, and would have removed the copy on the way to its name.
        drop(directory);
        Ok(copied)
    }

    fn copy_into(&self, parts: &mut Parts) -> Result<Copied> {
        let snapshots = self.snapshots()?;
        // Nobody should open the half under its own name either.
        parts.header.importing = Some(Importing { instance: None });
        parts.write_header()?;
        let mut copied = Copied::default();
        for (shard, snapshot) in self.shards().zip(&snapshots) {
            let own = [Key::Store.pack(), Key::Position(shard).pack()];
            let cuts = key::territory(shard, self.shard_count());
            let range = (cuts[0].clone(), cuts[cuts.len() - 1].clone());
            let mut walk = Walk::new(&**snapshot, range);
            let mut slices = Slices::new(self.shard_count());
            while let Some(row) = walk.next()? {
                // The copy has a header and positions of its own.
                if own.contains(&row.key) {
                    continue;
                }
                copied.rows += 1;
                copied.bytes += row.bytes();
                slices.set(parts, shard, &row)?;
            }
            slices.flush(parts)?;
        }
        let header = self.header().clone();
        parts.header = StoreHeader {
            // The epochs of the copy begin at one again; its messages must not.
            arrivals_above: self.arrival_epoch_max(),
            // A store of its own from here on: a watermark vouches for one of the two.
            created_at_ms: parts.header.created_at_ms,
            importing: None,
            migration: None,
            ..header
        };
        parts.write_header()?;
        Ok(copied)
    }
}

/// Refuses a target that holds anything.
fn must_be_free(path: &Path) -> Result<()> {
    match std::fs::read_dir(path) {
        Ok(mut listing) => match listing.next() {
            None => Ok(()),
            Some(_) => Err(Error::NotEmpty {
                what: path.display().to_string(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(Error::NotAStore {
            path: path.to_owned(),
            reason: "it is a file".into(),
        }),
        Err(error) => Err(Error::io("list", path)(error)),
    }
}

/// Where the copy is made.
fn partial(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(Error::NotAStore {
            path: path.to_owned(),
            reason: "the path does not end in a name".into(),
        });
    };
    let mut name = name.to_owned();
    name.push(".partial");
    Ok(path.with_file_name(name))
}

/// Removes what a backup that was cut short left there: a directory with nothing in it but the parts of a store, that
/// nobody is writing to.
fn discard(partial: &Path) -> Result<()> {
    let listing = match std::fs::read_dir(partial) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("list", partial)(error)),
    };
    for file in listing {
        let name = file.map_err(Error::io("list", partial))?.file_name();
        if !["lock", "watermark", "watermark.new", "fjall", "sled"]
            .iter()
            .any(|known| name == *known)
        {
            return Err(Error::NotEmpty {
                what: partial.display().to_string(),
            });
        }
    }
    let lock = directory::Directory::lock(partial)?;
    std::fs::remove_dir_all(partial).map_err(Error::io("remove", partial))?;
    drop(lock);
    Ok(())
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

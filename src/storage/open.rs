//! Opening a store: what is checked, and in which order.
//!
//! 1. The directory is made or found, and locked against a second process.
//! 2. The watermark is read. It says the format, so that a store of a newer release is refused before anything of it
//!    is touched, and how far every shard had got.
//! 3. The engine is opened, and every shard compared with the watermark. Behind it, or with another past: refused,
//!    unless the caller accepts the loss, which is written into the store header.
//! 4. The shards are acquired under a new epoch, and the committer starts.
//!
//! A new store is made in an order that a crash can cut anywhere: the watermark first, at commit zero, then the
//! engine, then the header as commit one, then the watermark again. While the watermark stands at zero, `open` has
//! never returned, so nothing was ever acknowledged.

use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::{Clock, SystemClock};
use crate::ids::Shard;
use crate::limits::SHARDS_MAX;
use crate::storage::batch::Batch;
use crate::storage::directory::{self, Directory};
use crate::storage::engine::{Engine, Group, Lease, Owner, Position, ReadError};
use crate::storage::engines;
use crate::storage::error::{Error, Result};
use crate::storage::key::Key;
use crate::storage::payload::Codecs;
use crate::storage::record::{AcceptedLoss, Held, StoreHeader};
use crate::storage::store::{Parts, Store};
use crate::storage::url::Url;
use crate::storage::value::{self, Record};
use crate::storage::watermark::{Found, Mark, Watermark};

/// The format that this release writes.
pub const FORMAT: u32 = 1;

/// Accepted losses that the header keeps; the oldest go first.
const ACCEPTED_LOSSES_MAX: usize = 64;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    shards: u16,
    accept_loss: bool,
    clock: Arc<dyn Clock>,
    codecs: Codecs,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            accept_loss: false,
            clock: Arc::new(SystemClock),
            codecs: Codecs::plain(),
        }
    }
}

impl OpenOptions {
    /// The defaults: one shard, no loss accepted, the machine's clock, plain CBOR.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many shards a new store gets, at least one and at most [`SHARDS_MAX`]. An existing store keeps its own.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards.clamp(1, SHARDS_MAX);
        self
    }

    /// Opens a store even if it has lost commits, or nothing can tell. The loss is written into the store header.
    #[must_use]
    pub fn accept_loss(mut self, accept: bool) -> Self {
        self.accept_loss = accept;
        self
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How users' values are written and read.
    #[must_use]
    pub fn codecs(mut self, codecs: Codecs) -> Self {
        self.codecs = codecs;
        self
    }

    /// Opens the store that `url` names: `./data`, `fjall:./data`, `sled:./data` or `memory:`.
    ///
    /// This blocks for as long as the engine needs to recover.
    pub fn open(&self, url: &str) -> Result<Store> {
        match url.parse()? {
            #[cfg(feature = "fjall")]
            Url::Fjall(path) => {
                let open = |path: &Path| Ok(Arc::new(engines::Fjall::open(path)?) as Arc<dyn Engine>);
                self.open_directory(&path, "fjall", open)
            }
            #[cfg(feature = "sled")]
            Url::Sled(path) => {
                let open = |path: &Path| Ok(Arc::new(engines::Sled::open(path)?) as Arc<dyn Engine>);
                self.open_directory(&path, "sled", open)
            }
            Url::Memory => self.open_engine(Arc::new(engines::Memory::default())),
        }
    }

    /// Opens a store on an engine that needs no directory of ours.
    pub fn open_engine(&self, engine: Arc<dyn Engine>) -> Result<Store> {
        let opened = self.take_over(&*engine, None)?;
        Store::start(Parts {
            engine,
            leases: opened,
            codecs: self.codecs.clone(),
            watermark: None,
            directory: None,
        })
    }

    fn open_directory(
        &self,
        path: &Path,
        name: &str,
        open: impl Fn(&Path) -> Result<Arc<dyn Engine>, ReadError>,
    ) -> Result<Store> {
        // The lock writes, so what must be left as it is, to the byte, is refused before; and once more behind it.
        if path.is_dir() {
            directory::holds_only(path, name)?;
            refuse_newer(&Watermark::read(&directory::watermark(path))?)?;
        }
        let directory = Directory::lock(path)?;
        directory.holds_only(name)?;
        let marks = self.marks(&directory, name)?;
        let engine = open_or_begin_again(&directory.engine(name), marks.as_deref(), open)?;
        if !began(marks.as_deref()) {
            directory::sync_tree(&directory.engine(name))?;
        }
        let leases = self.take_over(&*engine, Some(marks.as_deref()))?;
        let marks: Vec<_> = leases
            .iter()
            .map(|lease| Mark {
                position: lease.position,
                epoch: lease.epoch,
            })
            .collect();
        let watermark = Watermark::create(&directory.watermark(), FORMAT, &marks)?;
        directory.make_private()?;
        Store::start(Parts {
            engine,
            leases,
            codecs: self.codecs.clone(),
            watermark: Some(watermark),
            directory: Some(directory),
        })
    }

    /// What the watermark says; none if it can't be read and the caller accepts that.
    fn marks(&self, directory: &Directory, name: &str) -> Result<Option<Vec<Mark>>> {
        let path = directory.watermark();
        let found = Watermark::read(&path)?;
        refuse_newer(&found)?;
        let found = match found {
            Found::Marks { marks, .. } => return Ok(Some(marks)),
            Found::Missing if !directory.engine(name).exists() => {
                let marks = vec![Mark::default(); usize::from(self.shards)];
                drop(Watermark::create(&path, FORMAT, &marks)?);
                return Ok(Some(marks));
            }
            Found::Missing => "missing",
            Found::Damaged => "damaged",
        };
        if self.accept_loss {
            Ok(None)
        } else {
            Err(Error::NoWatermark { path, found })
        }
    }

    /// Checks an opened engine against its watermark (`None` for an engine that has none), acquires its shards, and
    /// brings its header up to date.
    fn take_over(&self, engine: &dyn Engine, watermark: Option<Option<&[Mark]>>) -> Result<Vec<Lease>> {
        let stored: Option<StoreHeader> = read(engine, Shard(0), &Key::Store)?;
        if let Some(header) = stored.as_ref().filter(|header| header.format > FORMAT) {
            return Err(Error::NewerFormat {
                found: header.format,
                known: FORMAT,
            });
        }
        if stored.is_none() && stored_position(engine, Shard(0))?.sequence > 0 {
            return Err(Error::Corrupt(
                "there are commits but no store header, which is the first of them; restore it from a backup".into(),
            ));
        }
        let shards = stored.as_ref().map_or(self.shards, |header| header.shards);
        let losses = match watermark {
            Some(marks) => self.losses(engine, shards, marks)?,
            None => Vec::new(),
        };
        let now = self.clock.now_ms();
        let owner = Owner(xxh3_64(format!("{} {now}", std::process::id()).as_bytes()));
        let mut leases = (0..shards)
            .map(|shard| engine.acquire(Shard(shard), owner))
            .collect::<Result<Vec<_>, _>>()?;
        if stored.is_none() || !losses.is_empty() {
            let new = StoreHeader {
                format: FORMAT,
                shards,
                created_at_ms: now,
                accepted_losses: Vec::new(),
            };
            let mut header = stored.unwrap_or(new);
            header.accepted_losses.extend(losses);
            let surplus = header.accepted_losses.len().saturating_sub(ACCEPTED_LOSSES_MAX);
            header.accepted_losses.drain(..surplus);
            leases[0].position = write_header(engine, &leases[0], &header)?;
        }
        Ok(leases)
    }

    /// Compares every shard with its mark. What is missing is an error, or a loss to be noted if it was accepted.
    fn losses(&self, engine: &dyn Engine, shards: u16, marks: Option<&[Mark]>) -> Result<Vec<AcceptedLoss>> {
        let mut losses = Vec::new();
        for shard in (0..shards).map(Shard) {
            let found = stored_position(engine, shard)?;
            let mark = marks.map(|marks| marks.get(usize::from(shard.0)).copied().unwrap_or_default().position);
            let error = match mark {
                Some(mark) if found.sequence < mark.sequence => Error::BehindWatermark {
                    shard,
                    expected: mark.sequence,
                    found: found.sequence,
                },
                Some(mark) if found.sequence == mark.sequence && found.chain != mark.chain => Error::DifferentPast {
                    shard,
                    sequence: found.sequence,
                },
                Some(_) => continue,
                None => Error::Corrupt("the watermark is unreadable".into()),
            };
            if !self.accept_loss {
                return Err(error);
            }
            let expected = mark.map(|mark| mark.sequence);
            tracing::warn!(%shard, ?expected, found = found.sequence, "a loss was accepted");
            losses.push(AcceptedLoss {
                at_ms: self.clock.now_ms(),
                shard: shard.0,
                expected,
                found: found.sequence,
            });
        }
        Ok(losses)
    }
}

/// Opens an engine. One whose making was cut short is made anew, unless it got as far as its header: the watermark at
/// zero says that nothing in it was ever acknowledged. It may well open, and still be a half that is no ground to
/// build on.
fn open_or_begin_again(
    path: &Path,
    marks: Option<&[Mark]>,
    open: impl Fn(&Path) -> Result<Arc<dyn Engine>, ReadError>,
) -> Result<Arc<dyn Engine>> {
    if began(marks) || !path.exists() {
        return Ok(open(path)?);
    }
    let reason = match open(path) {
        Ok(engine) => match header(&*engine) {
            Ok(_) => return Ok(engine),
            Err(error) => error,
        },
        Err(error) => error.into(),
    };
    tracing::warn!(error = %reason, "the making of the store was cut short; it is made anew");
    std::fs::remove_dir_all(path).map_err(Error::io("remove", path))?;
    Ok(open(path)?)
}

/// Whether the store was ever open. An unreadable watermark can't tell, so the answer is the careful one.
fn began(marks: Option<&[Mark]>) -> bool {
    marks.is_none_or(|marks| marks.iter().any(|mark| mark.position.sequence > 0))
}

fn refuse_newer(found: &Found) -> Result<()> {
    match found {
        Found::Marks { format, .. } if *format > FORMAT => Err(Error::NewerFormat {
            found: *format,
            known: FORMAT,
        }),
        _ => Ok(()),
    }
}

/// The header of a store that was opened.
pub(crate) fn header(engine: &dyn Engine) -> Result<StoreHeader> {
    read(engine, Shard(0), &Key::Store)?.ok_or_else(|| Error::Corrupt("the store header is missing".into()))
}

fn stored_position(engine: &dyn Engine, shard: Shard) -> Result<Position> {
    let held: Option<Held> = read(engine, shard, &Key::Position(shard))?;
    Ok(held.map_or(Position::default(), |held| Position {
        sequence: held.sequence,
        chain: held.chain,
    }))
}

fn read<R: Record>(engine: &dyn Engine, shard: Shard, key: &Key<'_>) -> Result<Option<R>> {
    let bytes = key.pack();
    let Some(value) = engine.get(shard, &bytes)? else {
        return Ok(None);
    };
    value::decode(&bytes, &value).map(Some).map_err(|source| Error::Decode {
        key: format!("{key:?}"),
        source,
    })
}

fn write_header(engine: &dyn Engine, lease: &Lease, header: &StoreHeader) -> Result<Position> {
    let key = Key::Store.pack();
    let mut batch = Batch::new();
    batch.set(&key, &value::encode(&key, header));
    let next = Position {
        sequence: lease.position.sequence + 1,
        chain: batch.chain(lease.position.chain),
    };
    engine.commit(&Group {
        lease: *lease,
        expected: lease.position,
        next,
        batches: &[batch],
    })?;
    Ok(next)
}

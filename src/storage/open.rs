//! Opening a store: what is checked, and in which order.
//!
//! 1. The directory is made or found, and locked against a second process.
//! 2. The watermark is read. It says the format, so that a store of a newer release is refused before anything of it
//!    is touched, and how far every shard had got.
//! 3. The engine is opened, without what can't be read of its log if the caller accepts that, and every shard compared
//!    with the watermark. Behind it, or with another past: refused, unless the caller accepts the loss, which is written
//!    into the store header.
//! 4. The shards are acquired under a new epoch. A store of an older format is migrated, and an instance whose import
//!    was cut short is taken back. The committer starts.
//!
//! A new store is made in an order that a crash can cut anywhere: the watermark first, at commit zero, then the
//! engine, then the header as commit one, then the watermark again. While the watermark stands at zero, `open` has
//! never returned, so nothing was ever acknowledged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::chance::{Chance, SystemChance};
use crate::clock::{Clock, Millis, SystemClock};
use crate::ids::Shard;
use crate::limits::{INBOX_BYTES_MAX, INBOX_MAX, SHARDS_MAX};
use crate::storage::damage::{self, Refused};
use crate::storage::directory::{self, Directory};
use crate::storage::engine::{Engine, Owner, Position, ReadError};
use crate::storage::engines;
use crate::storage::error::{Error, Result};
use crate::storage::inboxes::InboxBounds;
use crate::storage::key::Key;
use crate::storage::operations::{Formats, migrate, take_back};
#[cfg(feature = "testing")]
use crate::storage::pace::Pace;
use crate::storage::payload::Codecs;
use crate::storage::record::{AcceptedLoss, Held, Importing, StoreHeader};
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
    pub(crate) chance: Arc<dyn Chance>,
    codecs: Codecs,
    formats: Formats,
    importing: bool,
    inbox: InboxBounds,
    #[cfg(feature = "testing")]
    pace: Option<Pace>,
}

/// Where a store is.
pub(crate) enum Place {
    /// In a directory, with a lock and a watermark around the engine.
    Directory { path: PathBuf, kind: Kind },
    /// Wherever this engine keeps it.
    Engine(Arc<dyn Engine>),
}

/// What becomes of opening an engine.
type Opened = Result<Arc<dyn Engine>, Refused>;

/// An engine that lives in a directory.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Opens the engine in a directory of its own, or makes it.
    /// It is told how many commits of each shard are known to have been durable.
    pub(crate) open: fn(&Path, &[u64]) -> Opened,
    /// Whether there is one, so that it would be opened and not made. A part of one is damage.
    pub(crate) is_there: fn(&Path) -> Result<bool, ReadError>,
}

impl Place {
    /// The place that a URL names.
    pub(crate) fn find(url: &str) -> Result<Self> {
        Ok(match url.parse()? {
            #[cfg(feature = "fjall")]
            Url::Fjall(path) => Self::Directory {
                path,
                kind: Kind {
                    name: "fjall",
                    open: |path, durable| Ok(Arc::new(engines::Fjall::open_knowing(path, durable)?)),
                    is_there: engines::Fjall::is_there,
                },
            },
            #[cfg(feature = "sled")]
            Url::Sled(path) => Self::Directory {
                path,
                kind: Kind {
                    name: "sled",
                    open: |path, _| Ok(Arc::new(engines::Sled::open_or_tell(path)?)),
                    is_there: engines::Sled::is_there,
                },
            },
            Url::Memory => Self::Engine(Arc::new(engines::Memory::default())),
        })
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            shards: 1,
            accept_loss: false,
            clock: Arc::new(SystemClock),
            chance: Arc::new(SystemChance),
            codecs: Codecs::plain(),
            formats: Formats::default(),
            importing: false,
            inbox: InboxBounds {
                messages: INBOX_MAX,
                bytes: INBOX_BYTES_MAX,
            },
            #[cfg(feature = "testing")]
            pace: None,
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

    /// How many messages an inbox holds at most, at least one. One more is refused.
    #[must_use]
    pub fn inbox_max(mut self, most: usize) -> Self {
        self.inbox.messages = most.max(1);
        self
    }

    /// How many bytes of messages an inbox holds at most, and one message however large it is. More is refused.
    #[must_use]
    pub fn inbox_bytes_max(mut self, most: usize) -> Self {
        self.inbox.bytes = most;
        self
    }

    /// Opens a store even if it has lost commits, or nothing can tell. The loss is written into the store header, and what
    /// can't be read of the engine's log is kept in the directory `damaged` of the store.
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

    /// Where the secrets come from that an import gives to copies of instances.
    #[must_use]
    pub fn chance(mut self, chance: Arc<dyn Chance>) -> Self {
        self.chance = chance;
        self
    }

    /// How users' values are written and read.
    #[must_use]
    pub fn codecs(mut self, codecs: Codecs) -> Self {
        self.codecs = codecs;
        self
    }

    /// Commits are made by a task of the tokio runtime that the store is opened on, at this pace, and not by a thread:
    /// a simulation has everything in one thread. Closing such a store does not wait for what was handed over.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn in_task(mut self, pace: Pace) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Another format than that of this release, and the ways to it: for tests of the mechanism.
    #[cfg(test)]
    pub(crate) fn formats(mut self, formats: Formats) -> Self {
        self.formats = formats;
        self
    }

    /// Opens for an import: a store that was not imported to its end is let in.
    pub(crate) fn for_import(&self) -> Self {
        Self {
            importing: true,
            ..self.clone()
        }
    }

    /// Opens the store that `url` names: `./data`, `fjall:./data`, `sled:./data` or `memory:`.
    ///
    /// This blocks for as long as the engine needs to recover, and a store of an older format to be migrated.
    pub fn open(&self, url: &str) -> Result<Store> {
        Store::start(self.prepare(Place::find(url)?)?)
    }

    /// Opens a store on an engine that needs no directory of ours.
    pub fn open_engine(&self, engine: Arc<dyn Engine>) -> Result<Store> {
        Store::start(self.prepare(Place::Engine(engine))?)
    }

    /// Everything that opening does, short of starting the committer: what comes back belongs to the caller alone.
    pub(crate) fn prepare(&self, place: Place) -> Result<Parts> {
        let mut parts = match place {
            Place::Directory { path, kind } => self.prepare_directory(&path, kind)?,
            Place::Engine(engine) => self.take_over(engine, None)?,
        };
        migrate(&mut parts, &self.formats)?;
        // Behind the migration: what was imported has the current format too by now.
        take_back(&mut parts)?;
        Ok(parts)
    }

    fn prepare_directory(&self, path: &Path, kind: Kind) -> Result<Parts> {
        let name = kind.name;
        // The lock writes, so what must be left as it is, to the byte, is refused before; and once more behind it.
        if path.is_dir() {
            directory::holds_only(path, name)?;
            if let Found::Marks { format, .. } = Watermark::read(&directory::watermark(path))? {
                self.knows(format)?;
            }
        }
        let directory = Directory::lock(path)?;
        directory.holds_only(name)?;
        let (marks, born) = self.marks(&directory, name)?;
        if !self.accept_loss && began(marks.as_deref()) && !(kind.is_there)(&directory.engine(name))? {
            // Made anew it would be refused as well, and hide that all of it is gone.
            let (mut lost, shard) = (
                marks.unwrap_or_default().into_iter().map(|mark| mark.position.sequence),
                Shard(0),
            );
            let (expected, found) = (lost.next().unwrap_or_default(), 0);
            return Err(Error::BehindWatermark { shard, expected, found });
        }
        let (engine, cut) = self.open_or_set_aside(path, &directory.engine(name), marks.as_deref(), kind)?;
        if !began(marks.as_deref()) {
            directory::sync_tree(&directory.engine(name))?;
        }
        let beside = Beside {
            marks: marks.as_deref(),
            born,
            cut,
        };
        let mut parts = self.take_over(engine, Some(beside))?;
        let marks: Vec<_> = parts
            .leases
            .iter()
            .map(|lease| Mark {
                position: lease.position,
                epoch: lease.epoch,
            })
            .collect();
        // Before the first row is migrated the file says the new format: an older release, which reads it before it
        // touches anything, refuses the store from here on.
        parts.watermark = Some(Watermark::create(
            &directory.watermark(),
            self.formats.current,
            &marks,
            Some(parts.header.created_at_ms),
        )?);
        damage::close(path)?;
        directory.make_private()?;
        parts.directory = Some(directory);
        Ok(parts)
    }

    /// Opens the engine, without what can't be read of its log if that was accepted. Tells whether something was set
    /// aside that the header does not know of yet.
    fn open_or_set_aside(
        &self,
        store: &Path,
        engine: &Path,
        marks: Option<&[Mark]>,
        kind: Kind,
    ) -> Result<(Arc<dyn Engine>, bool)> {
        let cut = damage::finish(store)?;
        let durable = durable(marks);
        let open = || open_or_begin_again(engine, marks, kind, &durable);
        let refused = match open() {
            Ok(engine) => return Ok((engine, cut)),
            Err(refused) => refused,
        };
        if !self.accept_loss || !refused.set_aside(store)? {
            return Err(refused.error(&durable));
        }
        damage::finish(store)?;
        // Whatever is wrong with it now, accepting it once more would not help.
        Ok((open().map_err(ReadError::from)?, true))
    }

    /// What the watermark says, and of which store; nothing if it can't be read and the caller accepts that.
    fn marks(&self, directory: &Directory, name: &str) -> Result<(Option<Vec<Mark>>, Option<Millis>)> {
        let path = directory.watermark();
        let found = match Watermark::read(&path)? {
            Found::Marks { format, marks, born } => {
                self.knows(format)?;
                return Ok((Some(marks), born));
            }
            Found::Missing if !directory.engine(name).exists() => {
                let marks = vec![Mark::default(); usize::from(self.shards)];
                drop(Watermark::create(&path, self.formats.current, &marks, None)?);
                return Ok((Some(marks), None));
            }
            Found::Missing => "missing",
            Found::Damaged => "damaged",
        };
        if self.accept_loss {
            Ok((None, None))
        } else {
            Err(Error::NoWatermark { path, found })
        }
    }

    /// Checks an opened engine against what lies beside it (`None` for an engine that has nothing), acquires its shards,
    /// and brings its header up to date.
    fn take_over(&self, engine: Arc<dyn Engine>, beside: Option<Beside<'_>>) -> Result<Parts> {
        let stored: Option<StoreHeader> = read(&*engine, Shard(0), &Key::Store)?;
        if let Some(header) = &stored {
            self.accepts(header)?;
        }
        if stored.is_none() && stored_position(&*engine, Shard(0))?.sequence > 0 {
            return Err(Error::Corrupt(
                "there are commits but no store header, which is the first of them; restore it from a backup".into(),
            ));
        }
        // A header that was lost is not a new store: how many shards there are stands in the watermark, too.
        let marks = beside.and_then(|beside| beside.marks);
        let shards = match (&stored, marks) {
            (Some(header), _) => header.shards,
            (None, Some(marks)) => u16::try_from(marks.len()).unwrap_or(SHARDS_MAX),
            (None, None) => self.shards,
        };
        let losses = match beside {
            Some(beside) => self.losses(&*engine, shards, beside, stored.as_ref())?,
            None => Vec::new(),
        };
        let now = self.clock.now_ms();
        let owner = Owner(xxh3_64(format!("{} {now}", std::process::id()).as_bytes()));
        let leases = (0..shards)
            .map(|shard| engine.acquire(Shard(shard), owner))
            .collect::<Result<Vec<_>, _>>()?;
        let mut changed = stored.is_none() || !losses.is_empty();
        let mut header = stored.unwrap_or_else(|| StoreHeader {
            format: self.formats.current,
            shards,
            created_at_ms: now,
            accepted_losses: Vec::new(),
            arrivals_above: 0,
            importing: None,
            migration: None,
        });
        // A position that was lost counts its epochs from one again; messages must not come before those that are there.
        let marks = marks.unwrap_or_default().iter();
        let missing = marks
            .zip(&leases)
            .map(|(mark, lease)| (mark.epoch + 1).saturating_sub(lease.epoch));
        if let Some(missing) = missing.max().filter(|missing| *missing > 0) {
            header.arrivals_above += missing;
            changed = true;
        }
        header.accepted_losses.extend(losses);
        let surplus = header.accepted_losses.len().saturating_sub(ACCEPTED_LOSSES_MAX);
        header.accepted_losses.drain(..surplus);
        let mut parts = Parts {
            engine,
            leases,
            header,
            codecs: self.codecs.clone(),
            watermark: None,
            directory: None,
            inbox: self.inbox,
            #[cfg(feature = "testing")]
            pace: self.pace.clone(),
        };
        if changed {
            parts.write_header()?;
        }
        Ok(parts)
    }

    /// Refuses a store of a newer release.
    pub(crate) fn knows(&self, format: u32) -> Result<()> {
        let known = self.formats.current;
        if format > known {
            return Err(Error::NewerFormat { found: format, known });
        }
        Ok(())
    }

    /// Whether this release, opened for what it is opened for, may touch a store with this header.
    fn accepts(&self, header: &StoreHeader) -> Result<()> {
        self.knows(header.format)?;
        self.formats.path_from(header)?;
        // One instance that was not imported to its end is taken back; half of a store is no store.
        if matches!(header.importing, Some(Importing { instance: None })) && !self.importing {
            return Err(Error::ImportUnfinished);
        }
        Ok(())
    }

    /// Compares every shard with its mark. What is missing is an error, or a loss to be noted if it was accepted.
    fn losses(
        &self,
        engine: &dyn Engine,
        shards: u16,
        beside: Beside<'_>,
        header: Option<&StoreHeader>,
    ) -> Result<Vec<AcceptedLoss>> {
        let marks = beside.marks;
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
            losses.push(self.accepted(shard, mark, found));
        }
        let is_foreign = matches!((beside.born, header), (Some(born), Some(header)) if born != header.created_at_ms);
        if is_foreign && losses.is_empty() && !self.accept_loss {
            return Err(Error::ForeignWatermark);
        }
        // Where no shard is behind, it was accepted all the same that nothing tells what is missing.
        if losses.is_empty() && (is_foreign || beside.cut) {
            let mark = marks.and_then(<[Mark]>::first).map(|mark| mark.position);
            losses.push(self.accepted(Shard(0), mark, stored_position(engine, Shard(0))?));
        }
        Ok(losses)
    }

    fn accepted(&self, shard: Shard, mark: Option<Position>, found: Position) -> AcceptedLoss {
        let expected = mark.map(|mark| mark.sequence);
        tracing::warn!(%shard, ?expected, found = found.sequence, "a loss was accepted");
        AcceptedLoss {
            at_ms: self.clock.now_ms(),
            shard: shard.0,
            expected,
            found: found.sequence,
        }
    }
}

/// What lies beside an engine in the directory of a store, and vouches for it.
#[derive(Clone, Copy)]
struct Beside<'a> {
    /// The watermark, if it can be read.
    marks: Option<&'a [Mark]>,
    /// When the store was made that the watermark belongs to, if it says so.
    born: Option<Millis>,
    /// A part of the log was set aside, and the header does not say so yet.
    cut: bool,
}

/// How many commits of each shard are known to have been durable.
pub(crate) fn durable(marks: Option<&[Mark]>) -> Vec<u64> {
    marks
        .unwrap_or_default()
        .iter()
        .map(|mark| mark.position.sequence)
        .collect()
}

/// Opens an engine. One whose making was cut short is made anew, unless it got as far as its header: the watermark at
/// zero says that nothing in it was ever acknowledged. It may well open, and still be a half that is no ground to
/// build on.
fn open_or_begin_again(path: &Path, marks: Option<&[Mark]>, kind: Kind, durable: &[u64]) -> Opened {
    let open = || (kind.open)(path, durable);
    if began(marks) || !path.exists() {
        return open();
    }
    let reason = match open() {
        Ok(engine) => match header(&*engine) {
            Ok(_) => return Ok(engine),
            Err(error) => error,
        },
        Err(refused) => refused.error(durable),
    };
    tracing::warn!(error = %reason, "the making of the store was cut short; it is made anew");
    std::fs::remove_dir_all(path).map_err(ReadError::Unavailable)?;
    open()
}

/// Whether the store was ever open. An unreadable watermark can't tell, so the answer is the careful one.
pub(crate) fn began(marks: Option<&[Mark]>) -> bool {
    marks.is_none_or(|marks| marks.iter().any(|mark| mark.position.sequence > 0))
}

/// The header of a store that was opened.
fn header(engine: &dyn Engine) -> Result<StoreHeader> {
    read(engine, Shard(0), &Key::Store)?.ok_or_else(|| Error::Corrupt("the store header is missing".into()))
}

pub(crate) fn stored_position(engine: &dyn Engine, shard: Shard) -> Result<Position> {
    let held: Option<Held> = read(engine, shard, &Key::Position(shard))?;
    Ok(held.map_or(Position::default(), |held| Position {
        sequence: held.sequence,
        chain: held.chain,
    }))
}

pub(crate) fn read<R: Record>(engine: &dyn Engine, shard: Shard, key: &Key<'_>) -> Result<Option<R>> {
    let bytes = key.pack();
    let Some(value) = engine.get(shard, &bytes)? else {
        return Ok(None);
    };
    value::decode(&bytes, &value).map(Some).map_err(|source| Error::Decode {
        key: format!("{key:?}"),
        source,
    })
}

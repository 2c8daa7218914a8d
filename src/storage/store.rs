//! A store: an engine, opened safely, with the committer in front of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Stopwatch;
use crate::ids::{InstanceId, Shard};
use crate::storage::activation::{Activation, Activations};
use crate::storage::commit::Commit;
use crate::storage::committer::{Committer, Pending, Place, Receipt, Worker};
use crate::storage::directory::Directory;
use crate::storage::engine::{Engine, Lease, Snapshot};
use crate::storage::error::{Error, Result};
use crate::storage::failure::Failure;
use crate::storage::flight::{Flight, Left};
use crate::storage::inboxes::InboxBounds;
use crate::storage::key::Arrival;
use crate::storage::namespace::Namespace;
#[cfg(feature = "testing")]
use crate::storage::pace::Pace;
use crate::storage::payload::Codecs;
use crate::storage::record::StoreHeader;
use crate::storage::watermark::Watermark;
use crate::telemetry;

/// An open store. Cheap to clone; all clones are the same store.
///
/// [`Store::close`] waits until everything that was handed over is durable. Dropping the last clone does the same
/// without waiting for callers that still hold a [`Pending`].
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<dyn Engine>,
    leases: Vec<Lease>,
    header: StoreHeader,
    activations: Arc<Activations>,
    /// The number of the last message accepted in this epoch. Held while a commit that delivers is put into the
    /// queue, so that the order of numbers is the order of commits.
    arrivals: Mutex<u64>,
    /// The number of the last durable message of each shard.
    delivered: Arc<[AtomicU64]>,
    /// Commits that were made durable since the store was opened.
    tally: Arc<AtomicU64>,
    /// Held by the committer while it writes.
    writing: Arc<Mutex<()>>,
    codecs: Codecs,
    committer: CommitterThread,
    /// Unlocked when everything above is closed: fields are dropped in this order.
    directory: Option<Directory>,
}

/// Gives the places of messages in inboxes, in the order of their commits.
#[derive(Debug)]
pub struct Arrivals<'a> {
    epoch: u64,
    last: &'a mut u64,
}

impl Arrivals<'_> {
    /// The next place.
    pub fn next_place(&mut self) -> Arrival {
        *self.last += 1;
        Arrival {
            epoch: self.epoch,
            number: *self.last,
        }
    }
}

/// How a store is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Health {
    /// It works.
    Good,
    /// It acknowledges nothing any more, for this reason; a restart recovers.
    Failed(Error),
}

/// What a store is made of, once its engine was found sound and its shards were acquired.
pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) header: StoreHeader,
    pub(crate) codecs: Codecs,
    pub(crate) watermark: Option<Arc<Watermark>>,
    pub(crate) directory: Option<Directory>,
    pub(crate) inbox: InboxBounds,
    #[cfg(feature = "testing")]
    pub(crate) pace: Option<Pace>,
}

impl Store {
    pub(crate) fn start(parts: Parts) -> Result<Self> {
        let Parts {
            engine,
            leases,
            header,
            codecs,
            watermark,
            directory,
            inbox,
            #[cfg(feature = "testing")]
            pace,
        } = parts;
        let activations = Arc::default();
        let worker = Worker::new(
            Arc::clone(&engine),
            leases.clone(),
            Arc::clone(&activations),
            watermark,
            inbox,
        );
        let (delivered, tally, writing) = (worker.delivered(), worker.tally(), worker.writing());
        #[cfg(not(feature = "testing"))]
        let committer = CommitterThread::start(worker)?;
        #[cfg(feature = "testing")]
        let committer = match pace {
            Some(pace) => CommitterThread::in_task(worker, pace),
            None => CommitterThread::start(worker)?,
        };
        let inner = Inner {
            engine,
            leases,
            header,
            activations,
            arrivals: Mutex::new(0),
            delivered,
            tally,
            writing,
            codecs,
            committer,
            directory,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Whether everything happens in the tasks of one thread.
    pub(crate) fn is_simulated(&self) -> bool {
        self.inner.committer.thread.is_none()
    }

    /// The shard that an instance lives in.
    pub fn shard_of(&self, instance: &InstanceId) -> Shard {
        shard_of(instance.as_str(), self.shard_count())
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.shard_count()).map(Shard)
    }

    /// The key space of an instance.
    pub fn namespace(&self, instance: &InstanceId) -> Namespace {
        Namespace::new(self.shard_of(instance), instance.clone())
    }

    /// A view of one shard as it is now.
    pub fn snapshot(&self, shard: Shard) -> Result<Box<dyn Snapshot>> {
        Ok(self.inner.engine.snapshot(shard)?)
    }

    /// A view of every shard, all at one moment: what one shard has sent and forgotten, another one has.
    pub(crate) fn snapshots(&self) -> Result<Vec<Box<dyn Snapshot>>> {
        let _writing = self.inner.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.shards().map(|shard| self.snapshot(shard)).collect()
    }

    /// Hands a commit over, waiting for a place in the queue if need be, and waits until it is durable.
    ///
    /// Once this future was polled to the point where the commit is in the queue, dropping it changes nothing: the
    /// commit is done or refused as a whole.
    pub async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let watch = Stopwatch::start();
        let receipt = self.submit(commit).await?.durable().await;
        telemetry::committed(watch.elapsed());
        receipt
    }

    /// Hands a commit over, waiting for a place in the queue if need be. It is not durable yet.
    pub async fn submit(&self, commit: Commit) -> Result<Pending> {
        self.committer()?.fits(&commit)?;
        Ok(self.committer()?.place().await?.hand_over(commit))
    }

    /// Hands a commit over if there is a place in the queue, or says [`Error::Overloaded`].
    pub fn try_submit(&self, commit: Commit) -> Result<Pending> {
        self.committer()?.fits(&commit)?;
        Ok(self.committer()?.try_place()?.hand_over(commit))
    }

    /// The same for a commit that puts messages into inboxes: `build` is given their places, which are in the order
    /// of the commits. It runs under a lock and should only build.
    pub async fn submit_delivery(
        &self,
        shard: Shard,
        build: impl FnOnce(&mut Arrivals<'_>) -> Commit,
    ) -> Result<Pending> {
        let place = self.committer()?.place().await?;
        self.deliver(shard, place, build)
    }

    /// The number of the last message that is durable in a shard. A snapshot that is taken after this has all messages
    /// up to it.
    pub fn delivered(&self, shard: Shard) -> u64 {
        self.inner.delivered[usize::from(shard.0)].load(Ordering::Acquire)
    }

    /// How many commits were made durable since the store was opened.
    pub(crate) fn commits(&self) -> u64 {
        self.inner.tally.load(Ordering::Relaxed)
    }

    /// Begins an activation of an instance: from now on only commits that carry it are done for this instance.
    pub fn activate(&self, instance: &InstanceId) -> Activation {
        self.inner.activations.begin(instance)
    }

    /// Ends an activation.
    pub fn deactivate(&self, activation: &Activation) {
        self.inner.activations.end(activation);
    }

    /// Opens the flight recorder beside the store, and gives what the process before left in it. A store without a
    /// directory has none.
    pub(crate) fn flight(&self) -> Result<(Flight, Left)> {
        match &self.inner.directory {
            Some(directory) => Flight::open(&directory.flight()),
            None => Ok((Flight::default(), Vec::new())),
        }
    }

    /// How users' values are written and read.
    pub fn codecs(&self) -> &Codecs {
        &self.inner.codecs
    }

    /// What the store says of itself: its format, its shards, and the losses that were accepted.
    pub fn header(&self) -> &StoreHeader {
        &self.inner.header
    }

    /// Whether the store works.
    pub fn health(&self) -> Health {
        self.inner
            .committer
            .handle
            .as_ref()
            .and_then(|committer| committer.failure().get())
            .cloned()
            .map_or(Health::Good, Health::Failed)
    }

    /// Where it shows, and is told, that the store has failed.
    pub(crate) fn failure(&self) -> Result<Arc<Failure>> {
        Ok(Arc::clone(self.committer()?.failure()))
    }

    /// Makes everything that was handed over durable, gives the store up, and tells whether it had failed. A store
    /// that has other clones stays open for them: the last one closes it.
    pub fn close(self) -> Result<()> {
        match Arc::try_unwrap(self.inner) {
            Ok(mut inner) => {
                inner.committer.finish()?;
                inner.directory.as_ref().map_or(Ok(()), Directory::make_private)
            }
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        &*self.inner.engine
    }

    pub(crate) fn shard_count(&self) -> u16 {
        u16::try_from(self.inner.leases.len()).expect("there are at most SHARDS_MAX shards")
    }

    /// The highest epoch that a message of this store may have been accepted under.
    pub(crate) fn arrival_epoch_max(&self) -> u64 {
        let held = self.inner.leases.iter().map(|lease| lease.epoch).max().unwrap_or(0);
        self.inner.header.arrivals_above + held
    }

    fn deliver(
        &self,
        shard: Shard,
        place: Place<'_>,
        build: impl FnOnce(&mut Arrivals<'_>) -> Commit,
    ) -> Result<Pending> {
        let mut last = self.inner.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = self.inner.header.arrivals_above + self.inner.leases[usize::from(shard.0)].epoch;
        let commit = build(&mut Arrivals { epoch, last: &mut last });
        self.committer()?.fits(&commit)?;
        Ok(place.hand_over(commit))
    }

    fn committer(&self) -> Result<&Committer> {
        self.inner.committer.handle.as_ref().ok_or(Error::Closed)
    }
}

/// The shard that an instance lives in, in a store with this many.
pub(crate) fn shard_of(instance: &str, shards: u16) -> Shard {
    let shard = xxh3_64(instance.as_bytes()) % u64::from(shards.max(1));
    Shard(u16::try_from(shard).expect("there are at most SHARDS_MAX shards"))
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("leases", &self.inner.leases)
            .finish_non_exhaustive()
    }
}

/// The committer and its thread, which end together.
#[derive(Debug)]
struct CommitterThread {
    handle: Option<Committer>,
    thread: Option<JoinHandle<()>>,
}

impl CommitterThread {
    fn start(worker: Worker) -> Result<Self> {
        let (handle, thread) = Committer::start(worker)?;
        Ok(Self {
            handle: Some(handle),
            thread: Some(thread),
        })
    }

    /// A task in the place of the thread: nobody can wait for its end without standing in its way.
    #[cfg(feature = "testing")]
    fn in_task(worker: Worker, pace: Pace) -> Self {
        Self {
            handle: Some(Committer::start_in_task(worker, pace)),
            thread: None,
        }
    }

    /// Closes the queue, waits until it is empty, and tells whether the store had failed.
    fn finish(&mut self) -> Result<()> {
        let failure = self.handle.take().map(Committer::close);
        if let Some(thread) = self.thread.take() {
            thread
                .join()
                .map_err(|_| Error::Failed("the committer panicked".into()))?;
        }
        // Asked only now: what was still in the queue may have failed.
        failure.and_then(|failure| failure.get().cloned()).map_or(Ok(()), Err)
    }
}

impl Drop for CommitterThread {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::warn!(%error, "the store was closed after it had failed");
        }
    }
}

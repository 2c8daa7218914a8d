//! One attempt at a step, as the step's own code sees it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::clock::{Millis, Stopwatch};
use crate::engine::error::Result;
use crate::engine::journal::SharedJournal;
use crate::engine::scope::Facts;
use crate::ids::InstanceId;
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::Failure;

/// What an attempt knows about itself. A step's closure may take it as its argument.
///
/// ```
/// # use everstep::{Attempt, Ctx, Result, Runtime, ensure, ok, workflow};
/// #[workflow]
/// async fn copies(ctx: Ctx<Copies>) -> Result<u32> {
///     let copy = |attempt: Attempt| async move {
///         // Where the attempt before this one had got to.
///         let done: u32 = attempt.progress()?.unwrap_or(0);
///         for page in done..100 {
///             ensure!(page < 60 || done > 0, "the line broke");
///             attempt.heartbeat(&(page + 1))?;
///         }
///         ok(100 - done)
///     };
///     ok(ctx.step("copy", copy).heartbeat("10s").delay("1ms").await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = Runtime::builder().workflow(copies).open("memory:").await?;
/// // The second attempt had forty pages left.
/// assert_eq!(runtime.start(copies, ()).await?.result().await?, 40);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Attempt {
    inner: Arc<Inner>,
}

struct Inner {
    facts: Arc<Facts>,
    journal: SharedJournal,
    location: Location,
    number: u32,
    /// Made when it is first asked for: most steps never do.
    idempotency_key: OnceLock<String>,
    /// What the attempt before this one said last.
    progress: Option<Payload>,
    pulse: Arc<Pulse>,
}

impl Attempt {
    pub(crate) fn new(
        facts: Arc<Facts>,
        journal: SharedJournal,
        location: Location,
        number: u32,
        progress: Option<Payload>,
        pulse: Arc<Pulse>,
    ) -> Self {
        let idempotency_key = OnceLock::new();
        let inner = Inner {
            facts,
            journal,
            location,
            number,
            idempotency_key,
            progress,
            pulse,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Which attempt this is, from one. Attempts that ended with the process count.
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// The same for every attempt at this step, also after a restart, and different from that of any other step: what
    /// to give to a payment provider so that two attempts charge once.
    ///
    /// It begins with the instance, the run and the path of the step, for people to read, and ends with a few digits that
    /// only this instance has: one that is deleted and started again under the same id has other keys.
    pub fn idempotency_key(&self) -> &str {
        self.inner.idempotency_key.get_or_init(|| {
            let facts = &*self.inner.facts;
            let Facts { instance, keyed_in, .. } = facts;
            let path = self.inner.journal.lock().names.path(&self.inner.location);
            // Of what a copy on another machine has as well: it may make an attempt again that was made here.
            let digest = facts.seed().digest("key").to_hex();
            format!("{instance}/{keyed_in}/{path}#{}", &digest[..16])
        })
    }

    /// The instance whose step this is.
    pub fn instance(&self) -> &InstanceId {
        &self.inner.facts.instance
    }

    /// Says that the attempt is alive and how far it has got. What was said last is kept with the step, about once a
    /// second and when the attempt fails, so that the next attempt can go on from there.
    pub fn heartbeat<P: Serialize>(&self, progress: &P) -> Result<()> {
        let packed = self.inner.facts.pack(progress)?;
        self.inner.pulse.beat(packed);
        Ok(())
    }

    /// What the last heartbeat before this attempt said; none if there was none.
    pub fn progress<P: DeserializeOwned>(&self) -> Result<Option<P>> {
        let stored = self.inner.progress.as_ref();
        let unpacked = stored.map(|stored| self.inner.facts.codecs.unpack(stored));
        Ok(unpacked.transpose().map_err(Failure::from)?)
    }

    /// Whether nobody waits for this attempt any more: the instance was cancelled, a race was lost, the time is over.
    ///
    /// An attempt is dropped where it next awaits. One that asks, with this or with [`Attempt::cancelled`], is given a
    /// moment to clean up instead; what it returns is passed over.
    pub fn is_cancelled(&self) -> bool {
        self.inner.pulse.listen();
        self.inner.pulse.is_cancelled()
    }

    /// Waits until nobody waits for this attempt any more.
    pub async fn cancelled(&self) {
        self.inner.pulse.listen();
        self.inner.pulse.cancelled().await;
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("instance", self.instance())
            .field("number", &self.number())
            .finish_non_exhaustive()
    }
}

/// Names one attempt within the process. A result that comes late carries a name that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AttemptId(u64);

impl AttemptId {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

/// What a running attempt and those who watch it tell each other.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Says that one of the attempts of an instance has told something.
    news: Arc<AtomicBool>,
    /// What the attempt said last, and was not stored yet.
    progress: Mutex<Option<Payload>>,
    beaten: Notify,
    cancelled: AtomicBool,
    cancelling: Notify,
    /// Whether the attempt wants to hear of its cancellation.
    listens: AtomicBool,
    /// Whether it has begun, or never will, whichever came first.
    begun: OnceLock<bool>,
    /// When its code began, and what measures how long that takes.
    began: Mutex<Option<(Millis, Stopwatch)>>,
    took: OnceLock<Duration>,
}

impl Pulse {
    pub(crate) fn new(news: Arc<AtomicBool>) -> Self {
        Self {
            news,
            progress: Mutex::new(None),
            beaten: Notify::new(),
            cancelled: AtomicBool::new(false),
            cancelling: Notify::new(),
            listens: AtomicBool::new(false),
            begun: OnceLock::new(),
            began: Mutex::new(None),
            took: OnceLock::new(),
        }
    }

    /// The code of the attempt is about to be called. Tells whether it may be: the attempt was not taken back.
    pub(crate) fn begin(&self) -> bool {
        *self.begun.get_or_init(|| true)
    }

    /// Takes the attempt back if its code has not been called. Tells whether that is so.
    pub(crate) fn take_back(&self) -> bool {
        let is_back = !*self.begun.get_or_init(|| false);
        if is_back {
            self.cancel();
        }
        is_back
    }

    /// The code of the attempt begins now, whatever it had to wait for until now.
    pub(crate) fn measure_from(&self, now: Millis) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Stopwatch::start()));
    }

    /// The attempt has ended: from here on it only waits to be heard.
    pub(crate) fn measure_end(&self) {
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, watch)) = *began {
            let _ = self.took.set(watch.elapsed());
        }
    }

    /// When the attempt began and how long it took, if whoever ran it has measured that.
    pub(crate) fn measured(&self) -> Option<(Millis, Millis)> {
        let took = u64::try_from(self.took.get()?.as_millis()).unwrap_or(Millis::MAX);
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.map(|(at, _)| (at, took))
    }

    /// Whether one of the attempts of an instance has told something since this was last asked.
    pub(crate) fn take_news(news: &AtomicBool) -> bool {
        news.load(Ordering::Acquire) && news.swap(false, Ordering::AcqRel)
    }

    /// Lets it be asked again.
    pub(crate) fn tell_news(news: &AtomicBool) {
        news.store(true, Ordering::Release);
    }

    fn beat(&self, progress: Payload) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        Self::tell_news(&self.news);
        self.beaten.notify_one();
    }

    fn listen(&self) {
        self.listens.store(true, Ordering::Release);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Takes what the attempt said last, if that was not taken yet.
    pub(crate) fn take_progress(&self) -> Option<Payload> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Waits for the next sign of life.
    pub(crate) async fn beaten(&self) {
        self.beaten.notified().await;
    }

    /// Nobody waits for the attempt any more.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.cancelling.notify_waiters();
    }

    /// Waits until nobody waits for the attempt any more.
    pub(crate) async fn cancelled(&self) {
        let mut cancelling = std::pin::pin!(self.cancelling.notified());
        // Enabled before looking: a cancellation in between is not missed.
        cancelling.as_mut().enable();
        if !self.is_cancelled() {
            cancelling.await;
        }
    }

    /// Whether the attempt wants to end in its own time when it is cancelled.
    pub(crate) fn listens(&self) -> bool {
        self.listens.load(Ordering::Acquire)
    }
}

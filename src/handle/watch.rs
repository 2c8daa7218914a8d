//! `watch`: what changes, as it changes.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::actor::Shared;
use crate::handle::polled::Polled;
use crate::handle::{AnyHandle, Error, Result, look, wait};
use crate::ids::InstanceId;
use crate::limits::WATCH_CHANGES_MAX;
use crate::storage::record::Status;

/// Something of an instance was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Which instance.
    pub id: InstanceId,
    /// Its status when it was looked at; none if it was deleted.
    pub status: Option<Status>,
    /// Which run it is in.
    pub run: u32,
    /// Grows with every commit of the instance. That it was begun with is none.
    pub revision: u64,
}

/// What a watcher of everybody sees.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watched {
    /// An instance changed. What it is like now stands here, so several changes may look like one.
    Changed(Change),
    /// The watcher was too slow, and so many changes passed it by. Whoever needs them all lists the instances again.
    Lagged(u64),
}

/// Sees the changes of all instances of this process, from now on. What the runtime itself is made of (schedules, topics)
/// is left out, as in listings.
///
/// It is a [`Stream`](futures_util::Stream) too: `futures::StreamExt` works on it.
#[derive(Debug)]
pub struct Watch {
    polled: Polled<All, Result<Option<Watched>>>,
}

/// Sees the changes of one instance. It is never too slow: it sees the newest state, and what came before is gone.
///
/// It is a [`Stream`](futures_util::Stream) too: `futures::StreamExt` works on it.
#[derive(Debug)]
pub struct WatchOne {
    polled: Polled<One, Result<Option<Change>>>,
}

impl Watch {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let changes = shared.changes.all();
        let seen = Recently::default();
        let polled = Polled::new(All { shared, changes, seen });
        Self { polled }
    }

    /// Waits for the next change; none when the runtime has stopped, and an error when the store has failed. Whoever stops
    /// waiting misses nothing.
    pub async fn next(&mut self) -> Result<Option<Watched>> {
        poll_fn(|cx| self.polled.poll(cx, next_of_all)).await
    }
}

impl futures_util::Stream for Watch {
    type Item = Result<Watched>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.polled.poll_next(cx, next_of_all, ends)
    }
}

/// What a watcher of everybody knows.
struct All {
    shared: Arc<Shared>,
    changes: broadcast::Receiver<Option<InstanceId>>,
    seen: Recently,
}

/// What was told last of those who changed last: one commit may be told of several times.
#[derive(Default)]
struct Recently {
    told: HashMap<InstanceId, Change>,
    order: VecDeque<InstanceId>,
}

impl Recently {
    /// Whether a change is news.
    fn is_news(&mut self, change: &Change) -> bool {
        let before = self.told.insert(change.id.clone(), change.clone());
        if before.is_none() {
            self.order.push_back(change.id.clone());
            if self.order.len() > WATCH_CHANGES_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.told.remove(&oldest);
            }
        }
        before.as_ref() != Some(change)
    }
}

async fn next_of_all(mut all: All) -> (All, Result<Option<Watched>>) {
    let next = all.next().await;
    (all, next)
}

impl All {
    async fn next(&mut self) -> Result<Option<Watched>> {
        loop {
            let over = wait::goes_on(&self.shared);
            let told = if over.is_err() {
                self.changes.try_recv()
            } else {
                self.changes.recv().await.map_err(|error| match error {
                    RecvError::Lagged(missed) => TryRecvError::Lagged(missed),
                    RecvError::Closed => TryRecvError::Closed,
                })
            };
            let id = match told {
                Ok(Some(id)) => id,
                Ok(None) | Err(TryRecvError::Empty | TryRecvError::Closed) => return self.ended(),
                Err(TryRecvError::Lagged(missed)) => return Ok(Some(Watched::Lagged(missed))),
            };
            if id.is_own() {
                continue;
            }
            let change = change(&self.shared, &id)?;
            if self.seen.is_news(&change) {
                return Ok(Some(Watched::Changed(change)));
            }
        }
    }
}

impl All {
    /// Nothing more comes: that is the end if the runtime has stopped, and an error if the store has failed.
    fn ended(&self) -> Result<Option<Watched>> {
        match wait::goes_on(&self.shared) {
            Ok(()) | Err(Error::Stopped) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl AnyHandle {
    /// The changes of this instance, beginning with how it is now.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// # #[workflow] async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    /// #     ctx.set("paid", amount)?;
    /// #     ctx.emit("paid")?;
    /// #     ctx.sleep("cooling off", "1d").await?;
    /// #     ok(amount)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).open("memory:").await?;
    /// # let payment = runtime.start(payment, 20).id("order-123").await?;
    /// # payment.reached(|status| status == Status::Sleeping).await?;
    /// let mut changes = payment.watch();
    /// let change = changes.next().await?.ok_or("the runtime is there")?;
    /// assert_eq!(change.status, Some(Status::Sleeping));
    /// # Ok(()) }
    /// ```
    pub fn watch(&self) -> WatchOne {
        let handle = self.clone();
        let polled = Polled::new(One { handle, seen: None });
        WatchOne { polled }
    }
}

impl WatchOne {
    /// Waits for the next change; none after the instance has ended or was deleted. Whoever stops waiting misses nothing.
    pub async fn next(&mut self) -> Result<Option<Change>> {
        poll_fn(|cx| self.polled.poll(cx, next_of_one)).await
    }
}

impl futures_util::Stream for WatchOne {
    type Item = Result<Change>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.polled.poll_next(cx, next_of_one, ends)
    }
}

/// What a watcher of one instance knows.
struct One {
    handle: AnyHandle,
    seen: Option<(u32, u64, Option<Status>)>,
}

async fn next_of_one(mut one: One) -> (One, Result<Option<Change>>) {
    let next = one.next().await;
    (one, next)
}

impl One {
    async fn next(&mut self) -> Result<Option<Change>> {
        let AnyHandle { shared, instance } = &self.handle;
        let seen = self.seen;
        let change = wait::until(shared, instance, || {
            let change = change(shared, instance)?;
            if change.status.is_none() && seen.is_none() {
                return Err(look::absent(shared, instance));
            }
            let over = change.status.is_none_or(Status::is_terminal);
            let news = seen != Some((change.run, change.revision, change.status));
            Ok((news || over).then(|| news.then_some(change)))
        });
        let change = change.await?;
        self.seen = change
            .as_ref()
            .map(|change| (change.run, change.revision, change.status))
            .or(self.seen);
        Ok(change)
    }
}

/// Whether nothing comes after an error.
pub(super) fn ends(error: &Error) -> bool {
    !matches!(error, Error::Item { .. })
}

fn change(shared: &Shared, id: &InstanceId) -> Result<Change> {
    let Some((state, snapshot)) = look::state(shared, id)? else {
        return Ok(Change {
            id: id.clone(),
            status: None,
            run: 0,
            revision: 0,
        });
    };
    Ok(Change {
        id: id.clone(),
        status: Some(look::status(shared, id, &state, &*snapshot)?),
        run: state.run,
        revision: state.revision,
    })
}

//! Which attempts run: so many of all, of a workflow and of a queue, and so many of a queue in a time.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::config::{Config, QueueLimits};
use crate::scheduler::turns::Turns;
use crate::spawn;
use crate::storage::record::Priority;
use crate::telemetry;

/// Who wants to run: an attempt of this workflow, through this queue if it has bounds, with this priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) priority: Priority,
    pub(crate) workflow: Arc<str>,
    pub(crate) queue: Option<Arc<str>>,
}

/// Lets attempts run, in a fair order. Those with the same ticket wait in one lane, first come first; lanes are served
/// by priority and in turn, and one that may not run now keeps nobody else waiting.
#[derive(Debug)]
pub(crate) struct Turnstile {
    inner: Mutex<Inner>,
    me: Weak<Self>,
}

#[derive(Debug)]
struct Inner {
    all: Slots,
    workflows: HashMap<String, Slots>,
    queues: HashMap<String, Queue>,
    lanes: HashMap<Ticket, VecDeque<Waiter>>,
    turns: Turns<Ticket>,
    waiting: usize,
    last: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    grant: oneshot::Sender<Permit>,
}

/// How many run, and how many may.
#[derive(Debug, Clone, Copy)]
struct Slots {
    taken: usize,
    most: usize,
}

impl Slots {
    fn of(most: usize) -> Self {
        Self { taken: 0, most }
    }

    fn has_room(self) -> bool {
        self.taken < self.most
    }
}

#[derive(Debug)]
struct Queue {
    slots: Slots,
    /// Those that began within the time of the rate: a slot is given back that long after it was taken.
    rate: Option<(Slots, Duration)>,
    waiting: usize,
}

impl Queue {
    fn of(limits: &QueueLimits) -> Self {
        Self {
            slots: Slots::of(limits.attempts_max.unwrap_or(usize::MAX)),
            rate: limits.rate.map(|(most, per)| (Slots::of(most), per)),
            waiting: 0,
        }
    }

    fn has_room(&self) -> bool {
        self.slots.has_room() && self.rate.is_none_or(|(begun, _)| begun.has_room())
    }
}

/// How much goes through a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Attempts that run.
    pub running: usize,
    /// Attempts that wait for their turn.
    pub waiting: usize,
}

impl Turnstile {
    pub(crate) fn new(config: &Config) -> Arc<Self> {
        let workflows = config.workflows.iter();
        let workflows = workflows.filter_map(|(name, limits)| Some((name.clone(), Slots::of(limits.attempts_max?))));
        let queues = config.queues.iter();
        let inner = Inner {
            all: Slots::of(config.attempts_max),
            workflows: workflows.collect(),
            queues: queues.map(|(name, limits)| (name.clone(), Queue::of(limits))).collect(),
            lanes: HashMap::new(),
            turns: Turns::default(),
            waiting: 0,
            last: 0,
        };
        Arc::new_cyclic(|me| Self {
            inner: Mutex::new(inner),
            me: me.clone(),
        })
    }

    /// The ticket of an attempt. A queue that has no bounds is none: nothing is gained by a lane of its own, and there
    /// are only as many lanes as the configuration and the code name.
    pub(crate) fn ticket(&self, priority: Priority, workflow: &Arc<str>, queue: Option<&str>) -> Ticket {
        let bounded = queue.filter(|queue| self.inner().queues.contains_key(*queue));
        Ticket {
            priority,
            workflow: Arc::clone(workflow),
            queue: bounded.map(Arc::from),
        }
    }

    /// Lets an attempt run that need not wait.
    pub(crate) fn pass_at_once(self: &Arc<Self>, ticket: &Ticket) -> Option<Permit> {
        let (mut permit, tally) = {
            let mut inner = self.inner();
            if inner.lanes.contains_key(ticket) || !inner.may_run(ticket) {
                return None;
            }
            let rate = inner.take(ticket);
            let permit = Permit {
                turnstile: self.me.clone(),
                ticket: ticket.clone(),
                rate,
            };
            (permit, inner.tally(ticket))
        };
        tally.tell();
        self.begin(&mut permit);
        Some(permit)
    }

    /// Waits until an attempt may run. It does until what this gives is dropped.
    pub(crate) async fn pass(self: &Arc<Self>, ticket: Ticket) -> Permit {
        let (number, granted) = self.inner().wait(ticket.clone());
        self.serve();
        let _place = Place {
            turnstile: self,
            ticket,
            number,
        };
        let mut permit = granted.await.expect("whoever waits is not dropped before it is served");
        // Here and not where it was granted: that may be in a destructor, where no task can be started.
        self.begin(&mut permit);
        permit
    }

    fn begin(&self, permit: &mut Permit) {
        if let Some(per) = permit.begin() {
            self.give_back_later(permit.ticket.queue.clone(), per);
        }
    }

    /// Attempts that run.
    pub(crate) fn running(&self) -> usize {
        self.inner().all.taken
    }

    /// Attempts that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.inner().waiting
    }

    /// How much goes through each queue that has bounds.
    pub(crate) fn queues(&self) -> Vec<(String, QueueStats)> {
        let stats = |queue: &Queue| QueueStats {
            running: queue.slots.taken,
            waiting: queue.waiting,
        };
        let inner = self.inner();
        inner
            .queues
            .iter()
            .map(|(name, queue)| (name.clone(), stats(queue)))
            .collect()
    }

    /// Lets everyone run who may, in turn.
    fn serve(&self) {
        loop {
            let (waiter, permit, tally) = {
                let mut inner = self.inner();
                let Some((ticket, waiter)) = inner.next() else { return };
                let rate = inner.take(&ticket);
                let tally = inner.tally(&ticket);
                let turnstile = self.me.clone();
                (
                    waiter,
                    Permit {
                        turnstile,
                        ticket,
                        rate,
                    },
                    tally,
                )
            };
            // Outside of the lock: whoever has gone meanwhile gives the permit back at once.
            let _ = waiter.grant.send(permit);
            tally.tell();
        }
    }

    /// What counts for a rate counts for its whole time, however long the attempt takes.
    fn give_back_later(&self, queue: Option<Arc<str>>, per: Duration) {
        let me = self.me.clone();
        spawn::task(async move {
            tokio::time::sleep(per).await;
            if let (Some(turnstile), Some(queue)) = (me.upgrade(), queue) {
                turnstile.inner().give_back_rate(&queue);
                turnstile.serve();
            }
        });
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Puts somebody behind the others with the same ticket.
    fn wait(&mut self, ticket: Ticket) -> (u64, oneshot::Receiver<Permit>) {
        self.last += 1;
        self.waiting += 1;
        let (grant, granted) = oneshot::channel();
        let number = self.last;
        if let Some(queue) = self.queue_of(&ticket) {
            queue.waiting += 1;
        }
        let lane = self.lanes.entry(ticket.clone()).or_default();
        lane.push_back(Waiter { number, grant });
        if lane.len() == 1 {
            self.turns.add(ticket.priority, ticket);
        }
        (number, granted)
    }

    /// Takes out whoever is next, if anybody may run.
    fn next(&mut self) -> Option<(Ticket, Waiter)> {
        if !self.all.has_room() {
            return None;
        }
        let (workflows, queues) = (&self.workflows, &self.queues);
        let (priority, ticket) = self.turns.take(|_, ticket| has_room(workflows, queues, ticket))?;
        let lane = self.lanes.get_mut(&ticket)?;
        let waiter = lane.pop_front()?;
        if lane.is_empty() {
            self.lanes.remove(&ticket);
        } else {
            self.turns.add(priority, ticket.clone());
        }
        self.waits_no_more(&ticket);
        Some((ticket, waiter))
    }

    /// Whether one with this ticket may run.
    fn may_run(&self, ticket: &Ticket) -> bool {
        self.all.has_room() && has_room(&self.workflows, &self.queues, ticket)
    }

    /// Takes the slots of somebody who runs; tells how long one of a rate is taken.
    fn take(&mut self, ticket: &Ticket) -> Option<Duration> {
        self.all.taken += 1;
        if let Some(slots) = self.workflows.get_mut(&*ticket.workflow) {
            slots.taken += 1;
        }
        let queue = self.queue_of(ticket)?;
        queue.slots.taken += 1;
        let (begun, per) = queue.rate.as_mut()?;
        begun.taken += 1;
        Some(*per)
    }

    fn give_back(&mut self, ticket: &Ticket) {
        self.all.taken -= 1;
        if let Some(slots) = self.workflows.get_mut(&*ticket.workflow) {
            slots.taken -= 1;
        }
        if let Some(queue) = self.queue_of(ticket) {
            queue.slots.taken -= 1;
        }
    }

    fn give_back_rate(&mut self, queue: &str) {
        if let Some((begun, _)) = self.queues.get_mut(queue).and_then(|queue| queue.rate.as_mut()) {
            begun.taken -= 1;
        }
    }

    /// Somebody waits no more, though its turn has not come.
    fn forget(&mut self, ticket: &Ticket, number: u64) {
        let Some(lane) = self.lanes.get_mut(ticket) else { return };
        // Numbers grow along a lane.
        let Ok(at) = lane.binary_search_by_key(&number, |waiter| waiter.number) else {
            return;
        };
        lane.remove(at);
        if lane.is_empty() {
            self.lanes.remove(ticket);
            self.turns.remove(ticket.priority, |lane| lane == ticket);
        }
        self.waits_no_more(ticket);
    }

    /// How many run and wait, of all and of the queue of this ticket.
    fn tally(&mut self, ticket: &Ticket) -> Tally {
        let (running, waiting) = (self.all.taken, self.waiting);
        let queue = self.queue_of(ticket).map(|queue| (queue.slots.taken, queue.waiting));
        let queue = ticket.queue.clone().zip(queue);
        Tally {
            running,
            waiting,
            queue,
        }
    }

    fn waits_no_more(&mut self, ticket: &Ticket) {
        self.waiting -= 1;
        if let Some(queue) = self.queue_of(ticket) {
            queue.waiting -= 1;
        }
    }

    fn queue_of(&mut self, ticket: &Ticket) -> Option<&mut Queue> {
        ticket.queue.as_ref().and_then(|queue| self.queues.get_mut(&**queue))
    }
}

/// Whether a workflow and a queue have room for another one.
fn has_room(workflows: &HashMap<String, Slots>, queues: &HashMap<String, Queue>, ticket: &Ticket) -> bool {
    let workflow = workflows.get(&*ticket.workflow).is_none_or(|slots| slots.has_room());
    let queue = ticket.queue.as_ref().and_then(|queue| queues.get(&**queue));
    workflow && queue.is_none_or(Queue::has_room)
}

/// How many run and wait. Told outside of the lock: whoever hears it is somebody else's code.
struct Tally {
    running: usize,
    waiting: usize,
    queue: Option<(Arc<str>, (usize, usize))>,
}

impl Tally {
    fn tell(self) {
        telemetry::attempts(self.running, self.waiting);
        if let Some((name, (running, waiting))) = self.queue {
            telemetry::queue(&name, running, waiting);
        }
    }
}

/// A place in a lane, given up when dropped.
struct Place<'a> {
    turnstile: &'a Turnstile,
    ticket: Ticket,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.turnstile.inner().forget(&self.ticket, self.number);
    }
}

/// The right to run. Given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    turnstile: Weak<Turnstile>,
    ticket: Ticket,
    /// The time that it counts for a rate, until it has begun to.
    rate: Option<Duration>,
}

impl Permit {
    fn begin(&mut self) -> Option<Duration> {
        self.rate.take()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(turnstile) = self.turnstile.upgrade() {
            let tally = {
                let mut inner = turnstile.inner();
                inner.give_back(&self.ticket);
                // One that was granted and never begun does not count for a rate.
                if let (Some(_), Some(queue)) = (self.rate, &self.ticket.queue) {
                    inner.give_back_rate(queue);
                }
                inner.tally(&self.ticket)
            };
            tally.tell();
            turnstile.serve();
        }
    }
}

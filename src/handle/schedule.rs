//! `runtime.schedule`: has instances started again and again.

mod describe;
mod list;
mod operate;

use std::future::IntoFuture;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::actor::{self, Shared};
use crate::clock::whole_ms;
use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::schedule::{Diary, Order, Outcome, Plan, Schedule as Behind, Terms, schedule_of};
use crate::engine::{CatchUp, IntoWorkflow, Overlap, Workflow};
use crate::handle::exclusive::Decision;
use crate::handle::later::Later;
use crate::handle::look::{self, Seen};
use crate::handle::{AnyHandle, Error, Handle, Result, wait};
use crate::ids::InstanceId;
use crate::storage::payload::Payload;
use crate::storage::record::{Origin, Priority, Secret, Status};
use crate::storage::{self, Refusal};
use crate::timing::{InvalidTiming, Rule, Timing};

pub use describe::ScheduleDescription;
pub use list::{Schedules, SchedulesPage};
pub use operate::{ScheduleHandle, Triggered};

/// The tag by which the instances of a schedule are found.
const TAG: &str = "schedule";

/// A schedule that does not know yet what to start: say so with [`Schedule::starts`].
#[must_use = "nothing is scheduled until it is known what to start"]
pub struct Schedule {
    shared: Arc<Shared>,
    name: String,
    timing: Timing,
}

impl Schedule {
    pub(crate) fn new(shared: Arc<Shared>, name: String, timing: Timing) -> Self {
        Self { shared, name, timing }
    }

    /// Every slot starts an instance of this workflow with this input. Its id is the name of the schedule and the time
    /// of the slot: `nightly-2030-01-01T03:00:00Z`.
    #[expect(clippy::needless_pass_by_value, reason = "what a slot is started with is gone")]
    pub fn starts<As, W: IntoWorkflow<As>>(self, _workflow: W, input: <W::Workflow as Workflow>::Input) -> Scheduling {
        let Self { shared, name, timing } = self;
        Scheduling {
            later: Later::new::<W::Workflow>(&shared, &input),
            shared,
            name,
            timing,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter: Ok(Duration::ZERO),
        }
    }
}

/// A schedule on its way; await it. It is durable when that returns.
#[must_use = "nothing is scheduled until it is awaited"]
pub struct Scheduling {
    shared: Arc<Shared>,
    name: String,
    timing: Timing,
    later: Later,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter: std::result::Result<Duration, InvalidDuration>,
}

impl Scheduling {
    /// What becomes of a slot when the instance of an earlier one has not ended. [`Overlap::Skip`] unless set.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What becomes of slots that were missed. [`CatchUp::One`] unless set.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Lets each slot begin up to so much later than its time, so that many schedules of the same time don't begin at
    /// once. How much follows from the schedule and the slot. It has to be shorter than the time between two slots, or one
    /// would run into the next.
    pub fn jitter(mut self, jitter: impl IntoDuration) -> Self {
        self.jitter = jitter.into_duration();
        self
    }

    /// Gives the instances a tag that listings can filter by. They all have `schedule`, with the name of the schedule.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.later.tag(key, value);
        self
    }

    /// With this version of the code instead of the newest. One that this process does not have is refused.
    pub fn version(mut self, version: u32) -> Self {
        self.later.version(version);
        self
    }

    /// Each instance is to be done within this time; after that it fails.
    pub fn deadline(mut self, deadline: impl IntoDuration) -> Self {
        self.later.deadline(deadline);
        self
    }

    /// With at most so many instances of this key running at once, whoever starts them: each comes to the end of the line when its
    /// slot begins. What waits there has not ended, so [`Overlap`] holds for it as for what runs. See
    /// [`Start::at_most`](crate::Start::at_most).
    pub fn at_most(mut self, limit: u32, key: impl Into<String>) -> Self {
        self.later.at_most(limit, key);
        self
    }

    /// Each goes before or after others that wait for the same place, for all that they do.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.later.priority(priority);
        self
    }

    /// Checks everything that can be wrong.
    fn terms(self) -> Result<(Arc<Shared>, Terms)> {
        let Self { shared, name, .. } = self;
        let rule = self.timing.into_rule()?;
        let jitter_ms = whole_ms(self.jitter?);
        let gap_ms = rule.times()?.shortest_gap_ms(shared.clock.now_ms());
        if let Some(gap_ms) = gap_ms.filter(|gap_ms| jitter_ms >= *gap_ms) {
            let (jitter, gap) = (Duration::from_millis(jitter_ms), Duration::from_millis(gap_ms));
            return Err(InvalidTiming::Jitter { jitter, gap }.into());
        }
        // A slot adds its time to the name, and somebody who triggers one an id.
        InstanceId::new(format!("{name}-{:030}", 0))?;
        schedule_of(&name)?;
        let mut later = self.later;
        later.tag(TAG, name.clone());
        let target = later.check(&shared)?;
        let terms = Terms {
            name,
            rule,
            overlap: self.overlap,
            catch_up: self.catch_up,
            jitter_ms,
            target,
        };
        Ok((shared, terms))
    }
}

impl IntoFuture for Scheduling {
    type Output = Result<Scheduled>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (shared, terms) = self.terms()?;
            let instance = schedule_of(&terms.name)?;
            let handle = ScheduleHandle::new(shared, terms.name.clone(), instance);
            let (existed, changed) = handle.put(&terms).await?;
            Ok(Scheduled {
                handle,
                existed,
                changed,
            })
        })
    }
}

/// A schedule that was made, now or before.
#[derive(Debug, Clone)]
pub struct Scheduled {
    handle: ScheduleHandle,
    existed: bool,
    changed: bool,
}

impl Scheduled {
    /// Whether it was there before.
    pub fn existed(&self) -> bool {
        self.existed
    }

    /// Whether it was there before, and said something else.
    pub fn changed(&self) -> bool {
        self.changed
    }

    /// The handle alone.
    pub fn into_handle(self) -> ScheduleHandle {
        self.handle
    }
}

impl Deref for Scheduled {
    type Target = ScheduleHandle;

    fn deref(&self) -> &ScheduleHandle {
        &self.handle
    }
}

impl ScheduleHandle {
    /// Makes it so, whatever there was before. Tells whether there was something, and whether it was something else.
    async fn put(&self, terms: &Terms) -> Result<(bool, bool)> {
        let AnyHandle { shared, instance } = &self.any;
        loop {
            wait::goes_on(shared)?;
            let now = shared.clock.now_ms();
            let plan = Plan {
                terms: terms.clone(),
                diary: Diary::begin(Some(first(&terms.rule, now)?)),
            };
            let plan = shared.store.codecs().pack(&plan).map_err(storage::Error::from)?;
            let origin = Origin::new(Behind::NAME, Behind::VERSION, now, Secret::draw(&*shared.chance));
            let commit = actor::start_commit(&shared.store, instance, &origin, plan.clone(), None);
            let pending = shared.store.submit(commit).await?;
            match actor::handed_over(shared, pending, begun(instance)).await {
                Ok(_) => return Ok((false, false)),
                Err(storage::Error::Refused(Refusal::Exists)) => {}
                Err(error) => return Err(error.into()),
            }
            // Whatever ends or goes away meanwhile is looked at again.
            let Some(seen) = look::instance(shared, instance)? else {
                continue;
            };
            if !seen.state.status.is_terminal() {
                drop(seen);
                let handle = Handle::<Behind>::new(Arc::clone(shared), instance.clone());
                match handle.ask(Order::Change(Box::new(terms.clone()))).await {
                    Ok(outcome) => return Ok((true, outcome == Outcome::Done)),
                    Err(Error::Finished { .. } | Error::Unanswered(_) | Error::Unknown(_) | Error::Deleted(_)) => {}
                    Err(error) => return Err(error),
                }
            } else if seen.state.status == Status::Completed && self.said_the_same(&seen, terms)? {
                return Ok((true, false));
            } else {
                drop(seen);
                if self.begin_anew(origin, plan).await? {
                    return Ok((true, true));
                }
            }
        }
    }

    /// Whether a schedule whose slots are over had said the same.
    fn said_the_same(&self, seen: &Seen, terms: &Terms) -> Result<bool> {
        let before: Plan = self.any.unpack(&seen.input)?;
        let codecs = self.any.shared.store.codecs();
        let same = before.terms.say_the_same(terms, codecs);
        Ok(same.map_err(storage::Error::from)?)
    }

    /// Begins a schedule whose slots are over with other terms. Tells whether they still were over.
    async fn begin_anew(&self, origin: Origin, plan: Payload) -> Result<bool> {
        let renewed = self.any.alone(move |any, seen, now| {
            if !seen.state.status.is_terminal() {
                return Ok(Decision::Leave(false));
            }
            // Where its listing row lies stays.
            let origin = Origin {
                created_at_ms: seen.origin.created_at_ms,
                ..origin.clone()
            };
            let (plan, times) = (plan.clone(), (now, None));
            let namespace = any.namespace();
            let commit = actor::new_run_commit(&namespace, &*seen.snapshot, &origin, &seen.state, plan, times)?;
            Ok(Decision::write(commit, true))
        });
        match renewed.await {
            Err(Error::Unknown(_) | Error::Deleted(_)) => Ok(false),
            renewed => renewed,
        }
    }
}

/// Tells that there is a schedule.
fn begun(instance: &InstanceId) -> impl FnOnce(&Arc<Shared>) + Send + 'static {
    let instance = instance.clone();
    move |shared| {
        shared.directory.wake(&instance);
        shared.changes.tell(&instance);
    }
}

/// The first slot of a rule. One that has none any more is a mistake.
fn first(rule: &Rule, now: crate::clock::Millis) -> Result<crate::clock::Millis> {
    let over = || InvalidTiming::Cron {
        text: rule.to_string(),
        reason: "it never comes again".to_owned(),
    };
    Ok(rule.times()?.first(now).ok_or_else(over)?)
}

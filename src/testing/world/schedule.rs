//! Schedules in a world, and processes that are not there when a slot comes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::World;
use crate::actor;
use crate::clock::{Clock, Millis};
use crate::engine::schedule::{Diary, Plan, Schedule, Terms, schedule_of};
use crate::engine::target::Target;
use crate::engine::{CatchUp, Overlap, Workflow};
use crate::storage::record::{Flow, Origin};
use crate::timing::Timing;

impl World {
    /// Begins a schedule that starts instances of a workflow.
    ///
    /// ```
    /// # use everstep::testing::rig::Plan;
    /// # use everstep::testing::world::World;
    /// # use everstep::{CatchUp, Ctx, Every, Overlap, Result, Workflow, ok};
    /// # use std::time::Duration;
    /// # struct Tidy; impl Workflow for Tidy {
    /// #     const NAME: &'static str = "tidy"; type Input = (); type Output = ();
    /// #     async fn run(_: Ctx<Self>, _: ()) -> Result<()> { ok(()) } }
    /// let mut world = World::new(Plan::Live, 1).workflow(Tidy);
    /// world.schedule(Tidy, "tidy", Every::new("1h"), (Overlap::Skip, CatchUp::One), &());
    /// world.be_down_for(Duration::from_secs(5 * 3600));
    /// world.run_for(Duration::from_secs(60))?;
    /// assert!(world.instances().contains(&"tidy-2030-01-01T05:00:00Z".to_owned()), "the newest of five");
    /// # Ok::<(), everstep::Divergence>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If there are no such times.
    pub fn schedule<W: Workflow>(
        &mut self,
        _workflow: W,
        name: &str,
        timing: impl Into<Timing>,
        (overlap, catch_up): (Overlap, CatchUp),
        input: &W::Input,
    ) {
        let now = self.clock.now_ms();
        let rule = timing.into().into_rule().expect("times for a test");
        let first = rule.times().expect("they were read").first(now);
        let codecs = self.store.codecs();
        let target = Target {
            workflow: W::NAME.to_owned(),
            version: W::VERSION,
            input: codecs.pack(input).expect("the input can be stored"),
            tags: Vec::new(),
            deadline: None,
            flow: Flow::default(),
        };
        let terms = Terms {
            name: name.to_owned(),
            rule,
            overlap,
            catch_up,
            jitter_ms: 0,
            target,
        };
        let diary = Diary::begin(first);
        let plan = codecs.pack(&Plan { terms, diary }).expect("a plan can be stored");
        let instance = schedule_of(name).expect("a name for a test");
        let secret = xxh3_64_with_seed(name.as_bytes(), self.seed);
        let origin = Origin::new(Schedule::NAME, Schedule::VERSION, now, secret);
        let commit = actor::start_commit(&self.store, &instance, &origin, plan, None);
        self.outside(&instance, |_| commit);
    }

    /// No process is there for this long.
    pub fn be_down_for(&mut self, duration: Duration) {
        self.residents.clear();
        self.woken.clear();
        let millis = Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX);
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }
}

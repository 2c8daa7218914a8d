//! Running the code again, to see whether it does the same.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::trace::{HINT, Surprise, Trace};
use super::{Harness, Mode, instances};
use crate::actor::load_instance;
use crate::engine::{AskedFor, Attempting, Call, CallSite, Definition, Divergence, Execution, Witness, panic_text};
use crate::ids::InstanceId;
use crate::runtime::Builder;
use crate::storage::Store;
use crate::storage::record::Status;

/// How often each history is gone through: what is drawn from two possibilities differs in one of them mostly.
const REPLAYS: u32 = 4;

/// Compares what the code asks for with what it asked for first.
#[derive(Debug)]
struct Again(Mutex<Trace>);

impl Witness for Again {
    fn asked(&self, asked: AskedFor) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).asked(asked);
    }

    fn stands_in(&self, _: &Call) -> bool {
        false
    }

    fn begin(&self, _: Call) -> Option<Attempting> {
        None
    }
}

impl Again {
    fn surprise(&self) -> Option<Surprise> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).surprise()
    }
}

impl Harness {
    /// Plays a script with every activation run again, to find code that is not deterministic: whenever the instances
    /// rest, the code of each is run through its history several times, beside; then the script is played once more
    /// with everyone dropped from memory at every rest. What the code asks for, with all that it says about it, and what
    /// the script returns must be the same.
    ///
    /// It finds what differs between two runs in the same second: chance, addresses, the order of a `HashMap`. Code that
    /// decides by the date does the same twice; there is no substitute for [`Ctx::now`](crate::Ctx::now).
    ///
    /// ```should_panic
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn trial(ctx: Ctx<Trial>) -> Result<()> {
    ///     // Two runs draw different numbers. `ctx.random()` gives both the same.
    ///     let drawn = std::collections::hash_map::RandomState::new();
    ///     let pause = std::hash::BuildHasher::hash_one(&drawn, 1) % 1_000;
    ///     ok(ctx.sleep("pause", std::time::Duration::from_secs(pause)).await?)
    /// }
    /// Harness::new(Runtime::builder().workflow(trial)).double_run(|h| h.start(trial, ()).run_until_complete());
    /// ```
    ///
    /// # Panics
    ///
    /// If there is a difference, with the place, what was asked for first and then, and where in the code.
    #[track_caller]
    pub fn double_run<T: PartialEq + Debug>(&self, script: impl Fn(&Self) -> T) -> T {
        let expected = script(&self.afresh(Mode::Replays));
        let evicted = self.afresh(Mode::Evicts);
        let found = catch_unwind(AssertUnwindSafe(|| script(&evicted)));
        evicted.expect_no_surprise();
        match found {
            Ok(found) => assert!(
                found == expected,
                "being dropped from memory made a difference\nexpected: {expected:?}\n   found: {found:?}\n{}",
                evicted.report()
            ),
            Err(panic) => panic!(
                "dropped from memory at every rest, the script panicked: {}",
                panic_text(&*panic)
            ),
        }
        expected
    }

    /// Runs the code of every instance through its history, beside, and writes nothing.
    pub(super) fn replay_beside(&self) {
        let whole = self.inner.calls.traced().whole();
        let again = Arc::new(Again(Mutex::new(whole)));
        let witness: Arc<dyn Witness> = Arc::<Again>::clone(&again);
        let diverged = self.living(|life| {
            life.run(async {
                let store = life.runtime().store();
                let ids = instances(store);
                let instances = ids.iter().filter_map(|id| InstanceId::new(id.as_str()).ok());
                let mut instances = instances.filter(|instance| status(store, instance) != Some(Status::Pending));
                instances.find_map(|instance| {
                    let mut replays = (0..REPLAYS).map(|_| replay(store, &self.inner.builder, &instance, &witness));
                    let diverged = replays.find_map(Result::err)?;
                    Some((instance, diverged))
                })
            })
        });
        if let Some(surprise) = again.surprise() {
            panic!("{surprise}");
        }
        if let Some((instance, refused)) = diverged {
            panic!("the code of `{instance}` did something else when it was run again: {refused}\n{HINT}");
        }
        self.expect_no_surprise();
    }

    fn expect_no_surprise(&self) {
        if let Some(surprise) = self.inner.calls.surprise() {
            panic!("{surprise}");
        }
    }
}

/// Something that the code of an instance waits for.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) path: String,
    pub(super) kind: &'static str,
    pub(super) call_site: CallSite,
}

/// Why a history could not be gone through.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// The code does not fit it.
    #[error(transparent)]
    Diverged(#[from] Divergence),
    /// There is no code for it.
    #[error("no workflow `{0}` is registered")]
    Unregistered(String),
    /// It can't be read.
    #[error("{0}")]
    Unreadable(String),
}

fn status(store: &Store, instance: &InstanceId) -> Option<Status> {
    let namespace = store.namespace(instance);
    let snapshot = store.snapshot(namespace.shard()).ok()?;
    let loaded = load_instance(&namespace, &*snapshot).ok()?;
    loaded.map(|loaded| loaded.state.status)
}

/// Runs today's code of an instance through its history, also if it has ended, and writes nothing.
pub(super) fn replay(
    store: &Store,
    builder: &Builder,
    instance: &InstanceId,
    witness: &Arc<dyn Witness>,
) -> Result<Vec<Wait>, Refused> {
    let namespace = store.namespace(instance);
    let unreadable = |error: crate::storage::Error| Refused::Unreadable(error.to_string());
    let snapshot = store.snapshot(namespace.shard()).map_err(unreadable)?;
    let Some(loaded) = load_instance(&namespace, &*snapshot).map_err(unreadable)? else {
        return Err(Refused::Unreadable(format!("there is no instance `{instance}`")));
    };
    let workflow = &loaded.origin.workflow;
    let Some(definition) = builder.definitions().get(workflow.as_str()) else {
        return Err(Refused::Unregistered(workflow.clone()));
    };
    let definition = Definition {
        witness: Some(Arc::clone(witness)),
        ..definition.clone()
    };
    let codecs = store.codecs().clone();
    let bounds = builder.bounds(&definition);
    let mut execution = Execution::new(namespace, loaded, &definition, codecs, bounds);
    execution.advance()?;
    let waits = execution.waits_for().into_iter();
    let waits = waits.map(|(path, kind, call_site)| Wait { path, kind, call_site });
    Ok(waits.collect())
}

/// What the code of an instance waits for, as far as that can be told.
pub(super) fn waits(store: &Store, builder: &Builder, instance: &InstanceId) -> Vec<Wait> {
    let over = |status: Status| status.is_terminal() || status == Status::Pending;
    if status(store, instance).is_none_or(over) {
        return Vec::new();
    }
    let witness: Arc<dyn Witness> = Arc::new(Nobody);
    replay(store, builder, instance, &witness).unwrap_or_default()
}

/// Sees nothing.
#[derive(Debug)]
pub(super) struct Nobody;

impl Witness for Nobody {
    fn asked(&self, _: AskedFor) {}

    fn stands_in(&self, _: &Call) -> bool {
        false
    }

    fn begin(&self, _: Call) -> Option<Attempting> {
        None
    }
}

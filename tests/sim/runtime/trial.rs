//! Workflows that fail in every way, one for each thing that may follow: another run, an undoing, the failure of the
//! parent, nothing, quarantine, and what follows a panic of which nobody has said what follows.
//!
//! They do little, so it is known before they begin how they have to end: `ledger/trials.rs`.

use std::time::Duration;

use everstep::{Attempt, Ctx, Policy, Result, Strategy, Workflow, WorkflowError, ok};
use serde::{Deserialize, Serialize};

use super::ledger::{self, Place};
use crate::chance::Chance;

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Two more runs.
    Retried,
    Cascades,
    Ignored,
    Quarantined,
    /// Nobody said what.
    Plain,
}

/// What an instance is told to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) kind: Kind,
    /// Steps that can be undone, before its child and behind it.
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) child: Option<Box<Trial>>,
    /// The failure of the child is caught.
    pub(crate) catches: bool,
    pub(crate) panics: bool,
    /// So many times.
    pub(crate) fails: u32,
}

impl Trial {
    pub(crate) fn draw(chance: &mut Chance) -> Self {
        Self::nested(chance, 2)
    }

    fn nested(chance: &mut Chance, depth: u32) -> Self {
        let kinds = [
            Kind::Retried,
            Kind::Cascades,
            Kind::Ignored,
            Kind::Quarantined,
            Kind::Plain,
        ];
        let kind = kinds[chance.below(5) as usize];
        let child = (depth > 0 && chance.once_in(2)).then(|| Box::new(Self::nested(chance, depth - 1)));
        // A failure that another look at it does not mend keeps whoever is put aside for it where it is.
        let waits = matches!(kind, Kind::Quarantined) && child.as_ref().is_some_and(|child| child.reaches_up());
        Self {
            kind,
            before: chance.below(3) as u32,
            after: chance.below(2) as u32,
            child: child.filter(|_| !waits),
            catches: kind == Kind::Quarantined || chance.once_in(2),
            panics: chance.once_in(2),
            fails: [0, 1, 1, 2, 3, 5][chance.below(6) as usize],
        }
    }

    /// Whether its failure is that of its parent, whatever the parent does.
    fn reaches_up(&self) -> bool {
        self.kind == Kind::Cascades && self.fails_for_good()
    }

    /// Whether it completes when somebody releases it as often as it takes.
    pub(crate) fn fails_for_good(&self) -> bool {
        let child = self.child.as_ref().is_some_and(|child| {
            let heard = child.fails_for_good() && child.kind != Kind::Ignored;
            child.reaches_up() || (heard && !self.catches)
        });
        child
            || match self.kind {
                Kind::Retried => self.fails > 2,
                Kind::Cascades | Kind::Ignored => self.fails > 0,
                Kind::Quarantined => false,
                Kind::Plain => self.fails > 0 && !self.panics,
            }
    }

    /// Whether it may be put aside.
    pub(crate) fn may_be_put_aside(&self) -> bool {
        match self.kind {
            Kind::Quarantined => self.fails > 0,
            Kind::Plain => self.panics && self.fails > 0,
            _ => false,
        }
    }

    /// Whether each run begins from the start.
    pub(crate) fn begins_anew(&self) -> bool {
        self.kind == Kind::Retried
    }
}

macro_rules! kinds {
    ($($kind:ident, $name:literal, $policy:expr;)+) => {
        $(
            pub(crate) struct $kind;

            impl Workflow for $kind {
                const NAME: &'static str = $name;
                type Input = Trial;
                type Output = Option<String>;

                fn policy() -> Policy {
                    $policy
                }

                async fn run(ctx: Ctx<Self>, trial: Trial) -> Result<Option<String>> {
                    undergo(ctx, trial).await
                }
            }
        )+

        /// Another instance, awaited.
        async fn bear<W: Workflow>(ctx: &Ctx<W>, child: Trial) -> Result<Option<String>> {
            Ok(match child.kind {
                $(Kind::$kind => ctx.child($kind, child).await?,)+
            })
        }

        /// Starts an instance from outside.
        pub(crate) async fn start(runtime: &everstep::Runtime, id: &str, trial: Trial) -> Result<bool, everstep::Error> {
            Ok(match trial.kind {
                $(Kind::$kind => runtime.start($kind, trial).id(id).await?.existed(),)+
            })
        }

        /// With all of these workflows.
        pub(crate) fn registered(builder: everstep::Builder) -> everstep::Builder {
            builder$(.workflow($kind))+
        }
    };
}

kinds! {
    Retried, "retried", Policy::new().retries(2).delay("1s");
    Cascades, "cascades", Policy::new().strategy(Strategy::Cascade);
    Ignored, "ignored", Policy::new().strategy(Strategy::Ignore);
    Quarantined, "quarantined", Policy::new().strategy(Strategy::Quarantine);
    Plain, "plain", Policy::new();
}

async fn undergo<W: Workflow>(ctx: Ctx<W>, trial: Trial) -> Result<Option<String>> {
    let (id, run) = (ctx.id().to_string(), ctx.run_number());
    ledger::with(|ledger| ledger.undergoes(&id, run, &trial));
    // Where a run goes on from the one before it, what that did is not done again.
    let life = if trial.begins_anew() { run } else { 0 };
    for number in 0..trial.before {
        labour(&ctx, &id, life, format!("b{number}")).await?;
    }
    if let Some(child) = trial.child.as_deref() {
        let outcome = bear(&ctx, child.clone()).await;
        let said = outcome.as_ref().map_err(ToString::to_string).cloned();
        ledger::with(|ledger| ledger.child_ended(&id, child, &said));
        if let Err(error) = outcome
            && !trial.catches
        {
            ledger::with(|ledger| ledger.trial_fails(&id, run));
            return Err(error);
        }
    }
    for number in 0..trial.after {
        labour(&ctx, &id, life, format!("a{number}")).await?;
    }
    if ledger::with(|ledger| ledger.trial_goes_wrong(&id, run, &trial)) {
        assert!(!trial.panics, "planned");
        return Err(WorkflowError::msg("it goes wrong"));
    }
    ok(Some(id))
}

/// A step that can be undone.
async fn labour<W: Workflow>(ctx: &Ctx<W>, id: &str, life: u32, name: String) -> Result<()> {
    let place = Place {
        instance: id.to_owned(),
        path: format!("{id}/{life}/{name}"),
    };
    ledger::with(|ledger| ledger.asks(&place));
    let (doing, undoing) = (place.clone(), place.clone());
    let work = move |attempt: Attempt| {
        let place = doing.clone();
        async move {
            let key = attempt.idempotency_key();
            let value = ledger::with(|ledger| ledger.executes(&place, (attempt.number(), true), key));
            tokio::time::sleep(Duration::from_millis(5)).await;
            ok(value)
        }
    };
    let undo = move |value: String, attempt: Attempt| {
        let place = undoing.clone();
        async move {
            ledger::with(|ledger| ledger.undoes(&place, &value, attempt.number()));
            tokio::time::sleep(Duration::from_millis(5)).await;
            ledger::with(|ledger| ledger.has_undone(&place));
            ok(())
        }
    };
    let done = ctx.step(&name, work).rollback(undo).await;
    let said = done.as_ref().map_err(ToString::to_string);
    ledger::with(|ledger| {
        // One that was cut short, because a child takes its parent with it, is nobody's result.
        if said.is_ok() {
            ledger.saw_result(&place, said, true);
        } else {
            ledger.trial_fails(id, life);
        }
    });
    done?;
    ok(())
}

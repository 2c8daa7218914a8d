//! The whole runtime: random programs, random callers, a machine that dies.
//!
//! The real runtime, actors, alarms, engine, store and committer run in one thread, in virtual time. `case.rs` has
//! what a seed decides, `program.rs` and `interpreter.rs` what instances do, `client.rs` what callers do, who ask again
//! when the machine died before it answered. `ledger.rs` has what was seen and must be seen again, `inspect.rs`
//! compares it with what is stored, `world.rs` has the lives of the machine, `finish.rs` their end. `trial.rs` has
//! workflows that fail, `chore.rs` those that schedules and batches are for. A case that fails is made smaller by
//! `shrink.rs`; `mutation.rs` has bugs that are put in to see that they are found.

mod case;
mod chore;
mod client;
mod finish;
mod found;
mod inspect;
mod interpreter;
mod ledger;
mod machine;
mod mutation;
mod program;
mod shrink;
mod trial;
mod world;

use crate::seeds;
use case::Case;
use machine::Odds;
use mutation::Mutation;
use world::World;

const SEEDS: u64 = 1000;

/// Within how many seeds a bug has to be found.
const SEEDS_TO_FIND: u64 = 100;

#[test]
fn everything_that_was_acknowledged_is_there_and_everything_ends() {
    hush();
    seeds::run(
        SEEDS,
        |seed| play(&Case::draw(seed), None),
        |seed, said| {
            let fails = |case: &Case| play(case, None).err();
            let (case, smaller) = shrink::shrink(Case::draw(seed), said, fails);
            format!("{smaller}\n\nThis is enough to see it:\n{}", shrink::told(&case))
        },
    );
}

/// Every bug that is put in on purpose is found, within so many seeds: by the ledger, which knows nothing of stores. That
/// the store finds fault with itself, or that something panics, is not enough.
#[test]
fn the_simulation_finds_bugs() {
    hush();
    for mutation in Mutation::ALL {
        let found = seeds::first(SEEDS_TO_FIND, |seed| judge(&Case::draw(seed), mutation));
        let (seed, said) = found.unwrap_or_else(|| panic!("{mutation:?} was not found within {SEEDS_TO_FIND} seeds"));
        println!(
            "{mutation:?} is found by seed {seed}: {}",
            said.lines().last().unwrap_or_default()
        );
    }
}

/// A case that fails is made smaller, and the smaller one fails too.
#[test]
fn a_case_that_fails_is_made_smaller() {
    hush();
    let fails = |case: &Case| play(case, Some(Mutation::ForgetsResults)).err();
    let find = |seed: u64| fails(&Case::draw(seed)).map(|said| (seed, said));
    let (seed, said) = (0..SEEDS_TO_FIND).find_map(find).unwrap();
    let (small, _) = shrink::shrink(Case::draw(seed), said, fails);
    assert!(fails(&small).is_some());
    let acts: usize = small.clients.iter().map(Vec::len).sum();
    assert!(acts <= 3 && small.lives.len() <= 3, "{}", shrink::told(&small));
}

/// Plays a case: its trace, or what went wrong.
fn play(case: &Case, mutation: Option<Mutation>) -> Result<Vec<String>, String> {
    seeds::caught(|| World::new(case, mutation).run())?
}

/// What the ledger has to say of a case that is played with a bug, if it has anything to say.
fn judge(case: &Case, mutation: Mutation) -> Option<String> {
    let played = seeds::caught(|| World::new(case, Some(mutation)).unverified().run());
    // A panic ends the case: what was seen before it counts, and the panic does not.
    let verdict = played.unwrap_or_else(|_| ledger::with(|ledger| ledger.verdict()).map(|()| Vec::new()));
    verdict.err()
}

/// Somebody who goes round in circles keeps a seed from ending, and nobody would know which one it is.
#[test]
fn whoever_goes_round_in_circles_is_told_on() {
    hush();
    let played = seeds::caught(|| World::new(&Case::draw(0), None).commits_max(10).run());
    let said = played.unwrap().unwrap_err();
    assert!(said.contains("somebody goes round in circles: 11 commits"), "{said}");
}

/// Tasks that are ready take their turns in an order that is drawn: another order is another trace, the same draws are the
/// same order.
#[test]
fn the_order_of_tasks_follows_from_the_seed() {
    hush();
    let in_order = |turns: u64| {
        let mut case = Case::draw(0);
        for life in &mut case.lives {
            life.odds = Odds {
                turns,
                ..Odds::default()
            };
        }
        play(&case, None).unwrap()
    };
    assert_eq!(in_order(4), in_order(4));
    assert_ne!(in_order(0), in_order(4));
}

/// Panics that are planned are not printed, nor are those that are reported in another way.
fn hush() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let planned = panic.payload().downcast_ref::<&str>() == Some(&"planned");
            if !planned && !seeds::is_quiet() {
                before(panic);
            }
        }));
    });
}

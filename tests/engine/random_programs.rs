//! Random programs of the verbs, against a model that knows no journal, no commit and no replay.
//!
//! The model computes by arithmetic what a program comes to: when each part begins and ends, what it gives, which
//! messages it takes and how many attempts are made. The engine must come to the same, staying in memory, dropped from
//! memory at every rest, and with a crash before and after every commit. (Sagas, and native combinators, have random
//! tests of their own.)

mod model;
mod program;

use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig};
use program::{Interpreter, News, Node, nodes};
use proptest::prelude::*;

/// What came of a program: its trace, or its failure as text; when; and how many messages it left.
#[derive(Debug, PartialEq)]
struct Outcome {
    end: Option<Result<Vec<String>, String>>,
    at_ms: u64,
    unread: usize,
}

fn play(rig: &mut Rig<Interpreter>, node: &Node, arrivals: &[u64]) -> Outcome {
    let begin = rig.now_ms();
    rig.start("i", node);
    for (number, after) in (0..).zip(arrivals) {
        rig.send_after("i", Duration::from_millis(*after), &News(number));
    }
    let end = match rig.run("i").unwrap() {
        End::Completed(trace) => Some(Ok(trace)),
        End::Failed(failure) => Some(Err(format!("{:?}", failure.kind))),
        End::Waiting => None,
    };
    Outcome {
        at_ms: if end.is_some() { rig.now_ms() - begin } else { 0 },
        end,
        unread: rig.inbox_len("i"),
    }
}

/// What the model says, unless two things happen at the same time whose order decides.
fn expected(node: &Node, arrivals: &[u64]) -> Option<(Outcome, usize)> {
    let ran = model::run(node, 0, 0, arrivals);
    if ran.tie {
        return None;
    }
    let over = ran.ended.as_ref().map_or(u64::MAX, |(at, _)| *at);
    // What comes after the end is not told any more.
    let told = arrivals.iter().filter(|at| **at <= over).count();
    if arrivals.contains(&over) {
        return None;
    }
    let outcome = Outcome {
        at_ms: ran.ended.as_ref().map_or(0, |(at, _)| *at),
        end: ran.ended.map(|(_, result)| result),
        unread: told - ran.taken.len(),
    };
    Some((outcome, ran.attempts.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// BEHAVIOUR 1 to 4, 9, 14 to 18, 21 to 29, 47, 50 and 54, all at once.
    #[test]
    fn every_mode_comes_to_what_the_model_says(
        node in nodes(),
        arrivals in prop::collection::btree_set(1..200_000_u64, 0..5),
        seed in any::<u64>(),
    ) {
        let arrivals: Vec<u64> = arrivals.into_iter().collect();
        let Some((expected, attempts)) = expected(&node, &arrivals) else {
            return Ok(());
        };
        let mut live = Rig::<Interpreter>::new(Plan::Live, seed).audited();
        program::take_calls();
        let found = play(&mut live, &node, &arrivals);
        prop_assert_eq!(&found, &expected, "staying in memory, seed {}", seed);
        prop_assert_eq!(program::take_calls(), attempts, "every attempt is made once, seed {}", seed);
        let crashes = (1..=live.commits()).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
        for plan in std::iter::once(Plan::Evict).chain(crashes) {
            let mut rig = Rig::<Interpreter>::new(plan, seed);
            program::take_calls();
            let found = play(&mut rig, &node, &arrivals);
            prop_assert_eq!(&found, &expected, "{:?}, seed {}", plan, seed);
            let calls = program::take_calls();
            prop_assert!(calls >= attempts, "{:?}, seed {}: an attempt is missing", plan, seed);
            if plan == Plan::Evict {
                prop_assert_eq!(calls, attempts, "nothing is done again, seed {}", seed);
            }
            for (life, path, _) in rig.attempts_begun() {
                let recorded = rig.at_crash().get(path).is_some_and(|entry| entry.completed.is_some());
                prop_assert!(!recorded || *life == 1, "{}, {:?}, seed {}: its result was recorded", path, plan, seed);
            }
            if let Some(Ok(trace)) = &expected.end {
                let replayed = rig.replay("i").unwrap();
                prop_assert_eq!(replayed, Some(End::Completed(trace.clone())), "replayed, {:?}, seed {}", plan, seed);
            }
        }
    }
}

/// The programs are worth the name: few are passed over, and every verb is met often, in programs that end well, end
/// badly and never end.
#[test]
fn the_programs_are_of_every_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut passed_over, mut ends) = (0, [0; 3]);
    let mut met = std::collections::BTreeMap::new();
    for number in 0..400 {
        let node = nodes().new_tree(&mut runner).unwrap().current();
        node.count(&mut met);
        match expected(&node, &[1_000, 50_000][..number % 3]) {
            None => passed_over += 1,
            Some((outcome, _)) => match outcome.end {
                Some(Ok(_)) => ends[0] += 1,
                Some(Err(_)) => ends[1] += 1,
                None => ends[2] += 1,
            },
        }
    }
    assert!(passed_over < 40, "{passed_over} of 400 depend on what comes first");
    assert!(ends.iter().all(|count| *count > 10), "{ends:?}");
    assert_eq!(met.len(), 12, "{met:?}");
    assert!(met.values().all(|count| *count > 40), "{met:?}");
}

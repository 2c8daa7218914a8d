//! FAULTS 47: programs of native combinators replay to the same outcome.
//!
//! Random trees of `join!`, `try_join!`, `select!`, `FuturesUnordered` and the verbs of the context, over steps that
//! succeed, fail and are tried again, sleeps, and waits for messages that come at random times. A program that waits
//! for a message that never comes is cancelled, which has to replay like everything else.
//!
//! What is promised differs with what can be known. If no two things happen at the same time, then nothing that a
//! crash could reorder happens at all, and every mode has to give the same trace and the same history. If they do,
//! a crash before a commit may let them fall into commits differently; but what is recorded stays, and whatever came
//! of it is what its own history replays to.

mod program;

use std::collections::BTreeMap;
use std::time::Duration;

use everstep::storage::record::{Completed, EntryKind};
use everstep::testing::rig::{End, Plan, Rig};
use program::{Interpreter, News, Program, programs};
use proptest::prelude::*;

/// Far more points in time than a program has events.
const MANY: u64 = 1_000_000_000;

type Outcome = (End<Vec<String>>, BTreeMap<String, (Option<Completed>, EntryKind)>);

/// A program, when it is sent messages, and when it is cancelled.
type Case = (Program, Vec<u64>, Option<u64>);

fn play(rig: &mut Rig<Interpreter>, (program, messages, cancel): &Case) -> Outcome {
    rig.start("i", program);
    if let Some(after) = cancel {
        rig.cancel_after("i", Duration::from_millis(*after), "now");
    }
    for (number, after) in (1..).zip(messages) {
        rig.send_after("i", Duration::from_millis(*after), &News(number));
    }
    let mut end = rig.run("i").unwrap();
    if end == End::Waiting {
        rig.cancel("i", "enough");
        end = rig.run("i").unwrap();
    }
    let entries = rig.history("i").into_iter();
    // What the code came to, also if it was cancelled and that is dropped.
    let trace = rig.published("i", "trace").map(End::Completed);
    (
        trace.unwrap_or(end),
        entries
            .map(|(path, entry)| (path, (entry.completed, entry.kind)))
            .collect(),
    )
}

fn plans(commits: u64) -> impl Iterator<Item = Plan> {
    let crashes = (1..=commits).flat_map(|commit| [Plan::CrashBefore(commit), Plan::CrashAfter(commit)]);
    [Plan::Live, Plan::Evict].into_iter().chain(crashes)
}

fn cases(points: u64, apart: u64, biased: bool) -> impl Strategy<Value = Case> {
    let program = programs(points, apart).prop_map(move |node| Program { node, biased });
    let time = || (1..=points).prop_map(move |point| point * apart);
    let messages = prop::collection::vec(time(), 0..4);
    (program, messages, prop::option::weighted(0.3, time()))
}

fn rig(plan: Plan, seed: u64, points: u64, apart: u64) -> Rig<Interpreter> {
    Rig::new(plan, seed).spread(points, Duration::from_millis(apart))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// One thing at a time: every mode gives the same trace and the same history, and replay writes nothing.
    #[test]
    fn every_mode_gives_the_same_trace(case in cases(MANY, 1, true), seed in any::<u64>()) {
        let mut live = rig(Plan::Live, seed, MANY, 1).audited();
        let expected = play(&mut live, &case);
        let replayed = live.replay("i").unwrap();
        prop_assert_eq!(replayed.as_ref(), Some(&expected.0), "replayed, seed {}", seed);
        for plan in plans(live.commits()) {
            let found = play(&mut rig(plan, seed, MANY, 1), &case);
            prop_assert_eq!(&found.0, &expected.0, "{:?}, seed {}", plan, seed);
            prop_assert_eq!(&found.1, &expected.1, "{:?}, seed {}", plan, seed);
        }
    }

    /// Many things at once: what was recorded at a crash stays, and the end is what the history replays to.
    #[test]
    fn what_is_recorded_stays_and_replays_to_what_came_of_it(case in cases(3, 1_000, false), seed in any::<u64>()) {
        let mut live = rig(Plan::Live, seed, 3, 1_000).audited();
        play(&mut live, &case);
        for plan in plans(live.commits()) {
            let mut rig = rig(plan, seed, 3, 1_000);
            let (end, history) = play(&mut rig, &case);
            for again in 0..2 {
                let replayed = rig.replay("i").unwrap();
                prop_assert_eq!(replayed.as_ref(), Some(&end), "{:?}, seed {}, replay {}", plan, seed, again);
            }
            for (path, entry) in rig.at_crash() {
                let trimmed = path.contains('~') && !history.contains_key(path);
                if let Some(completed) = entry.completed.filter(|_| !trimmed) {
                    let expected = (Some(completed), entry.kind.clone());
                    prop_assert_eq!(history.get(path), Some(&expected), "{} after {:?}, seed {}", path, plan, seed);
                }
            }
        }
    }
}

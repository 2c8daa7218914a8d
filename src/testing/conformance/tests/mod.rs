//! The proof of the proof: a good engine passes every case, and every case fails for some engine that deserves it.

mod bent;
mod owning;
mod reading;
mod reopening;
mod writing;

use std::sync::Arc;

use bent::{Defect, Good, Stores, good};

use super::{Candidate, Subject, cases, check, run, run_case};
use crate::storage::engine::Engine;
use crate::testing::faulty::{Faulty, Plan};

/// Every named case must fail, with words.
fn caught(defects: Vec<Defect>) {
    for defect in defects {
        for case in defect.cases {
            let failure = run_case(defect.candidate.as_ref(), case);
            let failure = failure.expect_err(&format!("{} passed {case}", defect.name));
            assert_eq!(failure.case, *case);
            assert!(
                failure.what.len() > 10,
                "{} failed {case} without words: {failure}",
                defect.name
            );
        }
    }
}

#[test]
fn a_good_engine_passes() {
    run(&Stores::<Good>::default());
}

/// A plan by which nothing goes wrong changes nothing, also while commits are held back.
#[test]
fn a_faulty_engine_without_faults_passes() {
    struct Faultless;
    struct Wrapped(Arc<dyn Engine>);
    impl Candidate for Faultless {
        fn fresh(&self) -> Box<dyn Subject> {
            Box::new(Wrapped(good()))
        }
    }
    impl Subject for Wrapped {
        fn open(&self) -> Arc<dyn Engine> {
            let plan = Plan::new();
            plan.hold_back();
            Arc::new(Faulty::new(Arc::clone(&self.0), plan))
        }
    }
    run(&Faultless);
}

#[test]
fn bad_reading_is_caught() {
    caught(reading::defects());
}

#[test]
fn bad_writing_is_caught() {
    caught(writing::defects());
}

#[test]
fn bad_owning_is_caught() {
    caught(owning::defects());
}

#[test]
fn bad_reopening_is_caught() {
    caught(reopening::defects());
}

/// A case that no defect fails proves nothing.
#[test]
fn no_case_is_idle() {
    let defects: Vec<Defect> = [
        reading::defects(),
        writing::defects(),
        owning::defects(),
        reopening::defects(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let idle: Vec<&str> = cases()
        .into_iter()
        .filter(|case| !defects.iter().any(|defect| defect.cases.contains(case)))
        .collect();
    assert!(idle.is_empty(), "no defect is caught by {idle:?}");
}

#[test]
fn names_are_different() {
    let mut names = cases();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), cases().len());
}

/// An engine that is lost at every open fails only where it is opened twice, and not at all when it says so.
#[test]
fn cases_about_reopening_are_left_out_for_an_engine_that_does_not_last() {
    struct Fleeting(bool);
    impl Candidate for Fleeting {
        fn fresh(&self) -> Box<dyn Subject> {
            Box::new(Self(self.0))
        }
        fn durable(&self) -> bool {
            self.0
        }
    }
    impl Subject for Fleeting {
        fn open(&self) -> Arc<dyn Engine> {
            good()
        }
    }
    let failed = check(&Fleeting(true));
    assert!(
        !failed.is_empty() && failed.iter().all(|failure| failure.case.starts_with("reopen::")),
        "{failed:?}"
    );
    assert_eq!(check(&Fleeting(false)), []);
}

/// An engine that panics fails its case, and the list names it among the others.
#[test]
fn a_panic_is_a_failure_with_its_text() {
    struct Broken;
    impl Candidate for Broken {
        fn fresh(&self) -> Box<dyn Subject> {
            Box::new(Self)
        }
    }
    impl Subject for Broken {
        fn open(&self) -> Arc<dyn Engine> {
            panic!("no {}", "disk")
        }
    }
    let failures = check(&Broken);
    assert_eq!(failures.len(), cases().len());
    assert_eq!(failures[0].to_string(), "order::bytes_decide: panicked: no disk");
}

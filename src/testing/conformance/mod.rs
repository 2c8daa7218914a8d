//! What every engine has to prove, in one call.
//!
//! ```
//! use std::sync::Arc;
//!
//! use everstep::storage::engine::Engine;
//! use everstep::storage::engines::Memory;
//! use everstep::testing::conformance::{self, Candidate, Subject};
//!
//! struct Stores;
//!
//! impl Candidate for Stores {
//!     fn fresh(&self) -> Box<dyn Subject> {
//!         Box::new(Store(Memory::new())) // on disk: a new temporary directory
//!     }
//! }
//!
//! struct Store(Memory);
//!
//! impl Subject for Store {
//!     fn open(&self) -> Arc<dyn Engine> {
//!         Arc::new(self.0.clone()) // on disk: open the directory
//!     }
//! }
//!
//! conformance::run(&Stores);
//! ```
//!
//! Every case gets a store of its own. A test runner that wants one test a case asks [`cases`] for the names and
//! calls [`run_case`].
//!
//! ## What an engine author must know
//!
//! - **Keys are bytes.** The suite writes keys that no release of this crate would pack. All of them begin with
//!   [`room`] of their shard, so they never meet what an engine keeps for itself at `Key::Position(shard)` or outside
//!   of the shards. A key is never empty; a value may be.
//! - **Ranges stay inside a shard.** What a scan or a deleted range shows beyond the prefix of its shard is nowhere
//!   promised, and not asked for here.
//! - **Only refusals are expected.** A case ends as failed when the engine answers `Unknown` or `Unavailable`: prove
//!   the engine on a quiet machine.
//! - **A case that hangs** has found an engine whose open snapshots block its commits, or whose commits of two shards
//!   wait for each other.
//! - What the suite can't see is durability itself: a reopen in the same process also finds what was never synced.
//!   That takes a killed process and a machine that loses its unsynced writes.

mod atomicity;
mod bench;
mod bounds;
mod concurrency;
mod fencing;
mod large;
mod model;
mod operations;
mod order;
mod reopen;
mod scans;
mod sequence;
mod shards;
mod snapshots;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use bench::room;

use crate::storage::engine::Engine;

/// Makes stores of the engine under test.
pub trait Candidate {
    /// A new, empty store, which lives as long as the subject.
    fn fresh(&self) -> Box<dyn Subject>;

    /// Whether what was committed is there when a store is opened again. The cases about reopening are left out
    /// when not.
    fn durable(&self) -> bool {
        true
    }
}

/// One store of the engine under test.
pub trait Subject {
    /// Opens the store. Called again only after everything that the engine before gave out was dropped.
    fn open(&self) -> Arc<dyn Engine>;
}

/// A case that the engine did not pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// The name of the case, as in [`cases`].
    pub case: &'static str,
    /// What was expected and what was found.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.what)
    }
}

/// What a case says: nothing, or what was expected and what was found.
type Verdict = Result<(), String>;

/// A named check.
struct Case {
    name: &'static str,
    check: fn(&dyn Subject) -> Verdict,
    /// Whether it opens the store more than once.
    reopens: bool,
}

/// Turns functions into cases of the same name.
macro_rules! cases {
    ($reopens:expr; $($module:ident: $($name:ident),+;)+) => {
        [$($(Case {
            name: concat!(stringify!($module), "::", stringify!($name)),
            check: $module::$name,
            reopens: $reopens,
        }),+),+]
    };
}

/// The cases, from the plain to the subtle.
fn all() -> impl Iterator<Item = Case> {
    let plain = cases! { false;
        order: bytes_decide, a_prefix_comes_first, what_is_written_is_read;
        scans: both_directions, limits_are_kept, bounds_are_half_open, empty_ranges_show_nothing,
            a_break_ends_the_scan, prefixes_are_isolated;
        operations: get_sees_the_latest_commit, an_empty_value_is_present, delete_removes_one_key,
            delete_range_is_half_open, an_empty_range_deletes_nothing, set_after_delete_range_stays,
            delete_range_after_set_removes, the_last_operation_wins, the_last_batch_wins;
        model: equals_a_sorted_map;
        large: values_of_every_size, large_and_small_take_turns, neighbours_of_a_large_value_stay,
            the_largest_value_behind_the_longest_key;
        bounds: limits_are_enough, the_longest_key_fits, the_largest_value_fits, the_largest_group_fits;
        sequence: commits_move_the_position, a_wrong_sequence_is_a_conflict, a_wrong_chain_is_a_conflict,
            a_group_is_not_applied_twice, an_empty_batch_moves_the_position;
        fencing: a_shard_that_nobody_took_is_fenced, a_second_owner_fences_the_first, an_owner_fences_itself,
            another_owner_with_the_same_epoch_is_fenced, an_epoch_that_was_never_given_is_fenced,
            a_fence_comes_before_a_conflict, position_is_fenced, a_takeover_goes_on_where_it_was;
        atomicity: a_conflict_writes_nothing, a_fenced_group_writes_nothing, a_group_with_a_large_key_writes_nothing,
            a_group_with_a_large_value_writes_nothing, a_group_that_is_too_large_writes_nothing;
        shards: rows_are_apart, positions_are_apart, fences_are_apart, every_number_works;
        snapshots: later_commits_do_not_show, each_keeps_its_own_moment, a_new_one_shows_the_latest_commit,
            pages_join_to_the_whole;
        concurrency: no_commit_shows_by_half, pages_hold_still_under_writes, a_takeover_under_fire_loses_nothing,
            epochs_are_given_once, shards_commit_side_by_side;
    };
    let reopening = cases! { true;
        reopen: every_byte_is_there, the_position_is_there, an_epoch_without_commits_is_there,
            what_was_refused_is_not_there, an_old_lease_stays_fenced, it_goes_on_for_many_lives;
    };
    plain.into_iter().chain(reopening)
}

/// The names of all cases.
pub fn cases() -> Vec<&'static str> {
    all().map(|case| case.name).collect()
}

/// Runs every case that applies to the engine, and panics with the list of those that failed.
///
/// # Panics
/// When a case fails: that is its purpose.
pub fn run(candidate: &dyn Candidate) {
    let failures = check(candidate);
    let list: Vec<String> = failures.iter().map(|failure| format!("\n  {failure}")).collect();
    assert!(
        failures.is_empty(),
        "the engine does not conform, {} cases failed:{}",
        failures.len(),
        list.concat()
    );
}

/// Runs every case that applies to the engine, and gives back those that failed.
pub fn check(candidate: &dyn Candidate) -> Vec<Failure> {
    all().filter_map(|case| judge(candidate, &case).err()).collect()
}

/// Runs the case of that name. One that does not apply to the engine passes.
///
/// # Panics
/// When no case has that name.
pub fn run_case(candidate: &dyn Candidate, name: &str) -> Result<(), Failure> {
    let Some(case) = all().find(|case| case.name == name) else {
        panic!("no case is called {name:?}; there are {}", cases().join(", "));
    };
    judge(candidate, &case)
}

/// A panic of the engine is a failure like any other, so that the cases behind it still run.
fn judge(candidate: &dyn Candidate, case: &Case) -> Result<(), Failure> {
    if case.reopens && !candidate.durable() {
        return Ok(());
    }
    let verdict = catch_unwind(AssertUnwindSafe(|| (case.check)(candidate.fresh().as_ref())));
    let verdict = verdict.unwrap_or_else(|panic| Err(format!("panicked: {}", text(panic.as_ref()))));
    verdict.map_err(|what| Failure { case: case.name, what })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
}

#[cfg(test)]
mod tests;

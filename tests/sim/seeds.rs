//! Which seeds are run, and what is said when one fails.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
    })
}

/// Failing seeds that are told. More than this have few causes.
const TOLD_MAX: usize = 100;

/// Runs the seeds that were asked for, or so many, on every core. One in fifty is run twice, and must give the same
/// trace. All that fail are named; the first is explained.
pub(crate) fn run(
    count: u64,
    world: impl Fn(u64) -> Result<Vec<String>, String> + Sync,
    explain: impl FnOnce(u64, String) -> String,
) {
    let seeds = match (number("EVERSTEP_SEED"), number("EVERSTEP_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => {
            let first = number("EVERSTEP_FIRST").unwrap_or(0);
            first..first + seeds.unwrap_or(count)
        }
    };
    run_these(seeds, world, explain);
}

fn run_these(
    seeds: std::ops::Range<u64>,
    world: impl Fn(u64) -> Result<Vec<String>, String> + Sync,
    explain: impl FnOnce(u64, String) -> String,
) {
    println!("seeds {seeds:?}");
    let alone = seeds.end - seeds.start == 1;
    let events = AtomicU64::new(0);
    let mut failed = each_of(seeds, usize::MAX, |seed| {
        let trace = match world(seed) {
            Ok(trace) => trace,
            Err(said) => return Some(said),
        };
        events.fetch_add(trace.len() as u64, Ordering::Relaxed);
        if std::env::var_os("EVERSTEP_TRACE").is_some() {
            println!("{}", trace.join("\n"));
        }
        let twice = alone || seed % 50 == 0;
        twice.then(|| differs(&trace, &world(seed))).flatten()
    });
    println!("{} events checked", events.into_inner());
    if failed.is_empty() {
        return;
    }
    for (seed, said) in failed.iter().take(TOLD_MAX) {
        println!("seed {seed} failed: {}", said.lines().last().unwrap_or_default());
    }
    let (count, (seed, said)) = (failed.len(), failed.swap_remove(0));
    let explained = explain(seed, said);
    panic!("{explained}\n\n{count} seeds failed; repeat the first with: cargo xtask sim --seed {seed}");
}

/// Where two runs of one seed came apart, if they did.
fn differs(trace: &[String], again: &Result<Vec<String>, String>) -> Option<String> {
    let again = match again {
        Ok(again) => again,
        Err(said) => return Some(format!("it fails the second time only: {said}")),
    };
    let differs = trace.iter().zip(again).position(|(first, second)| first != second);
    let at = differs.or((trace.len() != again.len()).then_some(trace.len().min(again.len())))?;
    let (first, second) = (trace.get(at), again.get(at));
    Some(format!(
        "it gave two different traces at event {at}:\n{first:?}\n{second:?}"
    ))
}

/// What the first of so many seeds gives that gives anything, and which seed that is.
pub(crate) fn first<T: Send>(count: u64, find: impl Fn(u64) -> Option<T> + Sync) -> Option<(u64, T)> {
    each_of(0..count, 1, find).into_iter().next()
}

/// Every thread takes the next seed, until so many have given something. Which seeds those are does not depend on who
/// is faster: seeds before them are still tried.
fn each_of<T: Send>(
    seeds: std::ops::Range<u64>,
    enough: usize,
    find: impl Fn(u64) -> Option<T> + Sync,
) -> Vec<(u64, T)> {
    let (next, end) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let found = Mutex::new(BTreeMap::new());
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            if let Some(what) = find(seed) {
                let mut found = found.lock().unwrap();
                found.insert(seed, what);
                if let Some(last) = found.keys().nth(enough.saturating_sub(1)) {
                    end.fetch_min(*last, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    found.into_inner().unwrap().into_iter().take(enough).collect()
}

/// What it gives, or what it says when it panics.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    quietly(|| catch_unwind(AssertUnwindSafe(act))).map_err(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()))
            .unwrap_or_default()
    })
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does something whose panics nobody wants to read.
fn quietly<T>(act: impl FnOnce() -> T) -> T {
    let before = QUIET.replace(true);
    let done = act();
    QUIET.set(before);
    done
}

pub(crate) fn is_quiet() -> bool {
    QUIET.get()
}

/// A run that differs from the one before it is what double runs are for; nothing showed that they would say so.
#[test]
fn two_runs_that_differ_are_told_apart() {
    let trace = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| (*line).to_owned()).collect() };
    let first = trace(&["a", "b"]);
    assert_eq!(differs(&first, &Ok(trace(&["a", "b"]))), None);
    let said = |again| differs(&first, &again).unwrap();
    assert!(said(Ok(trace(&["a", "c"]))).contains("at event 1"));
    assert!(said(Ok(trace(&["a"]))).contains("at event 1"));
    assert!(said(Ok(trace(&["a", "b", "c"]))).contains("at event 2"));
    assert!(said(Err("no".into())).contains("the second time only: no"));
    // Seed 0 is one of those that are run twice.
    let runs = AtomicU64::new(0);
    let world = |_| Ok(vec![runs.fetch_add(1, Ordering::Relaxed).to_string()]);
    let failed = caught(|| run_these(0..2, world, |_, said| said)).unwrap_err();
    assert!(
        failed.contains("two different traces at event 0") && failed.contains("--seed 0"),
        "{failed}"
    );
}

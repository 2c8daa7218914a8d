//! Which seeds are run, and what is said when one fails.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}"))
    })
}

/// Runs the seeds that were asked for, or so many, on every core. One in fifty is run twice, and must give the same
/// trace.
pub(crate) fn run(count: u64, world: impl Fn(u64) -> Vec<String> + Sync) {
    let seeds = match (number("EVERSTEP_SEED"), number("EVERSTEP_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => {
            let first = number("EVERSTEP_FIRST").unwrap_or(0);
            first..first + seeds.unwrap_or(count)
        }
    };
    println!("seeds {seeds:?}");
    let alone = seeds.end - seeds.start == 1;
    let events = AtomicU64::new(0);
    let failed = first_of(seeds, |seed| {
        let trace = match catch_unwind(AssertUnwindSafe(|| world(seed))) {
            Ok(trace) => trace,
            Err(panic) => return Some((seed, panic)),
        };
        events.fetch_add(trace.len() as u64, Ordering::Relaxed);
        if std::env::var_os("EVERSTEP_TRACE").is_some() {
            println!("{}", trace.join("\n"));
        }
        if alone || seed % 50 == 0 {
            let twice = || same(seed, &trace, &world(seed));
            return catch_unwind(AssertUnwindSafe(twice)).err().map(|panic| (seed, panic));
        }
        None
    });
    if let Some((seed, panic)) = failed {
        println!("seed {seed} failed; repeat with: cargo xtask sim --seed {seed}");
        resume_unwind(panic);
    }
    println!("{} events checked", events.into_inner());
}

fn same(seed: u64, trace: &[String], again: &[String]) {
    let differs = trace.iter().zip(again).position(|(first, second)| first != second);
    let differs = differs.or((trace.len() != again.len()).then_some(trace.len().min(again.len())));
    if let Some(at) = differs {
        panic!(
            "seed {seed} gave two different traces at event {at}:\n{:?}\n{:?}",
            trace.get(at),
            again.get(at)
        );
    }
}

/// What the first of so many seeds gives that gives anything.
pub(crate) fn first<T: Send>(count: u64, find: impl Fn(u64) -> Option<T> + Sync) -> Option<T> {
    first_of(0..count, find)
}

/// Every thread takes the next seed, until one has found something. Which seed that is does not depend on who is
/// faster: seeds before it are still tried.
fn first_of<T: Send>(seeds: std::ops::Range<u64>, find: impl Fn(u64) -> Option<T> + Sync) -> Option<T> {
    let (next, end) = (AtomicU64::new(seeds.start), AtomicU64::new(seeds.end));
    let search = || {
        let mut found = None;
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return found;
            }
            if let Some(what) = find(seed) {
                end.fetch_min(seed, Ordering::Relaxed);
                found = Some((seed, what));
            }
        }
    };
    let found = thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let searching: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        let found = searching
            .into_iter()
            .filter_map(|thread| thread.join().expect("panics are caught"));
        found.min_by_key(|(seed, _)| *seed)
    });
    found.map(|(_, what)| what)
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Does something whose panics nobody wants to read.
pub(crate) fn quietly<T>(act: impl FnOnce() -> T) -> T {
    let before = QUIET.replace(true);
    let done = act();
    QUIET.set(before);
    done
}

pub(crate) fn is_quiet() -> bool {
    QUIET.get()
}

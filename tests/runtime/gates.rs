//! At most so many instances of one key run at once. The others wait, in order, and nobody waits for ever: not across
//! crashes, nor behind somebody who was cancelled, terminated or taken back.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use everstep::limits::{CROWD_MAX, WAKE_QUEUE_MAX};
use everstep::storage::record::Status;
use everstep::{Builder, Config, Crowded, Ctx, Existing, Handle, Result, Runtime, critical, ok, workflow};

use crate::machine::{Machine, in_virtual_time, settle};

/// Who is inside, by key, and what went wrong.
#[derive(Default)]
struct Ledger {
    inside: BTreeMap<String, Vec<String>>,
    most: BTreeMap<String, usize>,
    order: Vec<String>,
}

static LEDGERS: Mutex<BTreeMap<String, Ledger>> = Mutex::new(BTreeMap::new());

fn ledger<T>(test: &str, look: impl FnOnce(&mut Ledger) -> T) -> T {
    look(LEDGERS.lock().unwrap().entry(test.to_owned()).or_default())
}

/// Takes what it is given as the key that it was started with: the name of the test, the key, its own name.
#[workflow]
async fn guarded(ctx: Ctx<Guarded>, (test, key, name): (String, String, String)) -> Result<String> {
    let (at, who) = ((test.clone(), key.clone()), name.clone());
    let enter = move || {
        let ((test, key), who) = (at.clone(), who.clone());
        async move {
            ledger(&test, |ledger| {
                // An attempt that a crash cut off is made again by the same instance.
                let inside = ledger.inside.entry(key.clone()).or_default();
                if !inside.contains(&who) {
                    inside.push(who.clone());
                    ledger.order.push(who);
                }
                let now = inside.len();
                let most = ledger.most.entry(key).or_default();
                *most = now.max(*most);
            });
            ok(())
        }
    };
    ctx.step("enter", enter).await?;
    ctx.sleep("inside", "1s").await?;
    let (at, who) = ((test, key), name.clone());
    let leave = move || {
        let ((test, key), who) = (at.clone(), who.clone());
        async move {
            ledger(&test, |ledger| {
                ledger.inside.entry(key).or_default().retain(|other| *other != who);
            });
            ok(())
        }
    };
    ctx.step("leave", leave).await?;
    ok(name)
}

#[workflow]
async fn naps(ctx: Ctx<Naps>) -> Result<()> {
    ctx.sleep("nap", "1h").await?;
    ok(())
}

#[workflow]
async fn breaks(ctx: Ctx<Breaks>) -> Result<()> {
    let work = || async { Err::<(), _>(critical(std::io::Error::other("no"))) };
    ok(ctx.step("work", work).await?)
}

fn builder() -> Builder {
    Runtime::builder().workflow(guarded).workflow(naps).workflow(breaks)
}

async fn start(runtime: &Runtime, test: &str, key: &str, limit: u32, name: &str) -> Handle<Guarded> {
    let input = (test.to_owned(), key.to_owned(), name.to_owned());
    let starting = runtime.start(guarded, input).id(name).at_most(limit, key);
    starting.await.unwrap().into_handle()
}

#[test]
fn as_many_as_the_limit_run_at_once_in_the_order_of_their_starts() {
    in_virtual_time(async {
        let (test, machine) = ("order", Machine::new());
        let runtime = machine.open(builder(), Config::default()).await;
        let mut handles = Vec::new();
        // The ids are in another order than the starts.
        let names: Vec<_> = (0..30)
            .map(|number| format!("{}-{number}", (number * 7) % 30))
            .collect();
        for name in &names {
            handles.push(start(&runtime, test, "k", 3, name).await);
        }
        for (handle, name) in handles.iter().zip(&names) {
            assert_eq!(handle.result().await.unwrap(), *name);
        }
        ledger(test, |ledger| {
            assert_eq!(ledger.most["k"], 3);
            assert_eq!(ledger.order, names);
        });
    });
}

/// What waits costs no memory: it is not resident.
#[test]
fn who_waits_is_in_the_store_alone() {
    in_virtual_time(async {
        let (test, machine) = ("memory", Machine::new());
        let runtime = machine.open(builder(), Config::default()).await;
        for number in 0..50 {
            start(&runtime, test, "k", 1, &format!("m{number}")).await;
        }
        settle().await;
        assert_eq!(runtime.stats().residents, 1);
        assert_eq!(runtime.stats().waiting, 0);
    });
}

/// A keyed limit of one with 10,000 instances on 100 keys, and the machine dies again and again: never two of one key at
/// once, each finishes, and no more are in memory than may run.
#[test]
fn ten_thousand_on_a_hundred_keys_and_the_machine_dies_in_between() {
    in_virtual_time(async {
        const KEYS: usize = 100;
        const EACH: usize = 100;
        let (test, machine) = ("load", Machine::new());
        let config = || Config::default().idle(Duration::ZERO);
        let mut runtime = machine.open(builder(), config()).await;
        for number in 0..KEYS * EACH {
            let key = format!("k{}", number % KEYS);
            start(&runtime, test, &key, 1, &format!("i{number}")).await;
        }
        for death in 0..5_u64 {
            // In the middle of whatever is going on.
            for _ in 0..20 {
                let pause = Duration::from_millis(500 + death * 37);
                let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
                assert!(runtime.stats().residents <= KEYS, "{:?}", runtime.stats());
            }
            drop(runtime);
            runtime = machine.open(builder(), config()).await;
        }
        for number in 0..KEYS * EACH {
            let handle = runtime.handle(guarded, &format!("i{number}")).unwrap();
            assert_eq!(handle.result().await.unwrap(), format!("i{number}"));
            assert!(runtime.stats().residents <= KEYS, "{:?}", runtime.stats());
        }
        ledger(test, |ledger| {
            assert_eq!(ledger.most.len(), KEYS);
            assert!(ledger.most.values().all(|most| *most == 1), "{:?}", ledger.most);
            assert_eq!(ledger.order.len(), KEYS * EACH);
        });
    });
}

/// The gate lies in another shard than most who pass it.
#[test]
fn a_gate_holds_for_instances_of_all_shards() {
    in_virtual_time(async {
        let (test, machine) = ("shards", Machine::new());
        let config = || Config::default().shards(4);
        let mut runtime = machine.open(builder(), config()).await;
        for number in 0..60 {
            let key = format!("k{}", number % 3);
            start(&runtime, test, &key, 2, &format!("s{number}")).await;
        }
        for _ in 0..3 {
            let _ = tokio::time::timeout(Duration::from_millis(1700), std::future::pending::<()>()).await;
            drop(runtime);
            runtime = machine.open(builder(), config()).await;
        }
        for number in 0..60 {
            runtime
                .handle(guarded, &format!("s{number}"))
                .unwrap()
                .result()
                .await
                .unwrap();
        }
        ledger(test, |ledger| {
            assert!(ledger.most.values().all(|most| *most == 2), "{:?}", ledger.most);
        });
    });
}

/// Whoever ends in another way lets the next one in all the same.
#[test]
fn who_is_cancelled_terminated_or_fails_leaves_its_place() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let nap = |id: &str| runtime.start(naps, ()).id(id).at_most(1, "k");
        let (inside, first, second) = (
            nap("a").await.unwrap(),
            nap("b").await.unwrap(),
            nap("c").await.unwrap(),
        );
        let third = runtime.start(breaks, ()).at_most(1, "k").await.unwrap();
        let last = nap("e").await.unwrap();
        settle().await;
        assert!(
            first.cancel("changed my mind").await.unwrap().is_done(),
            "it waits, and need not run for that"
        );
        assert!(second.terminate("away").await.unwrap().is_done());
        assert!(inside.cancel("enough").await.unwrap().is_done());
        third.result().await.unwrap_err();
        last.result().await.unwrap();
        for handle in [&inside, &first, &second] {
            assert!(handle.status().await.unwrap().status.is_terminal());
        }
    });
}

/// Another run of one that has ended comes to the gate again, at the end.
#[test]
fn another_run_waits_for_its_turn() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let again = || {
            runtime
                .start(breaks, ())
                .id("again")
                .at_most(1, "k")
                .if_exists(Existing::NewRun)
        };
        let failed = again().await.unwrap();
        failed.result().await.unwrap_err();
        let nap = runtime.start(naps, ()).at_most(1, "k").await.unwrap();
        settle().await;
        failed.retry().await.unwrap();
        settle().await;
        assert_eq!(failed.status().await.unwrap().run, 2);
        let waiting = failed.status().await.unwrap();
        assert_eq!(waiting.status, Status::Pending, "the other one is inside");
        let listed = runtime.list().status(Status::Pending).await.unwrap();
        assert_eq!(listed.rows.len(), 1, "a listing says so too");
        nap.result().await.unwrap();
        failed.result().await.unwrap_err();
        let renewed = again().await.unwrap();
        renewed.result().await.unwrap_err();
        assert_eq!(renewed.status().await.unwrap().run, 3);
    });
}

/// One that begins later comes to the gate when it begins, and keeps nobody waiting until then.
#[test]
fn who_begins_later_comes_later() {
    in_virtual_time(async {
        let (test, machine) = ("later", Machine::new());
        let runtime = machine.open(builder(), Config::default()).await;
        let input = (test.to_owned(), "k".to_owned(), "late".to_owned());
        let at = crate::kit::after(Duration::from_secs(100));
        let late = runtime
            .start(guarded, input)
            .id("late")
            .at(at)
            .at_most(1, "k")
            .await
            .unwrap();
        let soon = start(&runtime, test, "k", 1, "soon").await;
        soon.result().await.unwrap();
        late.result().await.unwrap();
        ledger(test, |ledger| assert_eq!(ledger.order, ["soon", "late"]));
    });
}

#[test]
fn a_crowd_is_an_error_or_a_wait_as_the_caller_chooses() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let start = |crowded| runtime.start(naps, ()).at_most(2, "k").if_crowded(3, crowded);
        // Side by side, and there is one too many of them.
        let (a, b, c, d, e, f) = tokio::join!(
            start(Crowded::Refuse).into_future(),
            start(Crowded::Refuse).into_future(),
            start(Crowded::Refuse).into_future(),
            start(Crowded::Refuse).into_future(),
            start(Crowded::Refuse).into_future(),
            start(Crowded::Refuse).into_future(),
        );
        let outcomes = [a, b, c, d, e, f];
        let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        assert_eq!(refused.map(everstep::Error::code).collect::<Vec<_>>(), ["ES0430"]);
        let before = runtime.list().await.unwrap().rows.len();
        let waits = start(Crowded::Wait).await.unwrap();
        assert_eq!(runtime.list().await.unwrap().rows.len(), before + 1);
        waits.result().await.unwrap();
        // One that exists adds nobody.
        for _ in 0..9 {
            let again = runtime.start(naps, ()).id("once").at_most(1, "other");
            again.if_crowded(1, Crowded::Refuse).await.unwrap();
        }
    });
}

/// Found in review: starts on their way are counted, and those that did not come after all told nobody. Whoever waited for
/// room waited on, at a gate with nobody at it.
#[test]
fn who_does_not_come_after_all_makes_room() {
    in_virtual_time(async {
        let mut machine = Machine::new();
        machine.yields = 50;
        let runtime = machine.open(builder(), Config::default()).await;
        let keyed = |id: &str| {
            let start = runtime.start(naps, ()).id(id).at_most(1, "k");
            start.if_crowded(1, Crowded::Wait).into_future()
        };
        // Their ids are taken meanwhile by starts without a key, which come first.
        let taken = |id: &str| runtime.start(naps, ()).id(id).into_future();
        let (mut one, mut two) = (taken("one"), taken("two"));
        let (mut again, mut too) = (keyed("one"), keyed("two"));
        for start in [&mut one, &mut two, &mut again, &mut too] {
            assert!(futures_util::poll!(start).is_pending());
        }
        let waits = async { tokio::time::timeout(Duration::from_secs(3600 * 24), keyed("three")).await };
        let (one, two, again, too, waited) = tokio::join!(one, two, again, too, waits);
        assert!(!one.unwrap().existed() && !two.unwrap().existed());
        assert!(again.unwrap().existed() && too.unwrap().existed());
        assert!(waited.is_ok(), "nobody has the key, and it waits");
    });
}

/// Found in a review: without a key more were let pass than had been asked for, those who came at once, those whose lane
/// was full, and new runs.
#[test]
fn a_crowd_that_waits_for_memory_is_counted_like_one_at_a_gate() {
    in_virtual_time(async {
        let machine = Machine::new();
        let ended = machine.open(builder(), Config::default()).await;
        ended.start(naps, ()).id("ended").await.unwrap().result().await.unwrap();
        drop(ended);
        let runtime = machine.open_crowded(builder()).await;
        let start = |waiting| {
            runtime
                .start(naps, ())
                .if_crowded(waiting, Crowded::Refuse)
                .into_future()
        };
        let (a, b, c) = tokio::join!(start(2), start(2), start(2));
        let refused = [a, b, c].into_iter().filter_map(Result::err);
        assert_eq!(refused.map(|error| error.code()).collect::<Vec<_>>(), ["ES0430"]);
        let renewed = runtime.start(naps, ()).id("ended").if_exists(Existing::NewRun);
        let renewed = renewed.if_crowded(2, Crowded::Refuse).await.unwrap_err();
        assert_eq!(renewed.code(), "ES0430");
        let found = runtime.start(naps, ()).id("ended").if_crowded(2, Crowded::Refuse);
        assert!(found.await.unwrap().existed(), "who is there adds nobody");
        let mut started = 0;
        while start(CROWD_MAX).await.is_ok() {
            started += 1;
        }
        assert!(started < WAKE_QUEUE_MAX, "there is no room for {started}");
    });
}

#[test]
fn a_key_or_a_limit_that_is_none_is_refused() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        for (limit, key) in [
            (0, "k".to_owned()),
            (1025, "k".into()),
            (1, String::new()),
            (1, "k".repeat(201)),
        ] {
            let refused = runtime.start(naps, ()).at_most(limit, key).await.unwrap_err();
            assert_eq!(refused.code(), "ES0431");
        }
        for waiting in [0, CROWD_MAX + 1] {
            let refused = runtime.start(naps, ()).if_crowded(waiting, Crowded::Wait).await;
            assert_eq!(refused.unwrap_err().code(), "ES0431");
        }
        assert!(runtime.list().await.unwrap().rows.is_empty(), "nothing was stored");
    });
}

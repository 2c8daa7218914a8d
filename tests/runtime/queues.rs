//! How attempts share what there is: bounds and rates of queues, priorities, and fairness between workflows. Everything
//! is counted in virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use everstep::{Builder, Config, Ctx, Priority, Result, Runtime, activity, ok, workflow};

use crate::kit::pass;
use crate::machine::{Machine, crowds, in_virtual_time, settle};

/// What one test has seen of its attempts.
#[derive(Default)]
struct Seen {
    running: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
    began: Vec<(String, tokio::time::Instant)>,
}

type Tests = Mutex<BTreeMap<String, Seen>>;

fn seen<T>(test: &str, look: impl FnOnce(&mut Seen) -> T) -> T {
    static TESTS: OnceLock<Tests> = OnceLock::new();
    look(
        TESTS
            .get_or_init(Tests::default)
            .lock()
            .unwrap()
            .entry(test.to_owned())
            .or_default(),
    )
}

/// Works for 100 ms, and is counted meanwhile.
#[expect(clippy::disallowed_methods, reason = "this is the clock of the simulation")]
async fn work(test: String, kind: &'static str) -> Result<()> {
    seen(&test, |seen| {
        let running = seen.running.entry(kind.to_owned()).or_default();
        *running += 1;
        let most = seen.most.entry(kind.to_owned()).or_default();
        *most = (*running).max(*most);
        seen.began.push((kind.to_owned(), tokio::time::Instant::now()));
    });
    pass(Duration::from_millis(100)).await;
    seen(&test, |seen| *seen.running.entry(kind.to_owned()).or_default() -= 1);
    ok(())
}

#[activity(queue = "mail")]
async fn send_mail(test: String) -> Result<()> {
    work(test, "mail").await
}

#[workflow]
async fn mails(ctx: Ctx<Mails>, test: String) -> Result<()> {
    ctx.run(send_mail, test.clone()).await?;
    let again = test.clone();
    ctx.step("again", move || work(again.clone(), "mail"))
        .queue("mail")
        .await?;
    ctx.step("elsewhere", move || work(test.clone(), "elsewhere")).await?;
    ok(())
}

/// Its steps go through the queue of the workflow, unless they name another.
#[workflow(queue = "mail")]
async fn posts(ctx: Ctx<Posts>, test: String) -> Result<()> {
    let first = test.clone();
    ctx.step("first", move || work(first.clone(), "mail")).await?;
    ctx.step("second", move || work(test.clone(), "other"))
        .queue("other")
        .await?;
    ok(())
}

#[workflow]
async fn flood(ctx: Ctx<Flood>, test: String) -> Result<()> {
    ctx.step("work", move || work(test.clone(), "flood")).await?;
    ok(())
}

#[workflow]
async fn quiet(ctx: Ctx<Quiet>, test: String) -> Result<()> {
    ctx.step("work", move || work(test.clone(), "quiet")).await?;
    ok(())
}

#[workflow]
async fn ranked(ctx: Ctx<Ranked>, (test, kind): (String, u8)) -> Result<()> {
    let kind = ["low", "normal", "high"][usize::from(kind)];
    ctx.step("work", move || work(test.clone(), kind)).await?;
    ok(())
}

fn builder() -> Builder {
    Runtime::builder()
        .workflow(mails)
        .workflow(posts)
        .workflow(flood)
        .workflow(quiet)
        .workflow(ranked)
        .activity(send_mail)
}

#[test]
fn a_queue_runs_as_many_as_it_may_and_the_others_go_on() {
    in_virtual_time(async {
        let test = "bounds".to_owned();
        let config = Config::default()
            .queue_attempts_max("mail", 3)
            .queue_attempts_max("other", 2);
        let runtime = Machine::new().open(builder(), config).await;
        let mut handles = Vec::new();
        for _ in 0..20 {
            handles.push(runtime.start(mails, test.clone()).await.unwrap().id().clone());
            handles.push(runtime.start(posts, test.clone()).await.unwrap().id().clone());
        }
        settle().await;
        let stats = runtime.stats();
        assert_eq!((stats.queues["mail"].running, stats.queues["mail"].waiting), (3, 37));
        assert_eq!((stats.attempts, stats.attempts_waiting), (3, 37));
        for id in handles {
            runtime
                .instance(id.as_str())
                .unwrap()
                .reached(everstep::storage::record::Status::is_terminal)
                .await
                .unwrap();
        }
        seen(&test, |seen| {
            assert_eq!((seen.most["mail"], seen.most["other"]), (3, 2));
            assert_eq!(seen.began.iter().filter(|(kind, _)| kind == "mail").count(), 60);
            assert_eq!(seen.began.iter().filter(|(kind, _)| kind == "elsewhere").count(), 20);
        });
        assert_eq!(runtime.stats().queues["mail"].waiting, 0);
    });
}

/// No stretch of the length of the rate, wherever it begins, sees more attempts begin than the rate allows; and the rate
/// is used.
#[test]
fn a_rate_is_never_exceeded_in_any_stretch_of_its_time() {
    in_virtual_time(async {
        let test = "rate".to_owned();
        let per = Duration::from_secs(10);
        let config = Config::default().queue_rate("mail", 5, per);
        let runtime = Machine::new().open(builder(), config).await;
        let mut handles = Vec::new();
        for number in 0..40 {
            handles.push(runtime.start(posts, test.clone()).await.unwrap());
            pass(Duration::from_millis(number * 13 % 400)).await;
        }
        for handle in &handles {
            handle.result().await.unwrap();
        }
        let began: Vec<_> = seen(&test, |seen| {
            let mail = seen.began.iter().filter(|(kind, _)| kind == "mail");
            mail.map(|(_, at)| *at).collect()
        });
        assert_eq!(began.len(), 40);
        for (at, first) in began.iter().enumerate() {
            let within = began[at..].iter().take_while(|other| **other - *first < per).count();
            assert!(within <= 5, "{within} began within one stretch");
        }
        let took = *began.last().unwrap() - began[0];
        assert!(took < Duration::from_secs(80), "the rate is used: {took:?}");
    });
}

/// Found by the simulation: an attempt that had not begun when its instance was paused began afterwards, as late as the
/// queue got to it. Whoever had paused had been told that nothing begins any more. BEHAVIOUR 44.
#[test]
fn who_waits_for_its_turn_when_it_is_held_does_not_begin() {
    in_virtual_time(async {
        let test = "held".to_owned();
        let config = Config::default().queue_attempts_max("mail", 1);
        let runtime = Machine::new().open(builder(), config).await;
        let mails = || {
            let is_mail = |(kind, _): &&(String, _)| kind == "mail";
            seen(&test, |seen| seen.began.iter().filter(is_mail).count())
        };
        let first = runtime.start(posts, test.clone()).await.unwrap();
        let second = runtime.start(posts, test.clone()).await.unwrap();
        settle().await;
        let stats = runtime.stats();
        assert_eq!((stats.queues["mail"].running, stats.queues["mail"].waiting), (1, 1));
        assert!(second.pause().await.unwrap().is_done());
        first.result().await.unwrap();
        pass(Duration::from_secs(60)).await;
        assert_eq!(mails(), 1, "the one that is not held");
        let stats = runtime.stats();
        assert_eq!((stats.queues["mail"].running, stats.queues["mail"].waiting), (0, 0));
        second.resume().await.unwrap();
        second.result().await.unwrap();
        assert_eq!(mails(), 2);
    });
}

/// Found by reading: what had been taken back at a pause was due again at the time at which it had first come to the queue.
/// When the clock was set back meanwhile it waited for that time a second time, with a free place before it.
#[test]
fn what_a_pause_took_back_begins_at_once_although_the_clock_was_set_back() {
    in_virtual_time(async {
        let test = "held, and set back".to_owned();
        let config = Config::default().queue_attempts_max("mail", 1);
        let machine = Machine::new();
        let runtime = machine.open(builder(), config).await;
        let mails = || {
            let is_mail = |(kind, _): &&(String, _)| kind == "mail";
            seen(&test, |seen| seen.began.iter().filter(is_mail).count())
        };
        let first = runtime.start(posts, test.clone()).await.unwrap();
        let second = runtime.start(posts, test.clone()).await.unwrap();
        settle().await;
        assert!(second.pause().await.unwrap().is_done());
        first.result().await.unwrap();
        assert_eq!(mails(), 1, "the one that is not held");
        machine.clock.jump(Duration::from_secs(3_600), true);
        second.resume().await.unwrap();
        pass(Duration::from_secs(1)).await;
        assert_eq!(mails(), 2);
        second.result().await.unwrap();
    });
}

/// An attempt that is cancelled while it waits gives up its place, and takes nobody's turn.
#[test]
fn who_is_cancelled_while_it_waits_is_gone() {
    in_virtual_time(async {
        let test = "cancelled".to_owned();
        let config = Config::default().queue_attempts_max("mail", 1);
        let runtime = Machine::new().open(builder(), config).await;
        let first = runtime.start(posts, test.clone()).await.unwrap();
        let second = runtime.start(posts, test.clone()).await.unwrap();
        let third = runtime.start(posts, test.clone()).await.unwrap();
        settle().await;
        assert_eq!(runtime.stats().queues["mail"].waiting, 2);
        second.cancel("no").await.unwrap();
        settle().await;
        assert_eq!(runtime.stats().queues["mail"].waiting, 1);
        first.result().await.unwrap();
        third.result().await.unwrap();
        seen(&test, |seen| {
            assert_eq!(seen.began.iter().filter(|(kind, _)| kind == "mail").count(), 2);
        });
    });
}

/// Of all three priorities there is more than can run. They are served as their shares say, and the lowest is served.
#[test]
fn priorities_share_and_nobody_is_starved() {
    in_virtual_time(async {
        let test = "priorities".to_owned();
        let config = Config::default().attempts_max(1);
        let runtime = Machine::new().open(builder(), config).await;
        for _ in 0..200 {
            for (kind, priority) in (0..).zip(Priority::ALL) {
                let start = runtime.start(ranked, (test.clone(), kind)).priority(priority);
                start.await.unwrap();
            }
        }
        // Long enough for some 146 of the 600.
        pass(Duration::from_millis(14_600)).await;
        let count = |kind: &str| {
            seen(&test, |seen| {
                seen.began.iter().filter(|(other, _)| other == kind).count()
            })
        };
        let served = ["low", "normal", "high"].map(count);
        assert!((1..=4).contains(&served[0]), "{served:?}");
        assert!((12..=20).contains(&served[1]), "{served:?}");
        assert!(served[2] >= 110, "{served:?}");
        seen(&test, |seen| assert!(seen.most.values().all(|most| *most == 1)));
    });
}

/// FAULTS 67: one workflow floods, and another starts a few among the flood. They take turns, so the few are done after
/// as many turns as there are of them, and not behind the flood.
#[test]
fn a_flood_of_one_workflow_does_not_hold_up_another() {
    in_virtual_time(async {
        let test = "flood".to_owned();
        let config = Config::default().attempts_max(2);
        let runtime = Machine::new().open(builder(), config).await;
        for _ in 0..500 {
            runtime.start(flood, test.clone()).await.unwrap();
        }
        let mut few = Vec::new();
        for _ in 0..10 {
            few.push(runtime.start(quiet, test.clone()).await.unwrap());
        }
        for handle in &few {
            handle.result().await.unwrap();
        }
        let floods = seen(&test, |seen| {
            seen.began.iter().filter(|(kind, _)| kind == "flood").count()
        });
        assert!(floods <= 16, "{floods} of the flood came first");
    });
}

/// FAULTS 63, 67: a restart finds a flood of a workflow that may hardly run, and behind it in the store another one. The
/// flood fills its own lane and nobody else's.
#[test]
fn a_flood_at_its_limit_does_not_hide_the_others_after_a_restart() {
    in_virtual_time(async {
        let test = "restart".to_owned();
        let machine = Machine::new();
        let runtime = machine.open_crowded(builder()).await;
        for number in 0..3000 {
            runtime
                .start(flood, test.clone())
                .id(format!("a{number:04}"))
                .await
                .unwrap();
        }
        for number in 0..100 {
            runtime
                .start(quiet, test.clone())
                .id(format!("z{number:03}"))
                .await
                .unwrap();
        }
        drop(runtime);
        let config = Config::default()
            .workflow_residents_max("flood", 1)
            .idle(Duration::ZERO);
        let runtime = machine.open(builder().workflow(crowds), config).await;
        for number in 0..100 {
            runtime
                .handle(quiet, &format!("z{number:03}"))
                .unwrap()
                .result()
                .await
                .unwrap();
        }
        let floods = seen(&test, |seen| {
            seen.began.iter().filter(|(kind, _)| kind == "flood").count()
        });
        assert!(floods <= 5, "{floods} of the flood came first");
        assert!(runtime.stats().waiting <= everstep::limits::WAKE_QUEUE_MAX);
        // The flood is not forgotten either.
        for number in 0..3000 {
            runtime
                .handle(flood, &format!("a{number:04}"))
                .unwrap()
                .result()
                .await
                .unwrap();
        }
        seen(&test, |seen| assert_eq!(seen.most["flood"], 1));
    });
}

#[workflow]
async fn sleepers(ctx: Ctx<Sleepers>, test: String) -> Result<()> {
    ctx.sleep("night", "10m").await?;
    ctx.step("work", move || work(test.clone(), "sleepers")).await?;
    ok(())
}

#[workflow]
async fn early(ctx: Ctx<Early>, test: String) -> Result<()> {
    ctx.sleep("night", "601s").await?;
    ctx.step("work", move || work(test.clone(), "early")).await?;
    ok(())
}

/// FAULTS 28: more alarms of one workflow are due at once than it has room for. Another one's alarm rings all the same.
#[test]
fn alarms_of_a_full_workflow_keep_nobody_else_waiting() {
    in_virtual_time(async {
        let test = "alarms".to_owned();
        let machine = Machine::new();
        let builder = || Runtime::builder().workflow(sleepers).workflow(early);
        let limits = Config::default()
            .workflow_residents_max("sleepers", 50)
            .idle(Duration::ZERO);
        let runtime = machine
            .open(builder(), limits.workflow_attempts_max("sleepers", 1))
            .await;
        for number in 0..900 {
            runtime
                .start(sleepers, test.clone())
                .id(format!("s{number}"))
                .await
                .unwrap();
        }
        let other = runtime.start(early, test.clone()).await.unwrap();
        other.result().await.unwrap();
        let before = seen(&test, |seen| {
            seen.began.iter().filter(|(kind, _)| kind == "sleepers").count()
        });
        assert!(before <= 30, "{before} of the others came first");
        for number in 0..900 {
            runtime
                .handle(sleepers, &format!("s{number}"))
                .unwrap()
                .result()
                .await
                .unwrap();
        }
        seen(&test, |seen| assert_eq!(seen.most["sleepers"], 1));
        assert_eq!(runtime.stats().alarms_due, 0);
    });
}

#[test]
fn a_queue_that_nobody_bounds_means_nothing() {
    in_virtual_time(async {
        let test = Arc::new("unbounded".to_owned());
        let runtime = Machine::new().open(builder(), Config::default()).await;
        let mut handles = Vec::new();
        for _ in 0..10 {
            handles.push(runtime.start(posts, test.to_string()).await.unwrap());
        }
        for handle in &handles {
            handle.result().await.unwrap();
        }
        assert_eq!(seen(&test, |seen| seen.most["mail"]), 10);
        assert!(runtime.stats().queues.is_empty());
    });
}

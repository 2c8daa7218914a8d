//! At most so many instances of one key run at once, whoever starts them: children, the slots of a schedule and starts that
//! waited for the last of several stand at the same gate as starts from outside.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::{
    Builder, ClosePolicy, Config, Consequence, Ctx, Every, Overlap, Priority, Result, Runtime, ok, workflow,
};

use crate::machine::{Machine, in_virtual_time, settle};

/// Who came in and went out, with the name of the test in front.
static NOTES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

async fn note(test: &str, line: String) -> Result<()> {
    let mut notes = NOTES.lock().unwrap();
    // A step that a crash cut off is made again.
    if !notes.iter().any(|(of, said)| of == test && *said == line) {
        notes.push((test.to_owned(), line));
    }
    ok(())
}

/// What one test noted, in order.
fn notes(test: &str) -> Vec<String> {
    let notes = NOTES.lock().unwrap();
    notes
        .iter()
        .filter(|(of, _)| of == test)
        .map(|(_, line)| line.clone())
        .collect()
}

/// The most that were inside at once, and who came in, in order.
fn went(test: &str) -> (usize, Vec<String>) {
    let (mut inside, mut most, mut order) = (0_usize, 0, Vec::new());
    for line in notes(test) {
        match line.strip_prefix("in ") {
            Some(name) => {
                inside += 1;
                order.push(name.to_owned());
            }
            None => inside -= 1,
        }
        most = most.max(inside);
    }
    (most, order)
}

#[workflow]
async fn inside(ctx: Ctx<Inside>, (test, name): (String, String)) -> Result<String> {
    let name = if name.is_empty() { ctx.id().to_string() } else { name };
    let (at, line) = (test.clone(), format!("in {name}"));
    ctx.step("enter", move || {
        let (at, line) = (at.clone(), line.clone());
        async move { note(&at, line).await }
    })
    .await?;
    ctx.sleep("stay", "1s").await?;
    let line = format!("out {name}");
    ctx.step("leave", move || {
        let (test, line) = (test.clone(), line.clone());
        async move { note(&test, line).await }
    })
    .await?;
    ok(name)
}

/// Starts children with a key, and waits for all of them.
#[workflow]
async fn fans_out(ctx: Ctx<FansOut>, (test, many, limit): (String, u32, u32)) -> Result<u32> {
    let mut children = Vec::new();
    for number in 0..many {
        let child = ctx.child(inside, (test.clone(), format!("{}/{number}", ctx.id())));
        children.push(child.at_most(limit, "k").start().await?);
    }
    for child in children {
        child.await?;
    }
    ok(many)
}

/// Starts a child with the key that it runs with itself.
#[workflow]
async fn waits_for_its_own(ctx: Ctx<WaitsForItsOwn>, limit: u32) -> Result<String> {
    let child = ctx.child(inside, ("own".to_owned(), "child".to_owned()));
    ok(child.at_most(limit, "own").await?)
}

/// Lets a child go that has the key that it runs with itself.
#[workflow]
async fn lets_its_own_go(ctx: Ctx<LetsItsOwnGo>) -> Result<()> {
    let child = ctx.child(inside, ("let go".to_owned(), "let go".to_owned()));
    child.at_most(1, "let go").detach().await?;
    let child = ctx.child(inside, ("let go".to_owned(), "abandoned".to_owned()));
    drop(child.at_most(1, "let go").close(ClosePolicy::Abandon).start().await?);
    ok(ctx.sleep("more", "10s").await?)
}

#[workflow]
async fn waits_behind(ctx: Ctx<WaitsBehind>, limit: u32) -> Result<String> {
    let child = ctx
        .child(inside, ("behind".to_owned(), "child".to_owned()))
        .id("behind");
    ok(child.at_most(limit, "behind").await?)
}

#[workflow]
async fn stays(ctx: Ctx<Stays>, time: String) -> Result<()> {
    ok(ctx.sleep("stay", time.as_str()).await?)
}

fn builder() -> Builder {
    let builder = Runtime::builder().workflow(inside).workflow(fans_out).workflow(stays);
    let builder = builder.workflow(waits_for_its_own).workflow(lets_its_own_go);
    builder.workflow(waits_behind)
}

/// Children of two parents and starts from outside, at one gate: never more than its limit, in the order in which they came,
/// and nobody of them is in memory before it is its turn.
#[test]
fn children_stand_at_the_gate_with_everybody_else() {
    in_virtual_time(async {
        let (test, machine) = ("children", Machine::new());
        let runtime = machine.open(builder(), Config::default().shards(1)).await;
        let outside = async |name: &str| {
            let start = runtime.start(inside, (test.to_owned(), name.to_owned()));
            start.at_most(2, "k").await.unwrap()
        };
        outside("first").await;
        let a = runtime.start(fans_out, (test.to_owned(), 20, 2)).id("a").await.unwrap();
        settle().await;
        let b = runtime.start(fans_out, (test.to_owned(), 20, 2)).id("b").await.unwrap();
        settle().await;
        let last = outside("last").await;
        settle().await;
        assert_eq!(runtime.stats().residents, 4, "the parents, and two who are in");
        let waiting = runtime.list().status(Status::Pending).count().await.unwrap();
        assert_eq!(waiting, 40, "the others wait in the store");
        assert_eq!(a.result().await.unwrap() + b.result().await.unwrap(), 40);
        last.result().await.unwrap();
        let (most, order) = went(test);
        let expected = ["first".to_owned()].into_iter();
        let expected = expected.chain((0..20).map(|number| format!("a/{number}")));
        let expected = expected.chain((0..20).map(|number| format!("b/{number}")));
        let expected: Vec<_> = expected.chain(["last".to_owned()]).collect();
        assert_eq!((most, order), (2, expected));
    });
}

/// The same in several shards, and the machine dies again and again: nobody is lost, and never too many are in.
#[test]
fn children_at_a_gate_of_another_shard_survive_the_machine() {
    in_virtual_time(async {
        let (test, machine) = ("shards of children", Machine::new());
        let config = || Config::default().shards(4).idle(Duration::ZERO);
        let mut runtime = machine.open(builder(), config()).await;
        for parent in 0..4 {
            let starting = runtime.start(fans_out, (test.to_owned(), 10, 3));
            starting.id(format!("p{parent}")).await.unwrap();
        }
        for death in 0..6_u64 {
            let pause = Duration::from_millis(1 + death * 631);
            let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
            drop(runtime);
            runtime = machine.open(builder(), config()).await;
        }
        for parent in 0..4 {
            let parent = runtime.handle(fans_out, &format!("p{parent}")).unwrap();
            assert_eq!(parent.result().await.unwrap(), 10);
        }
        let (most, order) = went(test);
        assert_eq!((most, order.len()), (3, 40));
    });
}

/// It need not be its turn for that: whoever waits for its turn has done nothing, and its parent hears of its end.
#[test]
fn a_child_that_waits_for_its_turn_is_cancelled_where_it_stands() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default()).await;
        let holder = runtime
            .start(stays, "365d".to_owned())
            .at_most(1, "behind")
            .await
            .unwrap();
        for way in ["by its parent", "by its handle"] {
            let parent = runtime.start(waits_behind, 1).await.unwrap();
            settle().await;
            let child = runtime.handle(inside, "behind").unwrap();
            assert_eq!(child.status().await.unwrap().status, Status::Pending);
            if way == "by its parent" {
                parent.cancel("enough").await.unwrap();
            } else {
                assert!(child.cancel("enough").await.unwrap().is_done());
            }
            settle().await;
            let ended = [
                parent.status().await.unwrap().status,
                child.status().await.unwrap().status,
            ];
            let parents = if way == "by its parent" {
                Status::Cancelled
            } else {
                Status::Failed
            };
            assert_eq!(ended, [parents, Status::Cancelled], "{way}");
            child.delete().await.unwrap();
        }
        let behind = runtime
            .start(stays, "1s".to_owned())
            .at_most(1, "behind")
            .await
            .unwrap();
        holder.terminate("away").await.unwrap();
        behind.result().await.unwrap();
        assert_eq!(notes("behind"), Vec::<String>::new(), "nobody went in");
    });
}

/// It would wait for the place of its parent, which waits for it. That is said at once, and replayed as it was said.
#[test]
fn a_child_that_could_never_have_its_turn_fails() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder(), Config::default().idle(Duration::ZERO)).await;
        let parent = runtime.start(waits_for_its_own, 1).at_most(1, "own").await.unwrap();
        let Err(everstep::Error::Failed(failure)) = parent.result().await else {
            panic!("its parent has its place");
        };
        assert_eq!(failure.causes.len(), 0, "{failure:?}");
        assert!(failure.to_string().contains("would wait for its parent"), "{failure}");
        let fits = runtime.start(waits_for_its_own, 2).at_most(2, "own").await.unwrap();
        assert_eq!(fits.result().await.unwrap(), "child");
        let free = runtime.start(waits_for_its_own, 1).await.unwrap();
        assert_eq!(free.result().await.unwrap(), "child");
        // Whoever is let go has its turn when its parent has left.
        let lets_go = runtime.start(lets_its_own_go, ()).at_most(1, "let go").await.unwrap();
        lets_go.result().await.unwrap();
        let behind = runtime
            .start(stays, "1s".to_owned())
            .at_most(1, "let go")
            .await
            .unwrap();
        behind.result().await.unwrap();
        assert_eq!(went("let go"), (1, vec!["let go".to_owned(), "abandoned".to_owned()]));
    });
}

#[workflow]
async fn misnames(ctx: Ctx<Misnames>, (limit, key): (u32, String)) -> Result<Option<String>> {
    let child = ctx.child(inside, (String::new(), String::new())).at_most(limit, key);
    match child.await {
        Err(failure) if failure.kind == FailureKind::Misuse => ok(failure.code.clone()),
        other => ok(Some(format!("{other:?}"))),
    }
}

#[test]
fn a_key_or_a_limit_of_a_child_that_is_none_is_refused() {
    in_virtual_time(async {
        let machine = Machine::new();
        let runtime = machine.open(builder().workflow(misnames), Config::default()).await;
        for (limit, key) in [
            (0, "k".to_owned()),
            (1025, "k".into()),
            (1, String::new()),
            (1, "k".repeat(201)),
        ] {
            let refused = runtime.start(misnames, (limit, key.clone())).await.unwrap();
            assert_eq!(refused.result().await.unwrap().as_deref(), Some("ES0431"));
            let slots = runtime.schedule("s", Every::new("1s")).starts(stays, "1s".to_owned());
            assert_eq!(slots.at_most(limit, key.clone()).await.unwrap_err().code(), "ES0431");
            let debounced = runtime.debounce("d", "1s").starts(stays, "1s".to_owned());
            assert_eq!(debounced.at_most(limit, key).await.unwrap_err().code(), "ES0431");
        }
    });
}

/// Slots of two schedules, together faster than their instances, share a place.
#[test]
fn slots_of_schedules_stand_at_the_gate() {
    in_virtual_time(async {
        let (test, machine) = ("slots", Machine::new());
        let mut runtime = machine.open(builder(), Config::default()).await;
        for name in ["a", "b"] {
            let schedule = runtime.schedule(name, Every::new("1s"));
            let schedule = schedule.starts(inside, (test.to_owned(), String::new()));
            let schedule = schedule.overlap(Overlap::Allow).at_most(1, "slots");
            schedule.priority(Priority::High).await.unwrap();
        }
        for _ in 0..4 {
            let pause = Duration::from_millis(2_700);
            let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
            drop(runtime);
            runtime = machine.open(builder(), Config::default()).await;
        }
        for name in ["a", "b"] {
            let schedule = runtime.schedule_handle(name).unwrap();
            assert!(schedule.describe().await.unwrap().started > 7);
            schedule.delete().await.unwrap();
        }
        settle().await;
        let last = runtime.start(inside, (test.to_owned(), "last".to_owned()));
        let last = last.at_most(1, "slots").await.unwrap();
        last.result().await.unwrap();
        let (most, order) = went(test);
        assert_eq!(most, 1);
        assert!(order.len() > 16, "{order:?}");
        assert_eq!(order.last().map(String::as_str), Some("last"), "it came last");
        for name in ["a-", "b-"] {
            let slots: Vec<_> = order.iter().filter(|of| of.starts_with(name)).collect();
            assert!(slots.is_sorted(), "in the order of their slots: {slots:?}");
        }
    });
}

/// It comes to the gate when it begins: whoever comes while it may still be replaced is before it.
#[test]
fn a_debounced_start_comes_to_the_gate_when_it_begins() {
    in_virtual_time(async {
        let (test, machine) = ("debounced", Machine::new());
        let runtime = machine.open(builder(), Config::default()).await;
        let debounce = async |name: &str| {
            let wanted = runtime
                .debounce("d", "3s")
                .starts(inside, (test.to_owned(), name.to_owned()));
            wanted.at_most(1, "debounced").await.unwrap()
        };
        debounce("replaced").await;
        let wanted = debounce("wanted").await;
        for name in ["a", "b", "c", "d", "e"] {
            let start = runtime.start(inside, (test.to_owned(), name.to_owned()));
            start.at_most(1, "debounced").await.unwrap();
        }
        let begun = wanted.begun().await.unwrap();
        let late = runtime.start(inside, (test.to_owned(), "late".to_owned()));
        let late = late.at_most(1, "debounced").await.unwrap();
        assert_eq!(begun.result().await.unwrap(), "wanted");
        late.result().await.unwrap();
        let expected = ["a", "b", "c", "d", "e", "wanted", "late"].map(str::to_owned);
        assert_eq!(went(test), (1, expected.to_vec()));
    });
}

/// Waits for a child that has little time.
#[workflow]
async fn hurries(ctx: Ctx<Hurries>) -> Result<String> {
    let child = ctx.child(hurried, ()).id("hurried").at_most(1, "late");
    match child.await {
        Err(failure) => ok(failure.to_string()),
        Ok(()) => ok("it was its turn".to_owned()),
    }
}

#[workflow(deadline = "10s")]
async fn hurried(ctx: Ctx<Hurried>) -> Result<()> {
    ok(ctx.sleep("work", "1s").await?)
}

/// Found in a walk through what is promised: an instance whose time was over while it waited for its turn stayed pending until
/// it was its turn, which may be in a year, and whoever waited for it waited as long.
#[test]
fn who_waits_for_its_turn_fails_when_its_time_is_over() {
    in_virtual_time(async {
        let machine = Machine::new();
        let builder = || builder().workflow(hurries).workflow(hurried);
        let config = || Config::default().shards(3);
        let runtime = machine.open(builder(), config()).await;
        let holder = runtime
            .start(stays, "365d".to_owned())
            .at_most(1, "late")
            .await
            .unwrap();
        let timed = runtime.start(stays, "1s".to_owned()).id("timed").deadline("20s");
        let timed = timed.at_most(1, "late").await.unwrap();
        let parent = runtime.start(hurries, ()).id("parent").await.unwrap();
        let in_time = runtime.start(stays, "1s".to_owned()).id("in time").deadline("2d");
        in_time.at_most(1, "late").await.unwrap();
        let _ = tokio::time::timeout(Duration::from_secs(5), std::future::pending::<()>()).await;
        for waits in [timed.id(), &everstep::InstanceId::new("hurried").unwrap()] {
            let status = runtime.instance(waits.as_str()).unwrap().status().await.unwrap();
            assert_eq!(
                (status.status, status.waits_for_turn.as_deref()),
                (Status::Pending, Some("late"))
            );
        }
        let told = parent.result().timeout("6s").await.unwrap();
        assert!(told.contains("the deadline of the instance has passed"), "{told}");
        drop((holder, timed, parent, runtime));
        // Nobody is there when the time of the other one is over.
        let _ = tokio::time::timeout(Duration::from_secs(60), std::future::pending::<()>()).await;
        let runtime = machine.open(builder(), config()).await;
        settle().await;
        let timed = runtime.handle(stays, "timed").unwrap();
        let Err(everstep::Error::Failed(failure)) = timed.result().timeout("1s").await else {
            panic!("its time is over");
        };
        assert_eq!(failure.kind, FailureKind::DeadlineExceeded);
        let in_time = runtime.handle(stays, "in time").unwrap();
        assert_eq!(in_time.status().await.unwrap().status, Status::Pending);
        let holder = runtime.list().workflow("stays").status(Status::Sleeping).await.unwrap();
        let holder = runtime.instance(&holder.rows[0].id).unwrap();
        holder.terminate("away").await.unwrap();
        in_time.result().timeout("1m").await.unwrap();
        assert!(runtime.store().verify().unwrap().is_clean());
    });
}

#[workflow(deadline = "10s", strategy = "quarantine")]
async fn is_kept(ctx: Ctx<IsKept>) -> Result<()> {
    ok(ctx.sleep("work", "1s").await?)
}

/// Found in a review: an instance whose time was over while it waited for its turn failed past everything that follows a
/// failure. Nobody who hears of incidents heard of it, and one that is to be kept for an operator was gone.
#[test]
fn who_fails_while_it_waits_for_its_turn_fails_like_others() {
    in_virtual_time(async {
        let (machine, told) = (Machine::new(), Arc::new(Mutex::new(Vec::new())));
        let builder = || {
            let told = Arc::clone(&told);
            let builder = builder().workflow(hurried).workflow(is_kept);
            builder.on_error(move |incident| {
                let (instance, kind) = (incident.instance.to_string(), incident.failure.kind);
                assert_eq!((incident.run, incident.consequence), (1, Consequence::WorkflowFailed));
                told.lock().unwrap().push((incident.workflow.clone(), instance, kind));
            })
        };
        let config = || Config::default().shards(3);
        let runtime = machine.open(builder(), config()).await;
        let holder = runtime.start(stays, "365d".to_owned()).at_most(1, "kept");
        let holder = holder.await.unwrap();
        let fails = runtime.start(hurried, ()).id("fails").at_most(1, "kept").await.unwrap();
        let kept = runtime.start(is_kept, ()).id("kept").at_most(1, "kept").await.unwrap();
        let cancelled = runtime.start(is_kept, ()).id("cancelled").at_most(1, "kept");
        let cancelled = cancelled.await.unwrap();
        let last = runtime.start(stays, "1s".to_owned()).id("last").at_most(1, "kept");
        last.await.unwrap();
        assert!(cancelled.cancel("enough").await.unwrap().is_done());
        let _ = tokio::time::timeout(Duration::from_secs(11), std::future::pending::<()>()).await;
        settle().await;
        assert_eq!(cancelled.status().await.unwrap().status, Status::Cancelled);
        assert_eq!(fails.status().await.unwrap().status, Status::Failed);
        let aside = kept.status().await.unwrap();
        assert_eq!((aside.status, aside.waits_for_turn), (Status::Quarantined, None));
        let report = aside.hold.unwrap().reason;
        assert!(report.contains("the deadline of the instance has passed"), "{report}");
        drop((holder, fails, kept, cancelled, runtime));
        let runtime = machine.open(builder(), config()).await;
        settle().await;
        let expected = [("hurried", "fails"), ("is_kept", "kept")];
        let expected = expected.map(|(of, id)| (of.to_owned(), id.to_owned(), FailureKind::DeadlineExceeded));
        assert_eq!(
            *told.lock().unwrap(),
            expected,
            "each once, and not of what was asked to end"
        );
        // It keeps nobody waiting, and has its time again when it is let out.
        let holder = runtime.list().workflow("stays").status(Status::Sleeping).await.unwrap();
        let holder = runtime.instance(&holder.rows[0].id).unwrap();
        holder.terminate("away").await.unwrap();
        let last = runtime.handle(stays, "last").unwrap();
        last.result().timeout("1m").await.unwrap();
        let kept = runtime.handle(is_kept, "kept").unwrap();
        assert!(kept.release().await.unwrap().is_done());
        kept.result().timeout("1m").await.unwrap();
        assert!(runtime.store().verify().unwrap().is_clean());
    });
}

//! What the verbs owe their users, each in every mode: staying in memory, dropped at every rest, and crashed before
//! and after every commit.

use std::sync::atomic::{AtomicU32, Ordering};

use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Accepts, Ctx, Loop, Message, Workflow, branch, critical, ok};
use serde::{Deserialize, Serialize};

/// A workflow from a name, an input type, an output type and a body.
macro_rules! workflow {
    ($name:ident, $input:ty, $output:ty, |$ctx:ident, $in:ident| $body:expr) => {
        define!($name: $input => $output, accepts [], |$ctx, $in| $body);
    };
}

#[derive(Debug, PartialEq, Message, Serialize, Deserialize)]
struct News(u32);

fn run<W: Workflow>(input: &W::Input) -> End<W::Output>
where
    W::Output: PartialEq + std::fmt::Debug,
{
    in_every_mode::<W, _>(1, |rig| {
        rig.start("i", input);
        rig.run("i").unwrap()
    })
}

workflow!(Sequence, u32, u32, |ctx, start| {
    let one = ctx.step("add", move || async move { ok(start + 1) }).await?;
    let two = ctx.step("double", move || async move { ok(one * 2) }).await?;
    ctx.step("nothing", || async { ok(()) }).await?;
    ok(two)
});

#[test]
fn steps_in_sequence_see_each_others_results() {
    assert_eq!(run::<Sequence>(&20), End::Completed(42));
}

#[test]
fn n_steps_cost_n_commits_and_the_end() {
    let mut rig = Rig::<Sequence>::new(Plan::Live, 1);
    rig.start("i", &20);
    rig.run("i").unwrap();
    assert_eq!(rig.commits(), 4, "three steps and the end");
}

static CALLS: AtomicU32 = AtomicU32::new(0);

workflow!(Flaky, (), u32, |ctx, _input| {
    let attempt = ctx
        .step("flaky", |attempt: everstep::Attempt| async move {
            everstep::ensure!(attempt.number() >= 3, "attempt {} failed", attempt.number());
            ok(attempt.number())
        })
        .await?;
    ok(attempt)
});

/// FAULTS 40.
#[test]
fn a_failing_step_is_tried_three_times() {
    assert_eq!(run::<Flaky>(&()), End::Completed(3));
}

workflow!(Hopeless, (), u32, |ctx, _input| {
    match ctx
        .try_step("hopeless", || async {
            Err::<u32, _>(everstep::WorkflowError::msg("no"))
        })
        .await?
    {
        Ok(value) => ok(value),
        Err(failure) => ok(failure.attempts * 100),
    }
});

#[test]
fn an_exhausted_step_can_be_caught() {
    assert_eq!(run::<Hopeless>(&()), End::Completed(300));
}

workflow!(Critical, (), u32, |ctx, _input| {
    let failed = ctx
        .step("critical", || async {
            CALLS.fetch_add(1, Ordering::Relaxed);
            Err::<u32, _>(critical(everstep::WorkflowError::msg("no")))
        })
        .await;
    ok(failed.unwrap_err().attempts)
});

/// FAULTS 41.
#[test]
fn a_critical_error_is_not_tried_again() {
    let mut rig = Rig::<Critical>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Completed(1));
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
}

workflow!(Sleepy, (), u64, |ctx, _input| {
    let before = ctx.now();
    ctx.sleep("a year", "52 weeks").await?;
    ok(ctx.now().duration_since(before).unwrap().as_secs() / 86_400)
});

#[test]
fn a_year_passes_at_once() {
    assert_eq!(run::<Sleepy>(&()), End::Completed(364));
}

workflow!(Listener, (), Vec<u32>, |ctx, _input| {
    let mut heard = Vec::new();
    for _ in 0..3 {
        heard.push(ctx.receive::<News>().await?.0);
    }
    ok(heard)
});

impl Accepts<News> for Listener {}

#[test]
fn messages_arrive_in_order_whenever_they_are_sent() {
    let heard = in_every_mode::<Listener, _>(1, |rig| {
        rig.start("i", &());
        rig.send("i", &News(1));
        rig.send("i", &News(2));
        assert_eq!(rig.run("i").unwrap(), End::Waiting);
        rig.send("i", &News(3));
        rig.run("i").unwrap()
    });
    assert_eq!(heard, End::Completed(vec![1, 2, 3]));
}

workflow!(Impatient, (), Option<u32>, |ctx, _input| {
    let first = ctx.receive::<News>().within("1h").await?;
    ok(first.map(|news| news.0))
});

impl Accepts<News> for Impatient {}

#[test]
fn a_wait_gives_up_in_time() {
    assert_eq!(run::<Impatient>(&()), End::Completed(None));
}

workflow!(Looping, u32, u32, |ctx, end| {
    let total = ctx
        .repeat(
            "sum",
            (0, 0),
            |ctx: Ctx<Looping>, (number, total): (u32, u32)| async move {
                let next = ctx.step("add", move || async move { ok(total + number) }).await?;
                if number == end {
                    return ok(Loop::Break(next));
                }
                ok(Loop::Continue((number + 1, next)))
            },
        )
        .commit_interval(3)
        .history_every(2)
        .history_keep(1)
        .await?;
    ok(total)
});

#[test]
fn a_loop_goes_on_where_it_was() {
    assert_eq!(run::<Looping>(&10), End::Completed(55));
}

#[test]
fn the_history_of_a_long_loop_stays_short() {
    let mut rig = Rig::<Looping>::new(Plan::Live, 1);
    rig.start("i", &1_000);
    assert_eq!(rig.run("i").unwrap(), End::Completed(500_500));
    assert!(rig.history("i").len() < 5, "{:?}", rig.history("i").keys());
    assert_eq!(rig.state("i").entries, rig.history("i").len() as u64);
}

workflow!(Joining, (), (u32, u32), |ctx, _input| {
    let both = ctx
        .join(
            "both",
            (
                branch("one", |ctx: Ctx<Joining>| async move {
                    ok(ctx.step("s", || async { ok(1_u32) }).await?)
                }),
                branch("two", |ctx: Ctx<Joining>| async move {
                    ctx.sleep("wait", "1s").await?;
                    ok(ctx.step("s", || async { ok(2_u32) }).await?)
                }),
            ),
        )
        .await?;
    ok(both)
});

#[test]
fn branches_of_a_join_are_scopes_of_their_own() {
    assert_eq!(run::<Joining>(&()), End::Completed((1, 2)));
}

workflow!(Racing, (), String, |ctx, _input| {
    let winner = ctx
        .race(
            "first",
            (
                branch("slow", |ctx: Ctx<Racing>| async move {
                    ctx.sleep("long", "10s").await?;
                    ok(1_u32)
                }),
                branch("quick", |ctx: Ctx<Racing>| async move {
                    ctx.sleep("short", "1s").await?;
                    ok(2_u32)
                }),
            ),
        )
        .await?;
    ctx.step("after", || async { ok(()) }).await?;
    ok(format!("{} {}", winner.name, winner.value))
});

/// FAULTS 29, 60.
#[test]
fn the_first_wins_and_the_loser_loses_its_alarm() {
    let end = in_every_mode::<Racing, _>(1, |rig| {
        rig.start("i", &());
        let begin = rig.now_ms();
        let end = rig.run("i").unwrap();
        assert_eq!(rig.now_ms() - begin, 1_000, "nobody waited for the loser");
        assert_eq!(rig.state("i").alarm_at_ms, None);
        end
    });
    assert_eq!(end, End::Completed("quick 2".into()));
}

workflow!(Mapping, Vec<u32>, Vec<u32>, |ctx, items| {
    let doubled = ctx
        .map("double", items, 2, |ctx: Ctx<Mapping>, item| async move {
            ok(ctx.step("s", move || async move { ok(item * 2) }).await?)
        })
        .await?;
    ok(doubled)
});

#[test]
fn a_map_gives_its_results_in_order() {
    assert_eq!(run::<Mapping>(&vec![3, 1, 2]), End::Completed(vec![6, 2, 4]));
}

workflow!(Twice, (), String, |ctx, _input| {
    ctx.step("same", || async { ok(1) }).await?;
    let failure = ctx.sleep("same", "1s").await.unwrap_err();
    ok(failure.to_string())
});

#[test]
fn a_name_that_is_used_twice_names_both() {
    let End::Completed(text) = run::<Twice>(&()) else {
        panic!("it completes");
    };
    assert!(
        text.contains("`same`") && text.contains("step") && text.contains("sleep"),
        "{text}"
    );
}

workflow!(Drawing, (), (u64, u64, String), |ctx, _input| {
    let drawn = (ctx.random(), ctx.random(), ctx.uuid());
    ctx.step("keep", || async { ok(()) }).await?;
    ok(drawn)
});

#[test]
fn chance_is_the_same_in_replay_and_differs_from_draw_to_draw() {
    let End::Completed((one, two, uuid)) = run::<Drawing>(&()) else {
        panic!("it completes");
    };
    assert_ne!(one, two);
    assert_eq!(uuid.len(), 36);
}

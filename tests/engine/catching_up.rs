//! Nothing new starts and nothing is written before replay has caught up, also when there is much to be said on the way.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Ctx, Loop, ok};

/// How often the function was called, how often what is new in it ran, and the part whose step has another name there.
static CALLS: AtomicU32 = AtomicU32::new(0);
static NEW: AtomicU32 = AtomicU32::new(0);
static LAST: AtomicUsize = AtomicUsize::new(usize::MAX);

// Other code, from when it is called for the second time: each part goes on with a step that is new, and one has another
// step in the place of the one that is recorded.
define!(Changes: usize => usize, accepts [], |ctx, many| {
    let is_new = CALLS.fetch_add(1, Ordering::Relaxed) > 0;
    let part = move |ctx: Ctx<Self>, number: usize| async move {
        let other = is_new && number == LAST.load(Ordering::Relaxed);
        ctx.step(if other { "t" } else { "s" }, || async { ok(()) }).await?;
        ctx.emit((number, "x".repeat(200_000)))?;
        if is_new {
            let work = || async { ok(NEW.fetch_add(1, Ordering::Relaxed)) };
            ctx.step("new", work).await?;
        }
        ok(())
    };
    ctx.map("m", 0..many, 1_000, part).await?;
    ok(many)
});

fn spread(plan: Plan) -> Rig<Changes> {
    let mut rig = Rig::new(plan, 1).spread(1, Duration::ZERO);
    rig.start("i", &20);
    rig
}

/// Found in review: after a crash between a commit and the delivery of what it completed, the code said more than a commit
/// should hold, and that was stored, with whatever else it asked for, before it had come to the end of its past.
#[test]
fn nothing_is_written_before_it_is_known_that_the_code_comes_to_the_end_of_its_past() {
    let mut live = spread(Plan::Live);
    assert_eq!(live.run("i").unwrap(), End::Completed(20));
    let history = live.history("i").into_iter();
    let steps = history.filter_map(|(path, entry)| Some((entry.completed?.order, path)));
    let (_, last) = steps.max().unwrap();
    let number = last.split(['~', '/']).find_map(|part| part.parse().ok()).unwrap();
    LAST.store(number, Ordering::Relaxed);
    CALLS.store(0, Ordering::Relaxed);
    let mut rig = spread(Plan::CrashAfter(1));
    let divergence = rig.run("i").unwrap_err();
    assert_eq!(divergence.path, last);
    assert_eq!(NEW.load(Ordering::Relaxed), 0, "nothing new was begun");
    assert_eq!(rig.commits(), 1, "nothing was written");
    assert!(rig.emitted::<(usize, String)>("i").is_empty());
}

define!(SaysMuch: usize => usize, accepts [], |ctx, many| {
    let part = |ctx: Ctx<Self>, number: usize| async move {
        ctx.step("s", || async { ok(()) }).await?;
        let body = |ctx: Ctx<Self>, turn: usize| async move {
            ctx.emit((turn, "x".repeat(150_000)))?;
            ok(if turn == 3 { Loop::Break(()) } else { Loop::Continue(turn + 1) })
        };
        ctx.repeat("turns", 0, body).commit_interval(1).history_keep(0).await?;
        ctx.compensate("undo", "x".repeat(100_000), |_: String| async { ok(()) });
        ok(ctx.step("t", move || async move { ok(number) }).await?)
    };
    let numbers = ctx.map("m", 0..many, 1_000, part).await?;
    ctx.sleep("nap", "1h").await?;
    ok(numbers.len())
});

/// What the code does on its way is stored once, in commits that fit, wherever the process dies.
#[test]
fn what_is_said_on_the_way_is_stored_once() {
    let script = |plan| {
        let mut rig = Rig::<SaysMuch>::new(plan, 1).spread(1, Duration::ZERO);
        rig.start("i", &15);
        assert_eq!(rig.run("i").unwrap(), End::Completed(15), "{plan:?}");
        let items = rig.emitted::<(usize, String)>("i").into_iter();
        let mut turns: Vec<usize> = items.map(|(_, (turn, _))| turn).collect();
        turns.sort_unstable();
        let expected: Vec<usize> = (0..4).flat_map(|turn| [turn; 15]).collect();
        assert_eq!(turns, expected, "{plan:?}");
        assert_eq!(rig.replay("i").unwrap(), Some(End::Completed(15)), "{plan:?}");
        rig.commits()
    };
    let commits = script(Plan::Live);
    assert!(commits > 8, "{commits}");
    script(Plan::Evict);
    for commit in 1..=commits {
        script(Plan::CrashBefore(commit));
        script(Plan::CrashAfter(commit));
    }
}

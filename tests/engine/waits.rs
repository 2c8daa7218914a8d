//! Instances that wait: what is recorded of it, how it looks from outside, and that restarts neither shorten nor
//! prolong it.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Attempt, Backoff, Ctx, Result, Workflow, ok};

const HOUR: Duration = Duration::from_secs(3_600);

struct Flaky;

impl Workflow for Flaky {
    const NAME: &'static str = "flaky";
    type Input = ();
    type Output = u32;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<u32> {
        let flaky = |attempt: Attempt| async move {
            everstep::ensure!(attempt.number() == 3, "attempt {} fails", attempt.number());
            ok(attempt.number())
        };
        let step = ctx.step("flaky", flaky).delay("40s").backoff(Backoff::Fixed);
        Ok(step.await?)
    }
}

#[test]
fn a_step_that_backs_off_keeps_its_attempts_and_its_time() {
    let waited = in_every_mode::<Flaky, _>(1, |rig| {
        let begin = rig.now_ms();
        rig.start("i", &());
        assert_eq!(rig.run_for("i", Duration::from_secs(1)).unwrap(), End::Waiting);
        let state = rig.state("i");
        assert_eq!(state.status, Status::BackingOff);
        assert!(state.alarm_at_ms.is_some_and(|at| at > rig.now_ms()));
        assert_eq!(rig.attempts_len("i"), 1);
        assert_eq!(rig.run("i").unwrap(), End::Completed(3));
        rig.now_ms() - begin
    });
    assert!((40_000..=80_000).contains(&waited), "two waits with jitter: {waited}");
}

struct Far;

impl Workflow for Far {
    const NAME: &'static str = "far";
    type Input = u64;
    type Output = bool;

    async fn run(ctx: Ctx<Self>, years: u64) -> Result<bool> {
        let far = ctx.now() + Duration::from_secs(years * 365 * 24 * 3_600);
        ok(ctx.sleep_until("far", far).await.is_ok())
    }
}

/// BEHAVIOUR 14. Found in review: the longest wait was counted from 1970, and no time after 2070 could be waited for.
#[test]
fn a_time_is_as_far_away_as_it_is_from_now() {
    for (years, waits) in [(45, true), (99, true), (101, false)] {
        let end = in_every_mode::<Far, _>(1, |rig| {
            rig.start("i", &years);
            rig.run("i").unwrap()
        });
        assert_eq!(end, End::Completed(waits), "{years} years from now");
    }
}

struct Naps;

impl Workflow for Naps {
    const NAME: &'static str = "naps";
    type Input = Vec<u64>;
    type Output = u64;

    async fn run(ctx: Ctx<Self>, naps: Vec<u64>) -> Result<u64> {
        let begin = ctx.now();
        for (number, secs) in naps.into_iter().enumerate() {
            ctx.sleep(&format!("nap {number}"), Duration::from_secs(secs)).await?;
        }
        ok(ctx.now().duration_since(begin)?.as_secs())
    }
}

#[test]
fn a_sleep_of_no_time_is_recorded_with_one_commit_and_another_with_two() {
    let commits = |naps: Vec<u64>| {
        let mut rig = Rig::<Naps>::new(Plan::Live, 1).audited();
        rig.start("i", &naps);
        assert_eq!(rig.run("i").unwrap(), End::Completed(naps.iter().sum()));
        assert_eq!(rig.history("i").len(), naps.len());
        rig.commits() - 1
    };
    assert_eq!(commits(vec![0]), 1);
    assert_eq!(commits(vec![5]), 2);
}

/// Found by reading: a sleep that was taken up again was recorded again, so every restart wrote once for each sleeper.
#[test]
fn taking_a_sleep_up_again_writes_nothing() {
    let mut rig = Rig::<Naps>::new(Plan::Live, 1);
    rig.start("i", &vec![7_200]);
    for _ in 0..3 {
        assert_eq!(rig.run_for("i", HOUR / 2).unwrap(), End::Waiting);
        assert_eq!(rig.state("i").status, Status::Sleeping);
        assert_eq!(rig.commits(), 1);
    }
    assert_eq!(rig.run("i").unwrap(), End::Completed(7_200));
}

#[derive(Debug, everstep::Message, serde::Serialize, serde::Deserialize)]
struct News(u32);

struct Listens;

impl Workflow for Listens {
    const NAME: &'static str = "listens";
    type Input = ();
    type Output = String;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<String> {
        ok(match ctx.receive::<News>().within("60s").await? {
            Some(news) => format!("heard {}", news.0),
            None => "heard nothing".to_owned(),
        })
    }
}

impl everstep::Accepts<News> for Listens {}

/// BEHAVIOUR 17. Found in every mode but one: a message that came at the very millisecond at which the wait gave up
/// was heard by an instance in memory, and by one that was loaded at that moment it was not.
#[test]
fn a_message_that_is_there_wins_over_a_time_that_is_over() {
    let heard = |after| {
        in_every_mode::<Listens, _>(1, |rig| {
            rig.start("i", &());
            rig.send_after("i", Duration::from_millis(after), &News(1));
            let End::Completed(heard) = rig.run("i").unwrap() else {
                panic!("it ends");
            };
            (heard, rig.inbox_len("i"))
        })
    };
    assert_eq!(heard(59_999), ("heard 1".to_owned(), 0));
    assert_eq!(heard(60_000), ("heard 1".to_owned(), 0));
    assert_eq!(heard(60_001), ("heard nothing".to_owned(), 0));
}

struct Until;

impl Workflow for Until {
    const NAME: &'static str = "until";
    type Input = ();
    type Output = Vec<u64>;

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<Vec<u64>> {
        let begin = ctx.now();
        let since = || ctx.now().duration_since(begin).unwrap().as_secs();
        let mut seen = Vec::new();
        ctx.sleep_until("past", begin - HOUR).await?;
        seen.push(since());
        ctx.sleep("text", "1m30s").await?;
        seen.push(since());
        ctx.sleep_until("later", begin + HOUR).await?;
        seen.push(since());
        ok(seen)
    }
}

/// BEHAVIOUR 14, 15: until a time, which may have passed; each is recorded, and fixed whatever restarts.
#[test]
fn a_sleep_ends_at_its_time() {
    let (end, paths) = in_every_mode::<Until, _>(1, |rig| {
        rig.start("i", &());
        let end = rig.run("i").unwrap();
        (end, rig.history("i").into_keys().collect::<Vec<_>>())
    });
    assert_eq!(end, End::Completed(vec![0, 90, 3_600]));
    assert_eq!(paths, ["later", "past", "text"]);
}

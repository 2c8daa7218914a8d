//! A promise is decided from outside, once, by whoever has its token, before or after it is awaited.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use everstep::storage::record::{EntryKind, FailureKind, Status};
use everstep::testing::rig::{End, Plan, Rig, in_every_mode};
use everstep::{Ctx, branch, ok};
use futures_util::FutureExt;

macro_rules! workflow {
    ($name:ident, $input:ty, |$ctx:ident, $value:pat_param| $body:expr) => {
        define!($name: $input => Vec<String>, accepts [], |$ctx, $value| $body);
    };
}

const MINUTE: Duration = Duration::from_secs(60);

workflow!(Consent, u64, |ctx, patience| {
    let consent = ctx.promise::<u32>("consent")?;
    ctx.step("ask", || async { ok(()) }).await?;
    ctx.sleep("calm", "30s").await?;
    match consent.timeout(Duration::from_secs(patience)).await {
        Ok(value) => ok(vec![format!("{value}")]),
        Err(failure) => ok(vec![format!("{:?} at {}", failure.kind, failure.path)]),
    }
});

fn consent(patience: u64, plan: impl Fn(&mut Rig<Consent>)) -> Vec<String> {
    in_every_mode::<Consent, _>(1, |rig| {
        rig.start("i", &patience);
        plan(rig);
        let End::Completed(seen) = rig.run("i").unwrap() else {
            panic!("it ends");
        };
        assert_eq!(rig.inbox_len("i"), 0, "nothing piles up");
        assert_eq!(rig.replay("i").unwrap(), Some(End::Completed(seen.clone())));
        seen
    })
}

/// Before it is awaited, while it is, and at the very millisecond at which the wait is over.
#[test]
fn a_decision_reaches_the_code_whenever_it_comes() {
    for after in [1, 10, 29, 30, 31, 60, 90] {
        let seen = consent(60, |rig| {
            rig.settle_after("i", Duration::from_secs(after), "consent", &7_u32);
        });
        assert_eq!(seen, ["7"], "after {after} s");
    }
    assert_eq!(consent(60, |_| ()), ["TimedOut at consent"]);
}

#[test]
fn a_promise_can_be_rejected() {
    let seen = consent(60, |rig| rig.reject_after("i", MINUTE, "consent", "no"));
    assert_eq!(seen, ["Rejected at consent"]);
}

/// The time is counted from when it is first awaited, and a restart neither shortens nor prolongs it.
#[test]
fn a_promise_gives_up_in_time() {
    let waited = in_every_mode::<Consent, _>(1, |rig| {
        let begin = rig.now_ms();
        rig.start("i", &3_600);
        assert_eq!(rig.run_for("i", MINUTE).unwrap(), End::Waiting);
        assert_eq!(rig.state("i").status, Status::Waiting);
        rig.run("i").unwrap();
        rig.now_ms() - begin
    });
    assert_eq!(waited, 3_630_000);
}

workflow!(Dropped, (), |ctx, ()| {
    let race = ctx.race(
        "first",
        (
            branch("promise", |ctx: Ctx<Dropped>| async move {
                ok(ctx.promise::<u32>("p")?.await?.to_string())
            }),
            branch("sleep", |ctx: Ctx<Dropped>| async move {
                ctx.sleep("s", "10s").await?;
                ok("slept".to_owned())
            }),
        ),
    );
    let winner = race.await?;
    ctx.sleep("more", "1m").await?;
    ok(vec![winner.value])
});

/// What is decided for an operation that nobody waits for any more goes away, and changes nothing.
#[test]
fn decisions_for_nobody_do_not_pile_up() {
    in_every_mode::<Dropped, _>(1, |rig| {
        rig.start("i", &());
        rig.settle_after("i", Duration::from_secs(20), "first/promise/p", &1_u32);
        rig.settle_after("i", Duration::from_secs(21), "first/promise/p", &2_u32);
        assert_eq!(rig.run_for("i", Duration::from_secs(30)).unwrap(), End::Waiting);
        assert_eq!(rig.inbox_len("i"), 0);
        assert_eq!(rig.run("i").unwrap(), End::Completed(vec!["slept".to_owned()]));
    });
}

workflow!(Selecting, (), |ctx, ()| {
    let mut seen = Vec::new();
    for turn in 0..6 {
        let one = ctx.promise::<u32>(&format!("one {turn}"))?;
        let two = ctx.promise::<u32>(&format!("two {turn}"))?;
        let (mut one, mut two) = (one.fuse(), two.fuse());
        seen.push(futures_util::select! {
            value = one => format!("one {}", value?),
            value = two => format!("two {}", value?),
        });
    }
    ok(seen)
});

/// Two decisions that are there together are seen in the order in which they were told.
#[test]
fn decisions_come_one_at_a_time_in_their_order() {
    let end = in_every_mode::<Selecting, _>(3, |rig| {
        rig.start("i", &());
        for turn in 0..6 {
            rig.run("i").unwrap();
            let (first, second) = if turn % 2 == 0 { ("one", "two") } else { ("two", "one") };
            rig.settle_after("i", MINUTE, &format!("{first} {turn}"), &turn);
            rig.settle_after("i", MINUTE, &format!("{second} {turn}"), &99);
        }
        rig.run("i").unwrap()
    });
    let seen = ["one 0", "two 1", "one 2", "two 3", "one 4", "two 5"];
    assert_eq!(end, End::Completed(seen.map(str::to_owned).to_vec()));
}

static TOKENS: LazyLock<Arc<Mutex<Vec<String>>>> = LazyLock::new(Arc::default);

workflow!(Asking, (), |ctx, ()| {
    let promise = ctx.promise::<String>("p")?;
    let token = promise.token();
    let mail = move || {
        let token = token.clone();
        async move {
            TOKENS.lock().unwrap().push(token);
            ok(())
        }
    };
    ctx.step("mail", mail).await?;
    ok(vec![promise.await?])
});

/// A token that anybody has seen belongs to a promise that is recorded; it decides once, and says so the second time.
#[test]
fn a_token_is_durable_before_it_is_seen_and_decides_once() {
    in_every_mode::<Asking, _>(1, |rig| {
        TOKENS.lock().unwrap().clear();
        rig.start("i.2", &());
        assert_eq!(rig.run("i.2").unwrap(), End::Waiting);
        let tokens = TOKENS.lock().unwrap().clone();
        assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
        let bent = tokens[0].replace("i.2.", "i.2.9");
        assert_eq!(rig.resolve(&bent, &"no").unwrap_err().code(), "ES0106");
        assert!(rig.resolve(&tokens[0], &"yes").unwrap());
        assert!(!rig.resolve(&tokens[0], &"again").unwrap());
        assert_eq!(rig.run("i.2").unwrap(), End::Completed(vec!["yes".to_owned()]));
    });
    // The attempt that is given the token runs only when the promise is recorded.
    let mut rig = Rig::<Asking>::new(Plan::CrashBefore(1), 1);
    TOKENS.lock().unwrap().clear();
    rig.start("i", &());
    rig.run("i").unwrap();
    assert_eq!(TOKENS.lock().unwrap().len(), 1, "nothing was mailed before the crash");
    assert!(matches!(rig.history("i")["p"].kind, EntryKind::Promise { .. }));
}

workflow!(Cancelled, (), |ctx, ()| {
    let promise = ctx.promise::<u32>("p")?;
    let failure = promise.await.unwrap_err();
    let refused = ctx.promise::<u32>("another").unwrap_err();
    let shielded = ctx.shield().promise::<u32>("shielded")?.timeout("1m").await;
    let seen = [failure.kind, refused.kind, shielded.unwrap_err().kind];
    ctx.set("seen", seen.map(|kind| format!("{kind:?}")))?;
    ok(vec![])
});

#[test]
fn a_promise_ends_with_the_instance_unless_it_is_shielded() {
    let seen = in_every_mode::<Cancelled, _>(1, |rig| {
        rig.start("i", &());
        rig.cancel_after("i", MINUTE, "enough");
        rig.run("i").unwrap();
        rig.published::<[String; 3]>("i", "seen").unwrap()
    });
    assert_eq!(seen, ["Cancelled", "Cancelled", "TimedOut"]);
}

workflow!(Misused, (), |ctx, ()| {
    let _one = ctx.promise::<u32>("p")?;
    let two = ctx.promise::<u32>("p").unwrap_err();
    ok(vec![format!("{:?}", two.kind)])
});

#[test]
fn a_name_promises_once() {
    let end = in_every_mode::<Misused, _>(1, |rig| {
        rig.start("i", &());
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed(vec![format!("{:?}", FailureKind::Misuse)]));
}

workflow!(OneIsDropped, (), |ctx, ()| {
    let stale = ctx.promise::<String>("stale")?;
    let wanted = ctx.promise::<String>("wanted")?;
    ctx.sleep("a while", "1s").await?;
    drop(stale);
    ok(vec![wanted.await?])
});

/// Found in review: what is decided is taken from the inbox up to so many bytes at a time. If all of that was for
/// promises that nobody waits for any more, nobody looked at what lay behind it, not even after a restart.
#[test]
fn a_decision_is_noticed_behind_what_is_for_nobody() {
    let end = in_every_mode::<OneIsDropped, _>(1, |rig| {
        rig.start("i", &());
        rig.settle_after("i", MINUTE, "stale", &"x".repeat(1_200_000));
        rig.settle_after("i", MINUTE, "wanted", &"yes".to_owned());
        rig.run("i").unwrap()
    });
    assert_eq!(end, End::Completed(vec!["yes".to_owned()]));
}

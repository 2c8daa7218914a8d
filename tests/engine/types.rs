//! Types that change under running instances: what new code can't read, it was not recorded for.

use everstep::storage::record::FailureKind;
use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Ctx, Loop, Message, Result, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct News(u32);

/// Code of the one workflow that these tests deploy again and again.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = u32;

            async fn run($ctx: Ctx<Self>, _: ()) -> Result<u32> {
                $body;
                ok($ctx.receive::<News>().await?.0)
            }
        }

        impl Accepts<News> for $name {}
    };
}

/// Where new code diverges from what old code recorded; the old code goes on where it was.
fn diverges<Old, New>() -> String
where
    Old: Workflow<Input = (), Output = u32> + Accepts<News>,
    New: Workflow<Output = u32>,
{
    let mut old = Rig::<Old>::new(Plan::Evict, 1);
    old.start("i", &());
    assert_eq!(old.run("i").unwrap(), End::Waiting);
    let mut new = old.deploy::<New>();
    let divergence = new.run("i").expect_err("what can't be read is divergence");
    let mut old = new.deploy::<Old>();
    old.send("i", &News(7));
    assert_eq!(old.run("i").unwrap(), End::Completed(7));
    divergence.path
}

code!(GivesNumber, |ctx| ctx.step("reserve", || async { ok(7_u32) }).await?);
code!(GivesPair, |ctx| ctx
    .step("reserve", || async { ok((7_u32, "x".to_owned())) })
    .await?);
code!(Catches, |ctx| ctx
    .step("reserve", || async { ok((7_u32, "x".to_owned())) })
    .await
    .ok());

/// A loop with this state, which breaks with this value, or does not break.
macro_rules! looping {
    ($name:ident, $state:expr, $value:expr, $breaks:expr) => {
        code!($name, |ctx| {
            let body = |ctx: Ctx<$name>, _| async move {
                ctx.step("step", || async { ok(()) }).await?;
                if !$breaks {
                    ctx.receive::<News>().await?;
                }
                ok(Loop::Break($value))
            };
            ctx.repeat("loop", $state, body).await?
        });
    };
}

looping!(CountsTo7, 1_u32, 7_u32, true);
looping!(CountsToText, 1_u32, "seven".to_owned(), true);
looping!(WaitsWithNumber, 1_u32, 7_u32, false);
looping!(WaitsWithText, "one".to_owned(), 7_u32, false);

/// Found in review: an instance whose new code had another type for what was recorded failed, and all that it had done
/// was undone. That code does not fit the history, which is never a failure.
#[test]
fn what_new_code_can_not_read_is_divergence() {
    assert_eq!(diverges::<GivesNumber, GivesPair>(), "reserve");
    assert_eq!(diverges::<GivesNumber, Catches>(), "reserve");
    assert_eq!(diverges::<CountsTo7, CountsToText>(), "loop");
}

#[test]
fn a_state_that_new_code_can_not_read_is_divergence() {
    let mut old = Rig::<WaitsWithNumber>::new(Plan::Evict, 1);
    old.start("i", &());
    assert_eq!(old.run("i").unwrap(), End::Waiting);
    let divergence = old.deploy::<WaitsWithText>().run("i").unwrap_err();
    assert_eq!(divergence.path, "loop", "{divergence}");
}

define!(Decides: () => u32, accepts [], |ctx, _| {
    let promise = ctx.promise::<u32>("promise")?;
    let failure = promise.await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Payload);
    ok(1)
});

/// What others send may be anything, and what the code makes of that is up to the code.
#[test]
fn what_others_send_may_be_of_another_type() {
    let mut rig = Rig::<Decides>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.settle_after("i", std::time::Duration::from_secs(1), "promise", &"text");
    assert_eq!(rig.run("i").unwrap(), End::Completed(1));
    assert_eq!(rig.replay("i").unwrap(), Some(End::Completed(1)));
}

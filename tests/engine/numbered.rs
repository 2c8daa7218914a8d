//! Operations that have a number and no name: what is compared with history so that one is not answered with what
//! another one did.

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Accepts, Ctx, Divergence, Message, Result, Workflow, ok};
use serde::{Deserialize, Serialize};

#[derive(Debug, Message, Serialize, Deserialize)]
struct Paid(u32);

#[derive(Debug, Message, Serialize, Deserialize)]
struct Logged(u32);

/// Code of the one workflow that these tests deploy again and again.
macro_rules! code {
    ($name:ident, |$ctx:ident| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name;

        impl Workflow for $name {
            const NAME: &'static str = "deployed";
            type Input = ();
            type Output = u32;

            async fn run($ctx: Ctx<Self>, _: ()) -> Result<u32> {
                $body;
                ok($ctx.receive::<Paid>().await?.0)
            }
        }

        impl Accepts<Paid> for $name {}
        impl Accepts<Logged> for $name {}
    };
}

define!(Little: () => u32, accepts [], |ctx, _| {
    ctx.sleep("long", "10d").await?;
    ok(1)
});

/// Runs an instance of one code, deploys other code, and then the first again, which goes on.
fn refused<V: Workflow<Input = (), Output = u32> + Accepts<Paid>, W: Workflow<Output = u32>>() -> Divergence {
    let mut rig = Rig::<V>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    let before = (rig.history("i"), rig.state("i"));
    let mut wrong = rig.deploy::<W>();
    let Err(divergence) = wrong.run("i") else {
        panic!("code that does not fit was run");
    };
    let mut right = wrong.deploy::<V>();
    assert_eq!((right.history("i"), right.state("i")), before, "nothing is written");
    right.send("i", &Paid(42));
    assert_eq!(right.run("i").unwrap(), End::Completed(42), "the fixed code goes on");
    divergence
}

fn report(divergence: &Divergence) -> (&str, Option<&str>, Option<&str>) {
    let Divergence {
        path, recorded, asked, ..
    } = divergence;
    (path, recorded.as_deref(), asked.as_deref())
}

code!(Pays, |ctx| ctx.send(Pays, "shop", Paid(1)).await?);
code!(LogsAndPays, |ctx| {
    ctx.send(Pays, "audit", Logged(1)).await?;
    ctx.send(Pays, "shop", Paid(1)).await?;
});
code!(PaysAnother, |ctx| ctx.send(Pays, "bakery", Paid(1)).await?);

/// Found in review: all sends of a scope share one numbering, and only that it was a send was compared. A message that
/// new code sent first was answered with the record of the old one: it was never sent, and the old one was sent twice.
#[test]
fn a_message_is_not_taken_for_another_one_that_was_sent() {
    let divergence = refused::<Pays, LogsAndPays>();
    let found = ("send~0", Some("send, Paid to shop"), Some("send, Logged to audit"));
    assert_eq!(report(&divergence), found, "{divergence}");
    let divergence = refused::<Pays, PaysAnother>();
    let found = ("send~0", Some("send, Paid to shop"), Some("send, Paid to bakery"));
    assert_eq!(report(&divergence), found, "{divergence}");
}

code!(PaysChild, |ctx| ctx
    .send(Pays, "0123456789abcdef0123456789abcdef", Paid(1))
    .await?);
code!(PaysChildOfAnotherRun, |ctx| ctx
    .send(Pays, "fedcba9876543210fedcba9876543210", Paid(1))
    .await?);

/// Found by the simulation: a reset had closed a child and started it once more, under another id. What had been sent to
/// the first one was kept, and taken for something else than what the code sends: the instance was stuck.
#[test]
fn a_message_to_a_child_is_the_same_under_the_id_of_another_run() {
    let mut rig = Rig::<PaysChild>::new(Plan::Live, 1);
    rig.start("i", &());
    assert_eq!(rig.run("i").unwrap(), End::Waiting);
    let mut rig = rig.deploy::<PaysChildOfAnotherRun>();
    rig.send("i", &Paid(42));
    assert_eq!(rig.run("i").unwrap(), End::Completed(42));
}

code!(PublishesPaid, |ctx| ctx.publish(Paid(1)).await?);
code!(PublishesLogged, |ctx| ctx.publish(Logged(1)).await?);

/// Found in review, with the sends.
#[test]
fn an_event_is_not_taken_for_another_one_that_was_published() {
    let divergence = refused::<PublishesPaid, PublishesLogged>();
    let found = ("publish~0", Some("publish, Paid"), Some("publish, Logged"));
    assert_eq!(report(&divergence), found, "{divergence}");
}

code!(StartsA, |ctx| ctx.child(Little, ()).id("a").detach().await?);
code!(StartsB, |ctx| ctx.child(Little, ()).id("b").detach().await?);
code!(StartsOne, |ctx| ctx.child(Little, ()).detach().await?);

/// Found in review, with the sends. An id that follows from the place needs no comparing: the place is the same.
#[test]
fn a_child_is_not_taken_for_another_one_that_was_started() {
    let divergence = refused::<StartsA, StartsB>();
    let found = ("Little~0", Some("child, Little as a"), Some("child, Little as b"));
    assert_eq!(report(&divergence), found, "{divergence}");
    let divergence = refused::<StartsA, StartsOne>();
    assert_eq!(report(&divergence).1, Some("child, Little as a"), "{divergence}");
    let divergence = refused::<StartsOne, StartsA>();
    assert_eq!(report(&divergence).2, Some("child, Little as a"), "{divergence}");
}

code!(DrawsInNews, |ctx| {
    let scope = |ctx: Ctx<DrawsInNews>| async move { ok(ctx.random()) };
    ctx.try_scope("Paid", scope).await?.ok()
});

/// Found in review: what was drawn in a scope, and what has a number in it, were counted together.
#[test]
fn what_is_drawn_in_a_scope_numbers_nothing() {
    let mut rig = Rig::<DrawsInNews>::new(Plan::Live, 1);
    rig.start("i", &());
    rig.send("i", &Paid(1));
    assert_eq!(rig.run("i").unwrap(), End::Completed(1));
    assert_eq!(rig.history("i").into_keys().collect::<Vec<_>>(), ["Paid~0"]);
}

code!(Waits, |ctx| {
    let wait = ctx.wait_event::<Logged>();
    futures_util::future::select(wait, ctx.sleep("nap", "1s")).await
});
code!(WaitsOn, |ctx| {
    let (event, slept) = futures_util::join!(ctx.wait_event::<Logged>(), ctx.sleep("nap", "1s"));
    (event?, slept?)
});
code!(Starts, |ctx| {
    let child = IntoFuture::into_future(ctx.child(Little, ()).id("little"));
    futures_util::future::select(child, ctx.sleep("nap", "1s")).await
});
code!(StartsAndWaits, |ctx| {
    let child = IntoFuture::into_future(ctx.child(Little, ()).id("little"));
    let (child, slept) = futures_util::join!(child, ctx.sleep("nap", "1s"));
    (child?, slept?)
});

/// Found in review: the topic had been told that nobody waits, or the child to end, and new code waited all the same, for
/// ever and without a word.
#[test]
fn code_that_waits_for_what_was_given_up_diverges() {
    let divergence = refused::<Waits, WaitsOn>();
    let found = (
        "Logged~0",
        Some("event that was given up"),
        Some("event that it waits for"),
    );
    assert_eq!(report(&divergence), found, "{divergence}");
    let divergence = refused::<Starts, StartsAndWaits>();
    let found = (
        "Little~0",
        Some("child that was closed, little"),
        Some("child that it waits for"),
    );
    assert_eq!(report(&divergence), found, "{divergence}");
}

//! Schedules: each slot starts one instance at most, whatever crashes. FAULTS 30.
//!
//! The worlds begin on the first of January 2030, at midnight UTC.

use std::time::{Duration, UNIX_EPOCH};

use everstep::storage::record::Status;
use everstep::testing::rig::Plan;
use everstep::testing::world::{World, in_every_world};
use everstep::{CatchUp, Cron, Ctx, Every, Once, Overlap, Result, Workflow, ok};

/// The beginning of 2030, where every world begins.
const BEGINNING_MS: u64 = 1_893_456_000_000;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// Takes so many minutes.
#[derive(Clone, Copy)]
struct Works;

impl Workflow for Works {
    const NAME: &'static str = "works";
    type Input = u64;
    type Output = ();

    async fn run(ctx: Ctx<Self>, minutes: u64) -> Result<()> {
        ctx.sleep("work", MINUTE * u32::try_from(minutes).unwrap()).await?;
        ok(())
    }
}

/// Takes 90 minutes to clean up when it is cancelled.
#[derive(Clone, Copy)]
struct Lingers;

impl Workflow for Lingers {
    const NAME: &'static str = "lingers";
    type Input = ();
    type Output = ();

    async fn run(ctx: Ctx<Self>, (): ()) -> Result<()> {
        let worked = ctx.sleep("work", "30d").await;
        ctx.shield().sleep("clean up", "90m").await?;
        ok(worked?)
    }
}

fn world(plan: Plan) -> World {
    World::new(plan, 11).workflow(Works).workflow(Lingers)
}

/// The instances that there are, by the time of their slot, when they began, and how they are.
fn begun(world: &World) -> Vec<(String, u64, Status)> {
    let slots = world.instances().into_iter().filter(|id| id.starts_with("s-"));
    let told = slots.map(|id| {
        let begun_at_ms = world.origin(&id).unwrap().created_at_ms - BEGINNING_MS;
        let slot = id.strip_prefix("s-2030-").unwrap();
        (slot.to_owned(), begun_at_ms / 60_000, world.status(&id).unwrap())
    });
    told.collect()
}

fn expect(begun: &[(String, u64, Status)], expected: &[(&str, u64, Status)]) {
    let begun: Vec<_> = begun.iter().map(|(slot, at, how)| (slot.as_str(), *at, *how)).collect();
    assert_eq!(begun, expected);
}

/// Every hour, with instances that take as long as is said, for as long as is said, in every mode.
fn hourly(overlap: Overlap, minutes: u64, long: Duration) -> Vec<(String, u64, Status)> {
    in_every_world(world, |world| {
        let policies = (overlap, CatchUp::One);
        world.schedule(Works, "s", Every::new("1h"), policies, &minutes);
        world.run_for(long).unwrap();
        assert_eq!(world.in_transit(), 0);
        begun(world)
    })
}

#[test]
fn every_slot_starts_one_instance_whatever_crashes() {
    for overlap in [Overlap::Skip, Overlap::Queue, Overlap::CancelOld, Overlap::Allow] {
        let begun = hourly(overlap, 10, HOUR * 3 + MINUTE);
        expect(
            &begun,
            &[
                ("01-01T01:00:00Z", 60, Status::Completed),
                ("01-01T02:00:00Z", 120, Status::Completed),
                ("01-01T03:00:00Z", 180, Status::Sleeping),
            ],
        );
    }
}

#[test]
fn a_slot_is_passed_over_while_an_earlier_one_runs() {
    let begun = hourly(Overlap::Skip, 90, HOUR * 5 + MINUTE);
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 60, Status::Completed),
            ("01-01T03:00:00Z", 180, Status::Completed),
            ("01-01T05:00:00Z", 300, Status::Sleeping),
        ],
    );
}

#[test]
fn slots_queue_behind_an_earlier_one() {
    let begun = hourly(Overlap::Queue, 90, HOUR * 4 + MINUTE);
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 60, Status::Completed),
            ("01-01T02:00:00Z", 150, Status::Completed),
            ("01-01T03:00:00Z", 240, Status::Sleeping),
        ],
    );
}

#[test]
fn a_slot_takes_the_place_of_an_earlier_one() {
    let begun = hourly(Overlap::CancelOld, 90, HOUR * 3 + MINUTE);
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 60, Status::Cancelled),
            ("01-01T02:00:00Z", 120, Status::Cancelled),
            ("01-01T03:00:00Z", 180, Status::Sleeping),
        ],
    );
}

/// The new one begins when the old one has ended, and not beside it. Of two that wait for that, the newer.
#[test]
fn a_slot_waits_for_the_end_of_the_one_that_it_replaces() {
    let begun = in_every_world(world, |world| {
        let policies = (Overlap::CancelOld, CatchUp::One);
        world.schedule(Lingers, "s", Every::new("1h"), policies, &());
        world.run_for(HOUR * 3 + MINUTE * 50).unwrap();
        begun(world)
    });
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 60, Status::Cancelled),
            ("01-01T03:00:00Z", 210, Status::Sleeping),
        ],
    );
}

#[test]
fn slots_run_side_by_side() {
    let begun = hourly(Overlap::Allow, 90, HOUR * 2 + MINUTE);
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 60, Status::Sleeping),
            ("01-01T02:00:00Z", 120, Status::Sleeping),
        ],
    );
}

/// The instances that were begun after nobody was there from 1:30 to 4:40, for slots at every full hour.
fn after_downtime(catch_up: CatchUp) -> Vec<(String, u64, Status)> {
    in_every_world(world, |world| {
        let policies = (Overlap::Allow, catch_up);
        world.schedule(Works, "s", Cron::new("0 * * * *"), policies, &10);
        world.run_for(MINUTE * 90).unwrap();
        world.be_down_for(MINUTE * 190);
        world.run_for(MINUTE * 30).unwrap();
        begun(world)
    })
}

/// FAULTS 30: three hours of downtime, each policy, each slot at most once.
#[test]
fn what_was_missed_is_caught_up_with_by_policy() {
    let first = ("01-01T01:00:00Z", 60, Status::Completed);
    let then = ("01-01T05:00:00Z", 300, Status::Completed);
    expect(&after_downtime(CatchUp::Skip), &[first, then]);
    let newest = ("01-01T04:00:00Z", 280, Status::Completed);
    expect(&after_downtime(CatchUp::One), &[first, newest, then]);
    let before = ("01-01T03:00:00Z", 280, Status::Completed);
    expect(&after_downtime(CatchUp::All(2)), &[first, before, newest, then]);
    let oldest = ("01-01T02:00:00Z", 280, Status::Completed);
    expect(&after_downtime(CatchUp::All(9)), &[first, oldest, before, newest, then]);
}

/// A slot that is a minute late was not missed, whatever the policy.
#[test]
fn a_slot_that_is_a_little_late_is_on_time() {
    let begun = in_every_world(world, |world| {
        let policies = (Overlap::Skip, CatchUp::Skip);
        world.schedule(Works, "s", Every::new("1h"), policies, &10);
        world.run_for(MINUTE * 59).unwrap();
        world.be_down_for(MINUTE * 2);
        world.run_for(MINUTE).unwrap();
        begun(world)
    });
    expect(&begun, &[("01-01T01:00:00Z", 61, Status::Sleeping)]);
}

/// FAULTS 30: nobody is there while the clocks are set, forward and back. 2:30 comes once on each of these days.
#[test]
fn a_night_in_which_clocks_are_set_has_one_slot() {
    const DAY: u64 = 24 * 60;
    // Both at midnight, UTC, on the day before: the clocks are set at 1:00 UTC on the day.
    for (days, slots) in [
        (88, ["03-30T01:30:00Z", "03-31T01:00:00Z", "04-01T00:30:00Z"]),
        (298, ["10-26T00:30:00Z", "10-27T00:30:00Z", "10-28T01:30:00Z"]),
    ] {
        let begun = in_every_world(world, |world| {
            world.be_down_for(MINUTE * u32::try_from(days * DAY).unwrap());
            let policies = (Overlap::Skip, CatchUp::One);
            let nightly = Cron::new("30 2 * * *").zone("Europe/Berlin");
            world.schedule(Works, "s", nightly, policies, &10);
            world.run_for(HOUR * 24).unwrap();
            world.be_down_for(HOUR * 3);
            world.run_for(HOUR * 24).unwrap();
            begun(world).into_iter().map(|(slot, ..)| slot).collect::<Vec<_>>()
        });
        assert_eq!(begun, slots);
    }
}

#[test]
fn one_time_comes_once_and_the_schedule_is_over() {
    let once = |at: Duration, catch_up| {
        in_every_world(world, |world| {
            let at = UNIX_EPOCH + Duration::from_millis(BEGINNING_MS) + at;
            world.be_down_for(HOUR);
            world.schedule(Works, "s", Once::at(at), (Overlap::Skip, catch_up), &10);
            world.run().unwrap();
            (begun(world), world.status("__schedule s"))
        })
    };
    let (ahead, over) = once(HOUR * 2, CatchUp::Skip);
    expect(&ahead, &[("01-01T02:00:00Z", 120, Status::Completed)]);
    assert_eq!(over, Some(Status::Completed));
    let (behind, over) = once(MINUTE, CatchUp::One);
    expect(&behind, &[("01-01T00:01:00Z", 60, Status::Completed)]);
    assert_eq!(over, Some(Status::Completed));
    assert!(once(MINUTE, CatchUp::Skip).0.is_empty());
}

/// Somebody else has the id of a slot: the slot is over, and the next one comes.
#[test]
fn a_slot_whose_id_is_taken_does_not_stop_the_schedule() {
    let begun = in_every_world(world, |world| {
        world.start(Works, "s-2030-01-01T01:00:00Z", &600);
        let policies = (Overlap::Skip, CatchUp::One);
        world.schedule(Works, "s", Every::new("1h"), policies, &10);
        world.run_for(HOUR * 2 + MINUTE).unwrap();
        begun(world)
    });
    expect(
        &begun,
        &[
            ("01-01T01:00:00Z", 0, Status::Sleeping),
            ("01-01T02:00:00Z", 120, Status::Sleeping),
        ],
    );
}

/// Disk and memory: the history of a schedule is as long after a thousand slots as after one.
#[test]
fn the_history_of_a_schedule_stays_flat() {
    let mut world = world(Plan::Live);
    let policies = (Overlap::Skip, CatchUp::One);
    world.schedule(Works, "s", Every::new("1m"), policies, &0);
    world.run_for(MINUTE + MINUTE / 2).unwrap();
    let first = world.history("__schedule s").len();
    world.run_for(MINUTE * 1000).unwrap();
    assert_eq!(world.history("__schedule s").len(), first);
    assert_eq!(begun(&world).len(), 1001);
}

//! Schedules, through the handles: made, looked at, paused, resumed, triggered, changed and deleted, across restarts.

use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{
    CatchUp, Config, Cron, Ctx, Effect, Every, Once, Overlap, Result, ScheduleHandle, Triggered, ok, workflow,
};

use crate::kit::{after, echo, everyone, machine, naps, open, pass};
use crate::machine::{Machine, in_virtual_time};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// The slots that were started, oldest first.
async fn slots(schedule: &ScheduleHandle) -> Vec<String> {
    let page = schedule.instances().oldest_first().await.unwrap();
    let name = format!("{}-2030-01-", schedule.name());
    let rows = page.rows.into_iter();
    rows.map(|row| row.id.strip_prefix(&name).unwrap_or("by hand").to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn slots_start_instances_that_can_be_found() {
    let runtime = open().await;
    let hourly = runtime
        .schedule("hourly", Every::new("1h").offset("5m"))
        .starts(echo, 7)
        .tag("shop", "paris")
        .await
        .unwrap();
    pass(HOUR * 2 + MINUTE * 10).await;
    assert_eq!(slots(&hourly).await, ["01T00:05:00Z", "01T01:05:00Z", "01T02:05:00Z"]);
    let first = runtime.handle(echo, "hourly-2030-01-01T00:05:00Z").unwrap();
    assert_eq!(first.result().await.unwrap(), 7);
    let tagged = runtime.list().tag("schedule", "hourly").tag("shop", "paris");
    assert_eq!(tagged.count().await.unwrap(), 3);
    assert_eq!(
        runtime.list().count().await.unwrap(),
        3,
        "the schedule itself is no business of a listing"
    );
    let described = hourly.describe().await.unwrap();
    assert_eq!((described.started, described.skipped), (3, 0));
    assert_eq!(described.timing, "every 1h at 5m");
    assert_eq!(described.last.as_deref(), Some("hourly-2030-01-01T02:05:00Z"));
    assert_eq!(described.running, None);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_said_before_anything_is_written() {
    let runtime = open().await;
    let cases = [
        (Cron::new("61 * * * *"), "1m", "a", "ES0121"),
        (Cron::new("0 0 30 2 *"), "1m", "a", "ES0121"),
        (Cron::new("0 0 0 1 1 * 2020"), "1m", "a", "ES0121"),
        (Cron::new("0 3 * * *").zone("Europe/Atlantis"), "1m", "a", "ES0122"),
        (Cron::new("0 3 * * *"), "5 parsecs", "a", "ES0104"),
        (Cron::new("0 3 * * *"), "24h", "a", "ES0123"),
        (Cron::new("0,5 3 * * *"), "5m", "a", "ES0123"),
        (Cron::new("0 3 * * *"), "1m", "a/b", "ES0101"),
        (Cron::new("0 3 * * *"), "1m", "__a", "ES0101"),
    ];
    for (cron, jitter, name, code) in cases {
        let scheduled = runtime
            .schedule(name, cron.clone())
            .starts(echo, 1)
            .jitter(jitter)
            .await;
        assert_eq!(scheduled.unwrap_err().code(), code, "{cron:?} {jitter} {name}");
    }
    let unknown = runtime.schedule("a", Every::new("1h")).starts(unregistered, ()).await;
    assert_eq!(unknown.unwrap_err().code(), "ES0405");
    let short = runtime.schedule("a", Every::new("1ms")).starts(echo, 1).await;
    assert_eq!(short.unwrap_err().code(), "ES0121");
    // Found in review: with a jitter of three hours most slots of a schedule of minutes were skipped, and nobody was told.
    let minutely = || runtime.schedule("a", Every::new("1m")).starts(echo, 1);
    for jitter in ["3h", "1m"] {
        assert_eq!(
            minutely().jitter(jitter).await.unwrap_err().code(),
            "ES0123",
            "{jitter}"
        );
    }
    assert!(runtime.schedules().await.unwrap().rows.is_empty());
    assert_eq!(runtime.list().workflow("__schedule").count().await.unwrap(), 0);
    minutely().jitter("59s").await.unwrap();
}

#[workflow]
async fn unregistered(_ctx: Ctx<Unregistered>) -> Result<()> {
    ok(())
}

#[tokio::test(start_paused = true)]
async fn a_paused_schedule_starts_nothing_until_it_is_resumed() {
    let runtime = open().await;
    let hourly = runtime.schedule("h", Every::new("1h")).starts(echo, 7).await.unwrap();
    pass(HOUR + MINUTE).await;
    assert_eq!(hourly.pause().await.unwrap(), Effect::Done);
    assert_eq!(hourly.pause().await.unwrap(), Effect::Already);
    pass(HOUR * 3).await;
    let described = hourly.describe().await.unwrap();
    assert!(described.paused && described.next_at_ms.is_none());
    assert_eq!(hourly.resume().await.unwrap(), Effect::Done);
    assert_eq!(hourly.resume().await.unwrap(), Effect::Already);
    assert_eq!(
        slots(&hourly).await,
        ["01T01:00:00Z"],
        "what was not wanted is not caught up with"
    );
    pass(HOUR).await;
    assert_eq!(slots(&hourly).await, ["01T01:00:00Z", "01T05:00:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn whoever_triggers_a_schedule_gets_an_instance_at_once() {
    let runtime = open().await;
    let daily = runtime
        .schedule("d", Cron::new("@daily"))
        .starts(naps, 60)
        .await
        .unwrap();
    daily.pause().await.unwrap();
    let Triggered::Started(first) = daily.trigger().await.unwrap() else {
        panic!("nothing is in its way, and a pause holds slots only");
    };
    assert!(
        matches!(daily.trigger().await.unwrap(), Triggered::Skipped),
        "the first has not ended"
    );
    assert_eq!(first.result_as::<u64>().await.unwrap(), 60);
    assert!(matches!(daily.trigger().await.unwrap(), Triggered::Started(_)));
    let described = daily.describe().await.unwrap();
    assert_eq!((described.started, described.skipped), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_triggered_queues_and_runs_in_order() {
    let runtime = open().await;
    let schedule = runtime.schedule("q", Cron::new("@daily")).starts(naps, 60);
    let schedule = schedule.overlap(Overlap::Queue).await.unwrap();
    let mut waiting = Vec::new();
    assert!(matches!(schedule.trigger().await.unwrap(), Triggered::Started(_)));
    for _ in 0..3 {
        let Triggered::Waits(instance) = schedule.trigger().await.unwrap() else {
            panic!("the first has not ended");
        };
        assert_eq!(instance.status().await.unwrap_err().code(), "ES0401", "not yet");
        waiting.push(instance);
    }
    assert_eq!(schedule.describe().await.unwrap().waiting, 3);
    pass(MINUTE * 4 + MINUTE / 2).await;
    let mut begun = Vec::new();
    for instance in &waiting {
        begun.push(instance.status().await.unwrap().created_at_ms);
        assert_eq!(instance.status().await.unwrap().status, Status::Completed);
    }
    assert!(
        begun.windows(2).all(|two| two[1] - two[0] >= 60_000),
        "one after the other: {begun:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn said_again_a_schedule_is_changed_and_goes_on() {
    let runtime = open().await;
    let hourly = || runtime.schedule("s", Every::new("1h")).starts(echo, 7);
    let first = hourly().await.unwrap();
    assert!(!first.existed() && !first.changed());
    pass(HOUR + MINUTE).await;
    let same = hourly().await.unwrap();
    assert!(same.existed() && !same.changed());
    let other = runtime
        .schedule("s", Every::new("2h"))
        .starts(echo, 8)
        .jitter("1m")
        .await
        .unwrap();
    assert!(other.existed() && other.changed());
    let described = other.describe().await.unwrap();
    assert_eq!((described.timing.as_str(), described.started), ("every 2h", 1));
    pass(HOUR * 3).await;
    assert_eq!(slots(&other).await, ["01T01:00:00Z", "01T02:00:00Z", "01T04:00:00Z"]);
    let last = runtime.handle(echo, "s-2030-01-01T04:00:00Z").unwrap();
    assert_eq!(last.result().await.unwrap(), 8);
    assert_eq!(runtime.schedules().await.unwrap().rows.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_is_over_begins_again_when_it_is_changed() {
    let runtime = open().await;
    let once = |hours| runtime.schedule("o", Once::at(after(HOUR * hours))).starts(echo, 7);
    once(1).await.unwrap();
    pass(HOUR * 2).await;
    let again = once(1).await.unwrap();
    assert!(again.existed() && !again.changed());
    assert!(again.describe().await.unwrap().ended);
    assert_eq!(again.pause().await.unwrap(), Effect::Ended);
    pass(HOUR).await;
    assert_eq!(slots(&again).await, ["01T01:00:00Z"], "it came once");
    let later = once(5).await.unwrap();
    assert!(later.changed() && !later.describe().await.unwrap().ended);
    pass(HOUR * 3).await;
    assert_eq!(slots(&later).await, ["01T01:00:00Z", "01T05:00:00Z"]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_schedule_is_gone_and_its_instances_are_not() {
    let runtime = open().await;
    let hourly = runtime.schedule("s", Every::new("1h")).starts(naps, 600).await.unwrap();
    pass(HOUR + MINUTE).await;
    hourly.delete().await.unwrap();
    assert_eq!(hourly.describe().await.unwrap_err().code(), "ES0408");
    assert_eq!(hourly.trigger().await.unwrap_err().code(), "ES0408");
    assert!(runtime.schedules().await.unwrap().rows.is_empty());
    let nap = runtime.handle(naps, "s-2030-01-01T01:00:00Z").unwrap();
    assert_eq!(nap.result().await.unwrap(), 600);
    pass(HOUR * 3).await;
    assert_eq!(slots(&hourly).await.len(), 1);
    let anew = runtime.schedule("s", Every::new("1h")).starts(naps, 600).await.unwrap();
    assert!(!anew.existed());
    pass(HOUR).await;
    assert_eq!(slots(&anew).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn schedules_are_listed_page_by_page() {
    let runtime = open().await;
    for name in ["a", "b", "c"] {
        runtime
            .schedule(name, Cron::new("0 3 * * *").zone("Asia/Tokyo"))
            .starts(echo, 7)
            .await
            .unwrap();
        pass(MINUTE).await;
    }
    let first = runtime.schedules().limit(2).await.unwrap();
    let rest = runtime.schedules().limit(2).after(first.next.unwrap()).await.unwrap();
    let names: Vec<_> = first
        .rows
        .iter()
        .chain(&rest.rows)
        .map(|row| row.name.as_str())
        .collect();
    assert_eq!((names, rest.next), (vec!["a", "b", "c"], None));
    assert_eq!(first.rows[0].timing, "0 3 * * * Asia/Tokyo");
    assert_eq!(first.rows[0].workflow, "echo");
}

/// Jitter spreads schedules of one time over a while; the slot stays what it was.
#[tokio::test(start_paused = true)]
async fn jitter_spreads_what_has_the_same_time() {
    let runtime = open().await;
    let mut begins = std::collections::BTreeSet::new();
    for number in 0..20 {
        let schedule = runtime.schedule(format!("s{number}"), Every::new("1h")).starts(echo, 7);
        let schedule = schedule.jitter("10m").await.unwrap();
        let described = schedule.describe().await.unwrap();
        let (slot, begins_at) = (described.next_at_ms.unwrap(), described.next_begins_at_ms.unwrap());
        assert!((0..=600_000).contains(&(begins_at - slot)));
        begins.insert(begins_at);
    }
    assert!(begins.len() > 15, "{begins:?}");
    pass(HOUR + MINUTE * 11).await;
    for number in 0..20 {
        let schedule = runtime.schedule_handle(&format!("s{number}")).unwrap();
        let page = schedule.instances().await.unwrap();
        assert_eq!(page.rows[0].id, format!("s{number}-2030-01-01T01:00:00Z"));
        assert!(
            begins.contains(&page.rows[0].created_at_ms),
            "neither earlier nor later"
        );
    }
}

/// FAULTS 30: three hours without a process, and a clock that is set back while one is there.
#[test]
fn a_restart_catches_up_by_policy_and_repeats_nothing() {
    for (catch_up, expected) in [
        (CatchUp::Skip, vec!["01T01:00:00Z", "01T05:00:00Z"]),
        (CatchUp::One, vec!["01T01:00:00Z", "01T04:00:00Z", "01T05:00:00Z"]),
        (
            CatchUp::All(100),
            vec![
                "01T01:00:00Z",
                "01T02:00:00Z",
                "01T03:00:00Z",
                "01T04:00:00Z",
                "01T05:00:00Z",
            ],
        ),
    ] {
        in_virtual_time(async {
            let machine = Machine::new();
            let runtime = machine.open(everyone(), Config::default()).await;
            let hourly = runtime.schedule("s", Every::new("1h")).starts(echo, 7);
            hourly.catch_up(catch_up).overlap(Overlap::Allow).await.unwrap();
            pass(MINUTE * 65).await;
            runtime.stop().await;
            drop(runtime);
            machine.clock.jump(HOUR * 3 + MINUTE * 10, false);
            let runtime = machine.open(everyone(), Config::default()).await;
            pass(MINUTE * 30).await;
            machine.clock.jump(HOUR, true);
            pass(HOUR + MINUTE * 20).await;
            let mut begun = slots(&runtime.schedule_handle("s").unwrap()).await;
            begun.sort();
            assert_eq!(begun, expected, "{catch_up:?}");
        });
    }
}

/// A schedule is an instance like others: it sleeps on disk, and what it knows survives.
#[tokio::test(start_paused = true)]
async fn a_schedule_survives_a_restart_with_all_that_it_knows() {
    let machine = machine();
    let runtime = everyone().open_simulated(machine.clone()).await.unwrap();
    let hourly = runtime.schedule("s", Every::new("1h")).starts(naps, 5400);
    let hourly = hourly.overlap(Overlap::Queue).await.unwrap();
    pass(HOUR * 2 + MINUTE).await;
    let before = hourly.describe().await.unwrap();
    assert_eq!(
        (before.waiting, before.running.as_deref()),
        (1, Some("s-2030-01-01T01:00:00Z"))
    );
    hourly.pause().await.unwrap();
    runtime.stop().await;
    drop(runtime);
    let runtime = everyone().open_simulated(machine).await.unwrap();
    let hourly = runtime.schedule_handle("s").unwrap();
    pass(HOUR * 3).await;
    let described = hourly.describe().await.unwrap();
    assert!(described.paused);
    assert_eq!((described.started, described.waiting, described.running), (1, 1, None));
    hourly.resume().await.unwrap();
    pass(MINUTE).await;
    assert_eq!(slots(&hourly).await, ["01T01:00:00Z", "01T02:00:00Z"]);
}

//! What can be seen from outside: metrics with bounded labels, spans and logs that replay does not repeat, observers of
//! lives, and a page that lists it all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep::limits::WAKE_QUEUE_MAX;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Plan};
use everstep::storage::record::Status;
use everstep::{Builder, Config, Ctx, Happened, Lifecycle, Moment, Result, Runtime, ok, workflow};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::kit::{Word, fails, naps, pass, waits};
use crate::machine::{Machine, crowds, in_virtual_time, settle};

/// Keeps what is recorded, by name and labels.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Series(Kept, String);

impl Series {
    fn push(&self, value: f64) {
        self.0.0.lock().unwrap().entry(self.1.clone()).or_default().push(value);
    }
}

impl metrics::CounterFn for Series {
    fn increment(&self, value: u64) {
        self.push(value as f64);
    }

    fn absolute(&self, _: u64) {
        unreachable!("counters count");
    }
}

impl metrics::GaugeFn for Series {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set");
    }

    fn decrement(&self, _: f64) {
        unreachable!("gauges are set");
    }

    fn set(&self, value: f64) {
        self.push(value);
    }
}

impl metrics::HistogramFn for Series {
    fn record(&self, value: f64) {
        self.push(value);
    }
}

impl Kept {
    fn series(&self, key: &Key) -> Arc<Series> {
        let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
        let labels: Vec<_> = labels.collect();
        Arc::new(Series(
            self.clone(),
            format!("{} {}", key.name(), labels.join(" ")).trim().to_owned(),
        ))
    }

    pub(crate) fn sum(&self, series: &str) -> f64 {
        self.0
            .lock()
            .unwrap()
            .get(series)
            .map_or(0.0, |values| values.iter().sum())
    }

    pub(crate) fn values(&self, series: &str) -> Vec<f64> {
        self.0.lock().unwrap().get(series).cloned().unwrap_or_default()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

fn builder() -> Builder {
    let all = Runtime::builder().workflow(fails).workflow(naps).workflow(waits);
    all.workflow(talks).workflow(posts).workflow(hears)
}

#[workflow(accepts(Word))]
async fn hears(ctx: Ctx<Hears>) -> Result<u64> {
    ok(ctx.receive::<Word>().timeout("1h").await?.0)
}

#[workflow(queue = "mail")]
async fn posts(ctx: Ctx<Posts>) -> Result<()> {
    ctx.step("post", || async { ok(()) }).await?;
    ok(())
}

#[test]
fn metrics_count_what_happens_and_have_no_ids_in_them() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        in_virtual_time(async {
            let config = Config::default().queue_attempts_max("mail", 1);
            let runtime = Machine::new().open(builder(), config).await;
            for number in 0..3 {
                let id = format!("secret-{number}");
                runtime.start(naps, 1).id(id).await.unwrap().result().await.unwrap();
            }
            runtime
                .start(fails, ())
                .id("secret-f")
                .await
                .unwrap()
                .result()
                .await
                .unwrap_err();
            let listens = runtime.start(waits, 2).id("secret-w").await.unwrap();
            settle().await;
            listens.send(Word(1)).await.unwrap();
            settle().await;
            listens.terminate("enough").await.unwrap();
            for _ in 0..2 {
                runtime.start(posts, ()).await.unwrap();
            }
            settle().await;
        });
    });
    assert_eq!(kept.sum("everstep_starts_total workflow=naps"), 3.0);
    assert_eq!(kept.sum("everstep_ends_total workflow=naps outcome=completed"), 3.0);
    assert_eq!(kept.sum("everstep_ends_total workflow=fails outcome=failed"), 1.0);
    assert_eq!(kept.sum("everstep_ends_total workflow=waits outcome=terminated"), 1.0);
    assert_eq!(kept.sum("everstep_attempts_total workflow=fails"), 2.0);
    assert_eq!(
        kept.values("everstep_attempt_seconds workflow=fails outcome=failed")
            .len(),
        2
    );
    assert_eq!(kept.values("everstep_attempt_wait_seconds workflow=posts").len(), 2);
    assert!(kept.values("everstep_inbox_messages workflow=waits").contains(&1.0));
    assert_eq!(
        kept.values("everstep_alarm_late_seconds").len(),
        4,
        "three naps and a retry"
    );
    assert_eq!(kept.values("everstep_queue_running queue=mail").last(), Some(&0.0));
    assert!(kept.values("everstep_queue_running queue=mail").contains(&1.0));
    assert!(kept.values("everstep_residents").iter().any(|count| *count > 0.0));
    assert!(!kept.values("everstep_commit_seconds").is_empty());
    assert!(!kept.values("everstep_group_commits").is_empty());
    let all = kept.0.lock().unwrap();
    assert!(all.keys().all(|series| !series.contains("secret")), "{:?}", all.keys());
}

/// Panics when it is dropped outside of a poll, once.
struct Brittle;

static BROKE: AtomicBool = AtomicBool::new(false);

impl Drop for Brittle {
    fn drop(&mut self) {
        if !BROKE.swap(true, Ordering::SeqCst) {
            panic!("a destructor that panics");
        }
    }
}

#[workflow]
async fn breaks_down(ctx: Ctx<BreaksDown>) -> Result<()> {
    let _brittle = Brittle;
    ok(ctx.sleep("a while", "10m").await?)
}

/// More alarms come due than there is room for, something breaks down, and what ended is deleted: each is counted.
#[test]
fn metrics_count_what_seldom_happens() {
    const SLEEPERS: u64 = WAKE_QUEUE_MAX as u64 + 50;

    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        in_virtual_time(async {
            let machine = Machine::new();
            let builder = || builder().workflow(crowds).workflow(breaks_down);
            let config = || {
                Config::default()
                    .idle(Duration::ZERO)
                    .keep_completed(Duration::from_secs(86_400))
            };
            {
                let runtime = machine.open(builder(), config()).await;
                let broken = runtime.start(breaks_down, ()).await.unwrap();
                broken.result().await.unwrap();
                assert_eq!(kept.sum("everstep_breakdowns_total"), 1.0);
                for _ in 0..SLEEPERS {
                    runtime.start(naps, 3_600).await.unwrap();
                }
                let sleeping = || runtime.list().status(Status::Sleeping).count();
                while sleeping().await.unwrap() < SLEEPERS {
                    settle().await;
                }
                runtime.stop().await;
            }
            assert_eq!(kept.values("everstep_store_works").last(), Some(&1.0));
            assert!(!kept.values("everstep_commits_waiting").is_empty());
            {
                // Nobody gets in: what comes due waits.
                let runtime = machine.open(builder(), config().residents_max(1)).await;
                runtime.start(crowds, ()).id("crowds").await.unwrap();
                settle().await;
                tokio::time::advance(Duration::from_secs(3_600)).await;
                settle().await;
                assert!(kept.values("everstep_alarms_due").last() > Some(&0.0));
                assert!(kept.values("everstep_waiting").last() > Some(&0.0));
            }
            let runtime = machine.open(builder(), config().residents_max(100)).await;
            tokio::time::advance(Duration::from_secs(60)).await;
            let completed = || runtime.list().status(Status::Completed).count();
            while completed().await.unwrap() < SLEEPERS + 1 {
                settle().await;
            }
            assert_eq!(kept.values("everstep_waiting").last(), Some(&0.0));
            assert_eq!(kept.sum("everstep_deleted_total"), 0.0);
            pass(Duration::from_secs(2 * 86_400)).await;
            assert_eq!(kept.sum("everstep_deleted_total"), (SLEEPERS + 1) as f64);
        });
    });
}

/// A store that has failed says so.
#[test]
fn a_metric_says_whether_the_store_works() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        in_virtual_time(async {
            let (machine, plan) = (Machine::new(), Plan::new());
            let engine = Faulty::new(Arc::new(machine.disk.clone()), plan.clone());
            let runtime = builder().open_simulated(machine.simulated(engine)).await.unwrap();
            assert_eq!(kept.values("everstep_store_works"), [1.0]);
            plan.at_commit(1, CommitFault::Fail(std::io::ErrorKind::StorageFull));
            runtime.start(naps, 1).await.unwrap_err();
            assert_eq!(kept.values("everstep_store_works"), [1.0, 0.0]);
        });
    });
}

/// Keeps the names of spans and the texts of logs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_span() || metadata.target().contains("telemetry")
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut text = Text(attributes.metadata().name().to_owned());
        attributes.record(&mut text);
        let mut log = self.0.lock().unwrap();
        log.push(text.0);
        span::Id::from_u64(log.len() as u64)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text("log".into());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[workflow]
async fn talks(ctx: Ctx<Talks>) -> Result<u32> {
    tracing::info!("one");
    ctx.step("first", || async { ok(()) }).await?;
    tracing::info!("two");
    ctx.sleep("a while", "1h").await?;
    tracing::info!("three");
    ctx.step("second", || async { ok(()) }).await?;
    tracing::info!("four");
    ok(4)
}

/// The instance leaves memory in its sleep and is replayed for the rest, by another process. What it logs is heard once,
/// and each attempt has one span.
#[test]
fn spans_and_logs_are_silent_in_replay() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        in_virtual_time(async {
            let machine = Machine::new();
            let config = || Config::default().idle(Duration::ZERO);
            let runtime = machine.open(builder(), config()).await;
            runtime.start(talks, ()).id("t").await.unwrap();
            settle().await;
            runtime.passivate("t").await.unwrap();
            drop(runtime);
            let runtime = machine.open(builder(), config()).await;
            assert_eq!(runtime.handle(talks, "t").unwrap().result().await.unwrap(), 4);
        });
    });
    let log = log.0.lock().unwrap().clone();
    let of = |what: &str| {
        log.iter()
            .filter(|line| line.starts_with(what))
            .cloned()
            .collect::<Vec<_>>()
    };
    let words = ["one", "two", "three", "four"].map(|word| format!("log message={word}"));
    assert_eq!(of("log"), words, "{log:#?}");
    let attempts = ["first", "second"].map(|step| format!("attempt step={step:?} number=1"));
    assert_eq!(of("attempt"), attempts);
    let stay = "instance instance=t workflow=\"talks\" run=1".to_owned();
    assert_eq!(
        of("instance"),
        [stay.clone(), stay],
        "one for each stay in which something happened"
    );
}

/// Everybody's life, as an observer hears of it. One that panics harms nobody.
#[test]
fn lives_are_told_once_and_not_again_by_the_next_process() {
    in_virtual_time(async {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let observed = || {
            let heard = Arc::clone(&heard);
            builder()
                .on_lifecycle(|_| panic!("an observer with a fault"))
                .on_lifecycle(move |life: &Lifecycle| {
                    heard.lock().unwrap().push((life.instance.to_string(), life.moment));
                })
        };
        let machine = Machine::new();
        let config = || Config::default().idle(Duration::ZERO);
        let runtime = machine.open(observed(), config()).await;
        runtime.start(naps, 60).id("n").await.unwrap();
        runtime.start(naps, 60).id("n").await.unwrap();
        let waiting = runtime.start(waits, 1).id("w").await.unwrap();
        settle().await;
        waiting.terminate("enough").await.unwrap();
        waiting.terminate("again").await.unwrap();
        drop(runtime);
        let runtime = machine.open(observed(), config()).await;
        runtime.handle(naps, "n").unwrap().result().await.unwrap();
        drop(runtime);
        machine.open(observed(), config()).await;
        settle().await;
        let told = |id: &str, moment| (id.to_owned(), moment);
        assert_eq!(
            *heard.lock().unwrap(),
            [
                told("n", Moment::Started),
                told("w", Moment::Started),
                told("w", Moment::Ended(Status::Terminated)),
                told("n", Moment::Ended(Status::Completed)),
            ]
        );
    });
}

/// A life as the history tells it, with what goes on right now.
#[test]
fn a_history_tells_what_an_instance_waits_for() {
    in_virtual_time(async {
        let runtime = Machine::new().open(builder(), Config::default()).await;
        let first = runtime.start(naps, 60).at_most(1, "k").await.unwrap();
        let second = runtime.start(naps, 60).at_most(1, "k").await.unwrap();
        let third = runtime.start(hears, ()).await.unwrap();
        let failed = runtime.start(fails, ()).await.unwrap();
        settle().await;
        async fn last(handle: &everstep::AnyHandle) -> Happened {
            handle.history().await.unwrap().events().pop().unwrap().what
        }
        assert!(matches!(last(&first).await, Happened::Sleeping { .. }));
        assert_eq!(last(&second).await, Happened::WaitsForTurn { key: "k".into() });
        assert_eq!(second.status().await.unwrap().waits_for_turn.as_deref(), Some("k"));
        assert_eq!(first.status().await.unwrap().waits_for_turn, None);
        let waiting = last(&third).await;
        assert!(
            matches!(
                waiting,
                Happened::Waiting {
                    kind: "receive",
                    until_ms: Some(_)
                }
            ),
            "{waiting:?}"
        );
        assert!(matches!(last(&failed).await, Happened::Retrying { .. }));
        failed.result().await.unwrap_err();
        assert_eq!(last(&failed).await, Happened::Ended(Status::Failed));
    });
}

#[test]
fn a_snapshot_tells_how_many_commits_there_were() {
    in_virtual_time(async {
        let runtime = Machine::new().open(builder(), Config::default()).await;
        let before = runtime.stats();
        assert_eq!((before.commits_per_second, before.alarms_due), (0, 0));
        runtime.start(naps, 10).await.unwrap().result().await.unwrap();
        let after = runtime.stats();
        assert!(after.commits >= before.commits + 3, "{after:?}");
        assert!(after.commits_per_second <= 1, "a few in ten seconds");
        // Found in review: always zero would have done.
        for _ in 0..100 {
            runtime.start(naps, 1).await.unwrap();
        }
        pass(Duration::from_secs(2)).await;
        let busy = runtime.stats();
        let commits = busy.commits - after.commits;
        assert!(commits >= 200, "{busy:?}");
        assert_eq!(busy.commits_per_second, commits / 2, "in two seconds");
    });
}

#[derive(Debug, everstep::Message, serde::Serialize, serde::Deserialize)]
struct Rang(u32);

#[workflow]
async fn rings(ctx: Ctx<Rings>) -> Result<()> {
    for number in 0..1_030 {
        ctx.publish(Rang(number)).to_one().await?;
    }
    ctx.send(hears, "nobody", Word(1)).dead_letter().await?;
    ok(())
}

#[workflow]
async fn listens(ctx: Ctx<Listens>) -> Result<u32> {
    ok(ctx.wait_event::<Rang>().await?.0)
}

/// What goes on between instances, each once: also after a replay.
#[test]
fn metrics_count_what_goes_on_between_instances() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        in_virtual_time(async {
            let machine = Machine::new();
            let config = || Config::default().idle(Duration::ZERO);
            let open = || machine.open(builder().workflow(rings).workflow(listens), config());
            let runtime = open().await;
            runtime.start(rings, ()).await.unwrap().result().await.unwrap();
            pass(Duration::from_secs(60)).await;
            drop(runtime);
            let runtime = open().await;
            let first = runtime.start(listens, ()).await.unwrap().result().await.unwrap();
            assert_eq!(first, 6, "the oldest were forgotten");
            let every = everstep::Every::new("10m");
            runtime.schedule("s", every).starts(naps, 900).await.unwrap();
            for _ in 0..2 {
                runtime.start(naps, 60).at_most(1, "k").await.unwrap();
            }
            pass(Duration::from_secs(31 * 60)).await;
            let all = runtime.list().workflow("listens");
            runtime.batch(all).cancel("enough").start("b").await.unwrap();
            pass(Duration::from_secs(60)).await;
            settle().await;
        });
    });
    let sums = [
        ("everstep_events_total", 1_030.0),
        ("everstep_events_forgotten_total", 6.0),
        ("everstep_events_handed_total", 1.0),
        ("everstep_events_presumed_taken_total", 0.0),
        ("everstep_dead_letters_total", 1.0),
        ("everstep_slots_started_total", 2.0),
        ("everstep_slots_skipped_total", 1.0),
        ("everstep_gate_entries_total", 2.0),
        ("everstep_gate_admissions_total", 2.0),
        ("everstep_batch_instances_total outcome=unchanged", 1.0),
    ];
    for (series, sum) in sums {
        assert_eq!(kept.sum(series), sum, "{series}");
    }
    assert!(kept.sum("everstep_parcels_total") >= 1_033.0);
    assert_eq!(kept.values("everstep_senders_held").last(), Some(&0.0));
}

/// The names that begin with ours, each in quotes of its own.
fn names(text: &str, quote: char) -> BTreeSet<String> {
    let quoted = text.split(quote).filter(|part| part.starts_with("everstep_"));
    quoted.map(str::to_owned).collect()
}

#[test]
fn the_page_lists_every_metric() {
    let code = names(include_str!("../../src/telemetry.rs"), '"');
    let page = names(include_str!("../../docs/OBSERVABILITY.md"), '`');
    assert!(code.len() > 15);
    assert_eq!(code, page);
}

//! What a runtime is put together from, and what is refused before it opens.

use std::sync::Arc;

use everstep::storage::engine::Engine;
use everstep::storage::engines::Memory;
use everstep::storage::engines::faulty::{CommitFault, Faulty, Plan};
use everstep::storage::key::{Local, Meta};
use everstep::storage::payload::{Codec, KeyId, Payload, PayloadError};
use everstep::storage::record::Input;
use everstep::testing::Harness;
use everstep::{Crowded, Ctx, Error, Health, Policy, Result, Runtime, Status, Workflow, ok, workflow};
use tokio::join;

use crate::kit::{Word, echo, everyone, machine, waits};

mod other {
    use super::{Ctx, Result, ok, workflow};

    /// Another workflow of the same name.
    #[workflow]
    pub(super) async fn echo(_ctx: Ctx<Echo>) -> Result<()> {
        ok(())
    }
}

struct Hidden;

impl Workflow for Hidden {
    const NAME: &'static str = "__schedule";
    type Input = ();
    type Output = ();

    async fn run(_ctx: Ctx<Self>, (): ()) -> Result<()> {
        ok(())
    }
}

struct Hasty;

impl Workflow for Hasty {
    const NAME: &'static str = "hasty";
    type Input = ();
    type Output = ();

    fn policy() -> Policy {
        Policy::new().deadline("soon")
    }

    async fn run(_ctx: Ctx<Self>, (): ()) -> Result<()> {
        ok(())
    }
}

/// Found in a review: of two workflows with one name the last won, and one with a name of the runtime's own was replaced
/// by it; nobody was told.
#[tokio::test(start_paused = true)]
async fn a_name_stands_for_one_workflow_and_not_for_one_of_the_runtime() {
    let builder = everyone()
        .workflow(echo)
        .workflow(other::echo)
        .workflow(Hidden)
        .workflow(Hasty);
    let refused = builder.open_simulated(machine()).await.unwrap_err();
    let Error::Config(invalid) = &refused else {
        panic!("{refused:?}");
    };
    let said = invalid.problems.join("\n");
    assert_eq!(invalid.problems.len(), 3, "{said}");
    for wrong in [
        "two workflows are called `echo`",
        "called `__schedule`",
        "the policy of `hasty`",
    ] {
        assert!(said.contains(wrong), "{said}");
    }
    // The same one twice is one.
    everyone().workflow(echo).open_simulated(machine()).await.unwrap();
}

/// Stands for a cipher: it never writes the same bytes twice.
#[derive(Debug, Default)]
struct Vault(std::sync::atomic::AtomicU8);

impl Codec for Vault {
    fn encode(&self, plain: Vec<u8>) -> Result<Payload, PayloadError> {
        let nonce = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) | 0x80;
        let bytes = std::iter::once(nonce)
            .chain(plain.iter().map(|byte| byte ^ nonce))
            .collect();
        Ok(Payload {
            key_id: KeyId(3),
            bytes,
        })
    }

    fn decode(&self, key_id: KeyId, stored: &[u8]) -> Result<Vec<u8>, PayloadError> {
        match (key_id, stored) {
            (KeyId(3), [nonce, rest @ ..]) => Ok(rest.iter().map(|byte| byte ^ nonce).collect()),
            (unknown, _) => Err(PayloadError::KeyUnknown(unknown)),
        }
    }
}

/// Found in a review: no runtime could be opened with a codec, so nothing could be encrypted.
#[tokio::test(start_paused = true)]
async fn what_users_store_goes_through_the_codec() {
    let machine = machine();
    let builder = everyone().codec(Vault::default());
    let runtime = builder.open_simulated(machine.clone()).await.unwrap();
    let echo = runtime.start(echo, 7).id("echo").await.unwrap();
    assert_eq!(echo.result().await.unwrap(), 7);
    let waits = runtime.start(waits, 1).await.unwrap();
    waits.send(Word(5)).await.unwrap();
    assert_eq!(waits.result().await.unwrap(), [5]);
    let namespace = runtime.store().namespace(echo.id());
    let snapshot = runtime.store().snapshot(namespace.shard()).unwrap();
    let input: Option<Input> = namespace.get(&*snapshot, &Local::Meta(Meta::Input)).unwrap();
    assert_eq!(input.unwrap().0.key_id, KeyId(3));
    drop((snapshot, echo, waits));
    runtime.stop().await;
    drop(runtime);
    let without = everyone().open_simulated(machine).await.unwrap();
    let echo = without.instance("echo").unwrap();
    assert_eq!(echo.result_as::<u64>().await.unwrap_err().code(), "ES0243");
}

#[everstep::activity]
async fn doubles(number: u64) -> Result<u64> {
    ok(number * 2)
}

#[workflow]
async fn counts(ctx: Ctx<Counts>, number: u64) -> Result<u64> {
    let doubled = ctx.run(doubles, number).await?;
    ctx.sleep("a while", "1h").await?;
    ok(doubled)
}

/// Found in a review: the kit read what was stored as if there were no codec.
#[test]
fn the_kit_reads_through_the_codec() {
    let harness = Harness::new(Runtime::builder().workflow(counts).codec(Vault::default()));
    let counted = harness.crash_everywhere(|harness| {
        let counts = harness.start(counts, 21);
        assert_eq!(counts.run_until_complete().unwrap(), 42);
        harness.assert_called_with("doubles", &21_u64);
        assert_eq!(harness.calls("doubles")[0].input::<u64>(), 21);
        assert_eq!(counts.step_result::<u64>("doubles"), 42);
        42
    });
    assert_eq!(counted, 42);
}

/// Found in a review: nobody who held a runtime could see that its store had failed.
#[tokio::test(start_paused = true)]
async fn a_store_that_has_failed_can_be_told() {
    let (plan, mut machine) = (Plan::new(), machine());
    let disk: Arc<dyn Engine> = Arc::new(Memory::new());
    machine.engine = Arc::new(Faulty::new(disk, plan.clone()));
    let runtime = everyone().open_simulated(machine).await.unwrap();
    assert!(matches!(runtime.health(), Health::Good));
    plan.at_commit(1, CommitFault::Fail(std::io::ErrorKind::StorageFull));
    runtime.start(echo, 7).await.unwrap_err();
    let Health::Failed(error) = runtime.health() else {
        panic!("it acknowledges nothing any more");
    };
    assert_eq!(error.code(), "ES0210");
}

/// What a wait comes to; in virtual time, one that does not end fails at once.
async fn in_time<T>(waiting: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(std::time::Duration::from_secs(3_600), waiting);
    ended.await.expect("the wait ends")
}

/// FAULTS 6. Found by a user on a full disk: whoever waited for a result when the store failed, or came to wait for it
/// later, waited for ever; nothing would have changed before a restart.
#[tokio::test(start_paused = true)]
async fn whoever_waits_is_told_that_the_store_has_failed() {
    let (plan, mut machine) = (Plan::new(), machine());
    let disk: Arc<dyn Engine> = Arc::new(Memory::new());
    machine.engine = Arc::new(Faulty::new(disk, plan.clone()));
    let runtime = everyone().open_simulated(machine).await.unwrap();
    let handle = runtime.start(waits, 1).id("waits").await.unwrap();
    handle.reached(|status| status == Status::Waiting).await.unwrap();
    let (mut everybody, mut one, mut items) = (runtime.watch(), handle.watch(), handle.stream::<u64>());
    one.next().await.unwrap();
    let waiting = async {
        join!(
            handle.result().into_future(),
            handle.result().or_held().into_future(),
            handle.reached(|status| status == Status::Completed).into_future(),
            one.next(),
            everybody.next(),
            items.next(),
            async {
                tokio::task::yield_now().await;
                plan.at_commit(1, CommitFault::Fail(std::io::ErrorKind::StorageFull));
                handle.send(Word(1)).await.map(drop)
            }
        )
    };
    let waiting = in_time(waiting).await;
    let told = [
        waiting.0.unwrap_err(),
        waiting.1.unwrap_err(),
        waiting.2.unwrap_err(),
        waiting.3.unwrap_err(),
        waiting.4.unwrap_err(),
        waiting.5.unwrap_err(),
        waiting.6.unwrap_err(),
        in_time(handle.result().into_future()).await.unwrap_err(),
        in_time(runtime.watch().next()).await.unwrap_err(),
    ];
    assert_eq!(told.map(|error| error.code()), ["ES0210"; 9]);
    // What is known is still read.
    assert_eq!(handle.status().await.unwrap().status, Status::Waiting);
    runtime.stop().await;
    assert_eq!(handle.result().await.unwrap_err().code(), "ES0420");
    assert!(runtime.watch().next().await.unwrap().is_none());
}

/// The same for a start that waits until fewer wait at a gate.
#[tokio::test(start_paused = true)]
async fn a_start_that_waits_is_told_that_the_store_has_failed() {
    let (plan, mut machine) = (Plan::new(), machine());
    let disk: Arc<dyn Engine> = Arc::new(Memory::new());
    machine.engine = Arc::new(Faulty::new(disk, plan.clone()));
    let runtime = everyone().open_simulated(machine).await.unwrap();
    let start = || runtime.start(waits, 1).at_most(1, "gate").if_crowded(1, Crowded::Wait);
    let first = start().await.unwrap();
    first.reached(|status| status == Status::Waiting).await.unwrap();
    start().await.unwrap();
    let waited = async {
        join!(start().into_future(), async {
            tokio::task::yield_now().await;
            plan.at_commit(1, CommitFault::Fail(std::io::ErrorKind::StorageFull));
            first.send(Word(1)).await.unwrap_err();
        })
    };
    assert_eq!(in_time(waited).await.0.unwrap_err().code(), "ES0210");
}

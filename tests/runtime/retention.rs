//! What ended long ago is deleted, and nothing else.

use std::future::IntoFuture;
use std::time::Duration;

use everstep::limits::SEEN_AT_ONCE_MAX;
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::Status;
use everstep::{Config, Ctx, Error, Existing, Outcome, Result, Runtime, Shard, Watched, critical, ok, workflow};

use crate::holds::damage;
use crate::kit::{Word, waits};
use crate::machine::{Machine, in_virtual_time, settle};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow]
async fn ending(ctx: Ctx<Ending>, how: String) -> Result<u32> {
    match how.as_str() {
        "well" => ok(1),
        "badly" => Err(critical(std::io::Error::other("badly"))),
        _ => {
            ctx.sleep("for long", "30d").await?;
            ok(2)
        }
    }
}

/// FAULTS 70: only what has ended goes, after the period for how it ended; it is told apart from what never was.
#[test]
fn only_what_ended_long_enough_ago_is_deleted() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().keep_completed(HOUR).keep_failed(10 * HOUR);
        let runtime = machine.open(Runtime::builder().workflow(ending), config).await;
        let start = |id: &'static str| runtime.start(ending, id.to_owned()).id(id);
        start("well").await.unwrap();
        start("badly").await.unwrap();
        start("never").await.unwrap();
        let gone = async |id: &'static str| {
            let Ok(handle) = runtime.handle(ending, id) else {
                return true;
            };
            match handle.reached(|_| true).await {
                Ok(_) => false,
                Err(Error::Deleted(_)) => true,
                Err(error) => panic!("{id}: {error}"),
            }
        };
        let which = async || (gone("well").await, gone("badly").await, gone("never").await);
        let after = |time: Duration| async move {
            // An elapsed timeout is a wait.
            let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
        };
        after(HOUR / 2).await;
        assert_eq!(which().await, (false, false, false));
        after(HOUR).await;
        assert_eq!(which().await, (true, false, false));
        after(10 * HOUR).await;
        assert_eq!(which().await, (true, true, false));
        let handle = runtime.handle(ending, "never").unwrap();
        assert_eq!(handle.reached(|_| true).await.unwrap(), Status::Sleeping);
    });
}

/// One whose periods are its own.
#[workflow]
async fn precious(ctx: Ctx<Precious>, how: String) -> Result<u32> {
    if how != "well" {
        ctx.sleep("for long", "30d").await?;
    }
    ok(1)
}

#[test]
fn periods_are_by_workflow_and_by_how_it_ended() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default()
            .keep_completed(HOUR)
            .keep_failed(4 * HOUR)
            .keep(Outcome::Cancelled, 2 * HOUR)
            .workflow_keep("precious", Outcome::Completed, 6 * HOUR)
            .workflow_keep("precious", Outcome::Terminated, None);
        let builder = Runtime::builder().workflow(ending).workflow(precious);
        let runtime = machine.open(builder, config).await;
        for (id, how) in [("well", "well"), ("cancelled", "long"), ("terminated", "long")] {
            runtime
                .start(ending, how.to_owned())
                .id(format!("e-{id}"))
                .await
                .unwrap();
            runtime
                .start(precious, how.to_owned())
                .id(format!("p-{id}"))
                .await
                .unwrap();
            for which in ["e", "p"] {
                let handle = runtime.instance(&format!("{which}-{id}")).unwrap();
                match id {
                    "cancelled" => drop(handle.cancel("test").await.unwrap()),
                    "terminated" => drop(handle.terminate("test").await.unwrap()),
                    _ => {}
                }
                handle.reached(Status::is_terminal).await.unwrap();
            }
        }
        let left = async || {
            let rows = runtime.list().oldest_first().await.unwrap().rows;
            let mut ids: Vec<_> = rows.into_iter().map(|row| row.id).collect();
            ids.sort();
            ids
        };
        // An elapsed timeout is a wait. Each time is between two of the periods.
        let mut expected = vec![
            "e-cancelled",
            "e-terminated",
            "e-well",
            "p-cancelled",
            "p-terminated",
            "p-well",
        ];
        for gone in [
            &[][..],
            &["e-well"],
            &["e-cancelled", "p-cancelled"],
            &[],
            &["e-terminated"],
            &[],
            &["p-well"],
        ] {
            let _ = tokio::time::timeout(HOUR / 2, std::future::pending::<()>()).await;
            expected.retain(|id| !gone.contains(id));
            assert_eq!(left().await, expected);
            let _ = tokio::time::timeout(HOUR / 2, std::future::pending::<()>()).await;
        }
        assert_eq!(left().await, ["p-terminated"], "for ever");
    });
}

/// FAULTS 70: one that began another run in time is kept from when that ended, whatever its listing row said before.
#[test]
fn one_that_ran_again_is_kept_from_its_last_end() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().keep_completed(HOUR);
        let runtime = machine.open(Runtime::builder().workflow(ending), config).await;
        for _ in 0..4 {
            let start = runtime.start(ending, "well".to_owned()).id("again");
            let started = start.if_exists(Existing::NewRun).await.unwrap();
            assert!(!started.existed());
            started.result().await.unwrap();
            let _ = tokio::time::timeout(HOUR * 3 / 4, std::future::pending::<()>()).await;
        }
        let kept = runtime.instance("again").unwrap().status().await.unwrap();
        assert_eq!(kept.run, 4);
        let _ = tokio::time::timeout(HOUR, std::future::pending::<()>()).await;
        let gone = runtime.instance("again").unwrap().status().await.unwrap_err();
        assert_eq!(gone.code(), "ES0408");
        assert!(runtime.store().verify().unwrap().is_clean());
    });
}

/// Sends a word to nobody, and two more an hour later.
#[workflow]
async fn writes(ctx: Ctx<Writes>) -> Result<()> {
    ctx.send(waits, "nobody", Word(0)).dead_letter().await?;
    ctx.sleep("an hour", "1h").await?;
    ctx.send(waits, "nobody", Word(1)).dead_letter().await?;
    ctx.send(waits, "nobody", Word(2)).dead_letter().await?;
    ok(())
}

/// Found in review: messages that could not be delivered were kept for ever, and nothing could be said about that.
#[test]
fn dead_letters_are_given_up_after_their_time() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().keep_dead_letters(HOUR * 3 / 2);
        assert!(config.check().is_ok());
        assert!(config.clone().keep_dead_letters(Duration::ZERO).check().is_err());
        let runtime = machine.open(Runtime::builder().workflow(writes), config).await;
        runtime.start(writes, ()).await.unwrap();
        let mut left = Vec::new();
        for _ in 0..4 {
            let _ = tokio::time::timeout(HOUR * 3 / 4, std::future::pending::<()>()).await;
            left.push(runtime.dead_letters().list(None).await.unwrap().letters.len());
        }
        assert_eq!(left, [1, 3, 2, 0], "after 45, 90, 135 and 180 minutes");
    });
}

/// FAULTS 11: found in review. A sweep ended at the first row that it could not read, and at the first instance; all that
/// came behind it stayed for ever.
#[test]
fn damage_to_one_does_not_keep_the_others() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().keep_completed(HOUR);
        let open = || machine.open(Runtime::builder().workflow(ending), config.clone());
        let runtime = open().await;
        let mut began_ms = 0;
        for id in ["row", "state", "sound"] {
            let handle = runtime.start(ending, "well".to_owned()).id(id).await.unwrap();
            handle.result().await.unwrap();
            let status = handle.status().await.unwrap();
            began_ms = if id == "row" { status.created_at_ms } else { began_ms };
        }
        runtime.stop().await;
        drop(runtime);
        damage(&machine, &Key::Index(Shard(0), began_ms, "row".into()).pack());
        let state = Key::Instance(Shard(0), "state".into(), Local::Meta(Meta::State));
        damage(&machine, &state.pack());
        let runtime = open().await;
        let _ = tokio::time::timeout(2 * HOUR, std::future::pending::<()>()).await;
        let gone = runtime.instance("sound").unwrap().status().await.unwrap_err();
        assert_eq!(gone.code(), "ES0408");
    });
}

/// Found in an audit: what retention deleted went without a word. Whoever watches hears of it as of any other deletion.
#[test]
fn whoever_watches_hears_of_what_is_deleted() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().keep_completed(HOUR);
        let runtime = machine.open(Runtime::builder().workflow(ending), config).await;
        let ended = runtime.start(ending, "well".to_owned()).id("well").await.unwrap();
        ended.result().await.unwrap();
        let mut all = runtime.watch();
        let deleted = tokio::time::timeout(2 * HOUR, all.next()).await.expect("it is told");
        let Some(Watched::Changed(change)) = deleted.unwrap() else {
            panic!("nobody was too slow");
        };
        assert_eq!((change.id.as_str(), change.status), ("well", None));
    });
}

/// Found in review: an instance that has seen very many messages is deleted in several commits, and forgets what it has seen
/// first. One that was given another chance between two of them would have taken the same messages again.
#[test]
fn what_is_being_deleted_is_given_no_other_chance() {
    in_virtual_time(async {
        let machine = Machine::new();
        let config = Config::default().residents_max(64);
        let runtime = machine.open(Runtime::builder().workflow(waits), config).await;
        let old = runtime.start(waits, usize::MAX).id("old").await.unwrap();
        let messages = u64::try_from(SEEN_AT_ONCE_MAX).unwrap() * 5 / 4;
        let words = (0..messages).map(|number| old.send(Word(number)).into_future());
        for sent in futures_util::future::join_all(words).await {
            sent.unwrap();
        }
        old.terminate("it is old").await.unwrap();
        let again = async || old.reset("nowhere").await.unwrap_err();
        assert!(
            matches!(again().await, Error::NoWayBack { .. }),
            "it may, if there were a way"
        );
        // Whoever deletes it goes away in the middle.
        let mut turns = 0;
        while !matches!(again().await, Error::Deleted(_)) {
            let mut deleting = Box::pin(old.delete());
            turns += 1;
            for _ in 0..turns {
                assert!(futures_util::poll!(&mut deleting).is_pending());
                tokio::task::yield_now().await;
            }
            drop(deleting);
            settle().await;
        }
        assert_eq!(
            old.status().await.unwrap().status,
            Status::Terminated,
            "it is there as a whole"
        );
        assert!(matches!(old.retry().await.unwrap_err(), Error::Deleted(_)));
        let renewed = runtime.start(waits, usize::MAX).id("old").if_exists(Existing::NewRun);
        assert!(matches!(renewed.await.unwrap_err(), Error::Deleted(_)));
        old.delete().await.unwrap();
        assert!(matches!(old.status().await.unwrap_err(), Error::Deleted(_)));
        assert!(!runtime.start(waits, usize::MAX).id("old").await.unwrap().existed());
    });
}

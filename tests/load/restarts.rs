//! FAULTS 72: starts and deaths, one after the other, on a real disk and in real time: the process has as many files,
//! threads and bytes as after the first of them.

use std::fs;
use std::path::PathBuf;

use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};

use crate::ground::{SLACK, alone, size};
use crate::weighed::allocated;

#[derive(Debug, Message, Serialize, Deserialize)]
struct Go;

#[workflow(accepts(Go))]
async fn lives(ctx: Ctx<Lives>) -> Result<()> {
    ctx.step("before", || async { ok(()) }).await?;
    ctx.receive::<Go>().timeout("1h").await?;
    ok(ctx.step("after", || async { ok(()) }).await?)
}

/// How often one looks whether a thread has ended, before it is taken to be there for good.
const LOOKS: usize = 1_000_000;

/// As many threads as sled has at most, and a few.
const SLED_THREADS: usize = 160;

fn entries(directory: &str) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// What the open files are called.
fn open_files() -> Vec<PathBuf> {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    files
        .filter_map(|file| fs::read_link(file.unwrap().path()).ok())
        .collect()
}

/// Starts a runtime, lets those of the life before come to their end, leaves others in the middle, and dies.
fn live(url: &str, life: u64) {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    executor.block_on(async {
        let runtime = Runtime::builder().workflow(lives).open(url).await.unwrap();
        for number in 0..10 {
            if life > 0 {
                let before = runtime.handle(lives, &format!("{}-{number}", life - 1)).unwrap();
                before.send(Go).await.unwrap();
                before.result().await.unwrap();
                before.delete().await.unwrap();
            }
            runtime.start(lives, ()).id(format!("{life}-{number}")).await.unwrap();
        }
    });
}

#[test]
fn a_process_that_starts_again_and_again_stays_as_it_was() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    for engine in ["fjall", "sled"] {
        let path = directory.path().join(engine);
        let url = format!("{engine}:{}", path.display());
        // What a process opens once and for all is open after the first life. The threads of sled come and go, and belong
        // to no store.
        let other_threads = entries("/proc/self/task");
        live(&format!("{url}-before"), 0);
        let threads = if engine == "sled" { SLED_THREADS } else { other_threads };
        let files = entries("/proc/self/fd");
        let mut first = None;
        for life in 0..size(8, 1_000) {
            live(&url, life);
            // A thread that was told to end, and what it holds, is gone when the tables say so.
            let gone = || entries("/proc/self/task") <= threads && entries("/proc/self/fd") <= files;
            let mut looks = (0..LOOKS).take_while(|_| !gone()).inspect(|_| std::thread::yield_now());
            assert!(
                looks.by_ref().count() < LOOKS,
                "{engine}, life {life}: of {threads} threads and {files} files there are now {} and {:?}",
                entries("/proc/self/task"),
                open_files()
            );
            let bytes = allocated();
            let at_first = *first.get_or_insert(bytes);
            assert!(
                bytes <= at_first + SLACK,
                "{engine}, life {life}: {bytes} bytes, {at_first} at first"
            );
        }
    }
}

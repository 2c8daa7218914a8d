//! Whoever follows an instance sees what it emits, in order, from where they left off.

use everstep::{Ctx, Error, Result, Runtime, ok, workflow};
use futures_util::StreamExt as _;

use crate::kit::{Word, machine};

/// Emits every word that it is sent, until that is zero.
#[workflow(accepts(Word))]
async fn repeats(ctx: Ctx<Repeats>) -> Result<()> {
    loop {
        let word = ctx.receive::<Word>().await?.0;
        ctx.emit(word)?;
        if word == 0 {
            return ok(());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_behind_its_cursor_also_after_a_restart() {
    let machine = machine();
    let builder = || Runtime::builder().workflow(repeats);
    let runtime = builder().open_simulated(machine.clone()).await.unwrap();
    let speaker = runtime.start(repeats, ()).id("one").await.unwrap();
    let mut stream = speaker.stream::<u64>();
    let mut cursor = None;
    for word in [7, 8] {
        speaker.send(Word(word)).await.unwrap();
        let item = stream.next().await.unwrap().unwrap();
        assert_eq!(item.value, word);
        cursor = item.cursor;
    }
    drop((speaker, stream));
    runtime.stop().await;
    drop(runtime);
    let runtime = builder().open_simulated(machine).await.unwrap();
    let speaker = runtime.handle(repeats, "one").unwrap();
    for word in [9, 0] {
        speaker.send(Word(word)).await.unwrap();
    }
    speaker.result().await.unwrap();
    let mut rest = Vec::new();
    let mut stream = speaker.stream::<u64>().after(cursor.unwrap());
    while let Some(item) = stream.next().await.unwrap() {
        rest.push(item.value);
    }
    assert_eq!(rest, [9, 0]);
    let mut all = speaker.stream::<u64>();
    assert_eq!(all.next().await.unwrap().unwrap().value, 7);
}

/// Emits the word that it is sent, and broadcasts another.
#[workflow(accepts(Word))]
async fn whispers(ctx: Ctx<Whispers>) -> Result<()> {
    let word = ctx.receive::<Word>().await?.0;
    ctx.broadcast(word + 1)?;
    ctx.emit(word)?;
    ctx.receive::<Word>().await?;
    ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_broadcast_comes_behind_what_is_stored_and_is_gone() {
    let runtime = Runtime::builder().workflow(whispers);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let speaker = runtime.start(whispers, ()).await.unwrap();
    let mut live = speaker.stream::<u64>();
    speaker.send(Word(5)).await.unwrap();
    let (first, second) = (live.next().await.unwrap().unwrap(), live.next().await.unwrap().unwrap());
    assert_eq!((first.value, first.cursor), (5, Some(0)));
    assert_eq!((second.value, second.cursor), (6, None));
    let mut late = speaker.stream::<u64>();
    speaker.send(Word(0)).await.unwrap();
    assert_eq!(live.next().await.unwrap(), None);
    assert_eq!(late.next().await.unwrap().unwrap().value, 5);
    assert_eq!(late.next().await.unwrap(), None);
}

/// Found in a review: a stream gave the same error for ever at an item that was none of its type.
#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_behind_what_it_can_not_read() {
    let runtime = Runtime::builder().workflow(mixes);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let mixes = runtime.start(mixes, ()).await.unwrap();
    mixes.result().await.unwrap();
    let mut stream = mixes.stream::<u64>();
    assert_eq!(stream.next().await.unwrap().unwrap().value, 1);
    let unreadable = stream.next().await.unwrap_err();
    assert!(
        matches!(unreadable, Error::Item { cursor: Some(1), .. }),
        "{unreadable:?}"
    );
    assert_eq!(unreadable.code(), "ES0242");
    assert_eq!(stream.next().await.unwrap().unwrap().value, 3);
    assert_eq!(stream.next().await.unwrap(), None);
    let all: Vec<_> = mixes.stream::<u64>().map(|item| item.is_ok()).collect().await;
    assert_eq!(all, [true, false, true]);
}

/// Emits things of different types.
#[workflow]
async fn mixes(ctx: Ctx<Mixes>) -> Result<()> {
    ctx.emit(1_u64)?;
    ctx.emit("two")?;
    ctx.emit(3_u64)?;
    ok(())
}

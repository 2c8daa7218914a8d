//! BEHAVIOUR 40, 41, 44 to 46; FAULTS 20 and 56: any two operations at once leave one outcome, and both answers fit it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use everstep::storage::record::Status;
use everstep::{Effect, Handle, Operated, Result};

use crate::kit::{Waits, Word, open, waits};

/// What can be done to an instance from outside.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Operation {
    Pause,
    Resume,
    Cancel,
    Terminate,
    Complete,
}

const OPERATIONS: [Operation; 5] = [
    Operation::Pause,
    Operation::Resume,
    Operation::Cancel,
    Operation::Terminate,
    Operation::Complete,
];

type Answer = Result<Option<Operated>, everstep::Error>;

fn run(operation: Operation, handle: &Handle<Waits>) -> Pin<Box<dyn Future<Output = Answer> + '_>> {
    Box::pin(async move {
        match operation {
            Operation::Pause => handle.pause().await.map(Some),
            Operation::Resume => handle.resume().await.map(Some),
            Operation::Cancel => handle.cancel("a race").await.map(Some),
            Operation::Terminate => handle.terminate("a race").await.map(Some),
            Operation::Complete => match handle.send(Word(1)).await {
                Ok(_) => Ok(None),
                Err(error) if error.code() == "ES0407" => Ok(None),
                Err(error) => Err(error),
            },
        }
    })
}

/// Every pair, in both orders, with the second one a few polls behind the first.
#[tokio::test(start_paused = true)]
async fn every_pair_of_operations_leaves_one_outcome() {
    let runtime = open().await;
    for first in OPERATIONS {
        for second in OPERATIONS {
            for behind in 0..12 {
                let story = format!("{first:?}, and {behind} polls later {second:?}");
                let handle = runtime.start(waits, 1).await.unwrap();
                handle.reached(|status| status == Status::Waiting).await.unwrap();
                let both = async {
                    let (one, two) = futures_util::join!(run(first, &handle), async {
                        for _ in 0..behind {
                            tokio::task::yield_now().await;
                        }
                        run(second, &handle).await
                    });
                    let answers = [(first, one.unwrap()), (second, two.unwrap())];
                    fits(&handle, &answers, &story).await;
                };
                // In virtual time: it is over when nobody has anything to do.
                let settled = tokio::time::timeout(Duration::from_secs(3_600), both).await;
                assert!(settled.is_ok(), "{story}: somebody waits for ever");
            }
        }
    }
}

/// Whether an operation was done, or is sure to be.
fn is_done(answer: Operated) -> bool {
    matches!(answer.effect, Effect::Done | Effect::Asked)
}

/// Brings the instance to its end, and compares that with what the operations said.
async fn fits(handle: &Handle<Waits>, answers: &[(Operation, Option<Operated>)], story: &str) {
    handle.resume().await.unwrap();
    let done = |wanted| {
        answers
            .iter()
            .any(|(operation, answer)| *operation == wanted && answer.is_some_and(is_done))
    };
    let ends = [Operation::Cancel, Operation::Terminate, Operation::Complete];
    if !answers.iter().any(|(operation, _)| ends.contains(operation)) {
        let now = handle.status().await.unwrap().status;
        assert_eq!(now, Status::Waiting, "{story}: nothing ended it");
        return;
    }
    let end = handle.reached(Status::is_terminal).await.unwrap();
    match end {
        Status::Terminated => assert!(done(Operation::Terminate), "{story}: nobody says that it did it"),
        Status::Cancelled => assert!(done(Operation::Cancel), "{story}: nobody says that it did it"),
        Status::Completed => assert!(
            answers.iter().any(|(operation, _)| *operation == Operation::Complete),
            "{story}: it was not completed"
        ),
        other => panic!("{story}: {other}"),
    }
    if done(Operation::Terminate) {
        assert_eq!(
            end,
            Status::Terminated,
            "{story}: a termination that was done is the end"
        );
    }
    for (operation, answer) in answers {
        if let Some(Operated {
            effect: Effect::Ended,
            now,
            ..
        }) = answer
        {
            assert_eq!(*now, end, "{story}: {operation:?} was told of another end");
        }
    }
}

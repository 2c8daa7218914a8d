//! The process that is killed: a runtime, and clients who say what they were told.

use everstep::storage::record::Status;
use everstep::{Config, Error, Runtime, Sent};

use super::flows::{self, Kind, NOTES, Note, job};
use super::told::{self, Known};
use super::{CLIENTS, Life, observer, point};
use crate::victim::say;

pub(crate) fn run(url: &str, life: &Life) -> Result<(), String> {
    let file = life
        .observer
        .as_deref()
        .ok_or("a child with workflows needs an observer")?;
    observer::open(file)?;
    if let Some(trap) = life.trap {
        point::set(trap);
    }
    let executor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    executor.map_err(|error| error.to_string())?.block_on(live(url, life))
}

async fn live(url: &str, life: &Life) -> Result<(), String> {
    // Being killed is what these workflows are for: no number of deaths makes one suspicious.
    let config = Config::default().crash_limit(u32::MAX);
    let runtime = flows::runtime()
        .config(config)
        .open(url)
        .await
        .map_err(|error| text(&error))?;
    let runtime = std::sync::Arc::new(runtime);
    say("open");
    let mut clients = tokio::task::JoinSet::new();
    for first in &life.jobs {
        let known = life.known.iter().find(|known| known.job == *first);
        clients.spawn(client(runtime.clone(), *first, life.until, known.copied()));
    }
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    runtime.stop().await;
    Ok(())
}

/// One job after the other. The first is begun again if a client before this one began it: that changes nothing, and what
/// that client was told was done is done.
async fn client(
    runtime: std::sync::Arc<Runtime>,
    first: u64,
    until: Option<u64>,
    known: Option<Known>,
) -> Result<(), String> {
    let mut number = first;
    while until.is_none_or(|until| number < until) {
        let id = told::instance(number);
        let known = known.filter(|known| known.job == number);
        let started = runtime.start(job, number).id(id.as_str()).await;
        let handle = started.map_err(|error| text(&error))?;
        if known.is_some() && !handle.existed() {
            return Err(format!("{id} was started once, and is started anew"));
        }
        say(&format!("started {number}"));
        if Kind::of(number) == Kind::Mail {
            for note in 0..NOTES {
                match handle.send(Note(note)).id(told::note_id(note)).await {
                    Ok(Sent::Accepted) if known.is_some_and(|known| note < known.notes) => {
                        return Err(format!("note {note} to {id} was sent once, and is accepted anew"));
                    }
                    // All that it waits for was sent before.
                    Ok(_) | Err(Error::Finished { .. }) => say(&format!("sent {number} {note}")),
                    Err(error) => return Err(text(&error)),
                }
            }
        }
        let status = handle
            .reached(Status::is_terminal)
            .await
            .map_err(|error| text(&error))?;
        match handle.result().await {
            Ok(marks) => {
                let numbers: Vec<_> = marks.iter().map(|mark| mark.number.as_str()).collect();
                say(&format!("ended {number} {status} {}", numbers.join(",")));
            }
            Err(Error::Failed(_)) if Kind::of(number) == Kind::Saga => say(&format!("ended {number} {status} ")),
            Err(error) => return Err(format!("{id}: {}", text(&error))),
        }
        number += CLIENTS;
    }
    Ok(())
}

fn text(error: &Error) -> String {
    format!("{} {error}", error.code())
}

//! The process that kills, and checks what is left.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use everstep::storage::key::{Local, Meta};
use everstep::storage::record::State;
use everstep::storage::{OpenOptions, Store};

use super::rows::Expected;
use super::workload::{WRITERS, Writer};
use crate::at_sync::AtSync;
use crate::chance::Chance;
use crate::victim::Victim;

/// What a run has seen.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    beyond: u64,
    killed_while_opening: u64,
    killed_at_a_sync: u64,
}

/// Kills so often, and says what was seen.
pub(crate) fn kill(victim: &mut Victim, cycles: u64, seed: u64) -> Result<String, String> {
    let mut chance = Chance::new(seed);
    let mut writers: Vec<_> = (0..WRITERS).map(Writer::new).collect();
    let mut seen = Seen::default();
    for number in 1..=cycles {
        let moment = Moment::choose(number, &mut chance);
        cycle(victim, moment, chance.next(), &mut writers, &mut seen)
            .map_err(|error| format!("cycle {number}: {error}"))?;
        if number % 10 == 0 {
            println!("cycle {number}: {} acknowledged so far", seen.acknowledged);
        }
    }
    Ok(format!(
        "{cycles} cycles: {} commits acknowledged, all there; {} more had been on their way; {} kills hit the opening, \
         {} a sync",
        seen.acknowledged, seen.beyond, seen.killed_while_opening, seen.killed_at_a_sync
    ))
}

fn cycle(victim: &mut Victim, moment: Moment, cut: u64, writers: &mut [Writer], seen: &mut Seen) -> Result<(), String> {
    let dies = match moment {
        Moment::AtSync(at) => Some(at),
        Moment::Early(_) | Moment::Later(_) => None,
    };
    let (child, lines) = victim.spawn(&[], dies)?;
    let mut acknowledged: Vec<_> = writers.iter().map(|writer| writer.revision).collect();
    let mut opened = false;
    let died = watch(&lines, moment, &mut opened, &mut acknowledged);
    let status = Victim::kill(child)?;
    // What was in the pipe when it died counts: it was acknowledged.
    while let Ok(line) = lines.recv() {
        note(&line, &mut opened, &mut acknowledged);
    }
    let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
    match dies {
        Some(at) if died && killed => at.judge(opened)?,
        None if !died => {}
        _ => return Err(format!("the child ended unexpectedly ({moment:?}): {status}")),
    }
    seen.killed_while_opening += u64::from(!opened);
    seen.killed_at_a_sync += u64::from(dies.is_some());
    victim.cut_power(cut)?;
    let store = OpenOptions::new()
        .open(&victim.url)
        .map_err(|error| format!("{} {error}", error.code()))?;
    for (writer, acknowledged) in writers.iter_mut().zip(acknowledged) {
        seen.acknowledged += acknowledged - writer.revision;
        settle(&store, writer, acknowledged, seen)?;
    }
    let mut expected = Expected::default();
    writers.iter().for_each(|writer| writer.expect(&store, &mut expected));
    expected.compare(&store)?;
    store.close().map_err(|error| error.to_string())
}

/// When to kill.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// This long after the start, which is mostly before the store is open.
    Early(Duration),
    /// After so many acknowledgements.
    Later(u64),
    /// By itself, at a sync.
    AtSync(AtSync),
}

impl Moment {
    /// Every second kill is at a sync.
    fn choose(cycle: u64, chance: &mut Chance) -> Self {
        if cycle.is_multiple_of(2) {
            return Self::AtSync(AtSync::in_turn(cycle / 2, chance));
        }
        match chance.below(4) {
            0 => Self::Early(Duration::from_micros(chance.below(60_000))),
            1 => Self::Later(1 + chance.below(50)),
            _ => Self::Later(1 + chance.below(4_000)),
        }
    }
}

/// Reads lines until the moment has come. Tells whether the child died before.
fn watch(lines: &Receiver<String>, moment: Moment, opened: &mut bool, acknowledged: &mut [u64]) -> bool {
    match moment {
        Moment::Early(after) => match lines.recv_timeout(after) {
            Ok(line) => {
                note(&line, opened, acknowledged);
                false
            }
            Err(error) => error == RecvTimeoutError::Disconnected,
        },
        Moment::Later(acknowledgements) => {
            for _ in 0..=acknowledgements {
                let Ok(line) = lines.recv() else {
                    return true;
                };
                note(&line, opened, acknowledged);
            }
            false
        }
        Moment::AtSync(_) => {
            // Nobody else kills it: if it is dead, it died by itself.
            loop {
                match lines.recv_timeout(SILENCE) {
                    Ok(line) => note(&line, opened, acknowledged),
                    Err(error) => return error == RecvTimeoutError::Disconnected,
                }
            }
        }
    }
}

/// A child that is silent for so long does not die any more.
const SILENCE: Duration = Duration::from_secs(60);

fn note(line: &str, opened: &mut bool, acknowledged: &mut [u64]) {
    if line == "open" {
        *opened = true;
        return;
    }
    let numbers = line
        .split_once(' ')
        .and_then(|(writer, revision)| Some((writer.parse::<usize>().ok()?, revision.parse::<u64>().ok()?)));
    if let Some((writer, revision)) = numbers {
        acknowledged[writer] = acknowledged[writer].max(revision);
    }
}

/// Brings the model of a writer to where the store is: at what was acknowledged, or one commit further.
fn settle(store: &Store, writer: &mut Writer, acknowledged: u64, seen: &mut Seen) -> Result<(), String> {
    let namespace = writer.namespace(store);
    let snapshot = store.snapshot(namespace.shard()).map_err(|error| error.to_string())?;
    let state = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State));
    let found = state
        .map_err(|error| error.to_string())?
        .map_or(0, |state| state.revision);
    if found != acknowledged && found != acknowledged + 1 {
        return Err(format!(
            "revision {acknowledged} was acknowledged, the store has {found}"
        ));
    }
    seen.beyond += found - acknowledged;
    while writer.revision < found {
        writer.advance();
    }
    Ok(())
}

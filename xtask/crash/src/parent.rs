//! The process that kills, and checks what is left.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep::storage::key::{Local, Meta};
use everstep::storage::record::State;
use everstep::storage::{OpenOptions, Store};
use everstep_power_loss::Rig;

use crate::Options;
use crate::chance::Chance;
use crate::workload::{WRITERS, Writer};

/// What a run has seen.
#[derive(Debug, Default)]
struct Seen {
    acknowledged: u64,
    beyond: u64,
    killed_while_opening: u64,
    kept: u64,
    undone: u64,
    torn: u64,
}

pub(crate) fn run(options: &Options) -> Result<(), String> {
    let seed = options.seed.unwrap_or_else(seed_of_the_moment);
    let again = format!("--engine {} --cycles {} --seed {seed}", options.engine, options.cycles);
    let power = if options.power_loss { " --power-loss" } else { "" };
    println!("repeat with: cargo xtask crash {again}{power}");
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    let home = options.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    let crash = Crash::new(&home, options)?;
    let outcome = crash.cycles(seed);
    if outcome.is_err() && options.directory.is_none() {
        println!("the store is kept in {}", temporary.keep().display());
    }
    let seen = outcome?;
    println!(
        "{} cycles on {}{power}: {} commits acknowledged, all there; {} more had been on their way; {} kills hit the \
         opening",
        options.cycles, options.engine, seen.acknowledged, seen.beyond, seen.killed_while_opening
    );
    if options.power_loss {
        println!(
            "unsynced writes: {} kept, {} undone, {} torn",
            seen.kept, seen.undone, seen.torn
        );
    }
    Ok(())
}

struct Crash<'a> {
    options: &'a Options,
    url: String,
    rig: Option<Rig>,
}

impl<'a> Crash<'a> {
    fn new(home: &Path, options: &'a Options) -> Result<Self, String> {
        let root = home.join("root");
        std::fs::create_dir_all(&root).map_err(|error| error.to_string())?;
        let rig = if options.power_loss {
            let journal = home.join("journal");
            std::fs::create_dir_all(&journal).map_err(|error| error.to_string())?;
            Some(Rig::new(&root, &journal).map_err(|error| error.to_string())?)
        } else {
            None
        };
        let store: PathBuf = root.join("store");
        Ok(Self {
            options,
            url: format!("{}:{}", options.engine, store.display()),
            rig,
        })
    }

    fn cycles(&self, seed: u64) -> Result<Seen, String> {
        let mut chance = Chance::new(seed);
        let mut writers: Vec<_> = (0..WRITERS).map(Writer::new).collect();
        let mut seen = Seen::default();
        for cycle in 1..=self.options.cycles {
            self.cycle(&mut chance, &mut writers, &mut seen)
                .map_err(|error| format!("cycle {cycle}: {error}"))?;
            if cycle % 10 == 0 {
                println!("cycle {cycle}: {} acknowledged so far", seen.acknowledged);
            }
        }
        Ok(seen)
    }

    fn cycle(&self, chance: &mut Chance, writers: &mut [Writer], seen: &mut Seen) -> Result<(), String> {
        let (mut child, lines) = self.spawn()?;
        let mut acknowledged: Vec<_> = writers.iter().map(|writer| writer.revision).collect();
        let mut opened = false;
        let moment = Moment::choose(chance);
        let died = watch(&lines, moment, &mut opened, &mut acknowledged);
        child.kill().map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        // What was in the pipe when it died counts: it was acknowledged.
        while let Ok(line) = lines.recv() {
            note(&line, &mut opened, &mut acknowledged);
        }
        if died {
            return Err(format!("the child ended by itself: {status}"));
        }
        seen.killed_while_opening += u64::from(!opened);
        if let Some(rig) = &self.rig {
            let report = rig.cut(chance.next()).map_err(|error| error.to_string())?;
            seen.kept += report.kept as u64;
            seen.undone += report.undone as u64;
            seen.torn += report.torn as u64;
        }
        let store = OpenOptions::new()
            .open(&self.url)
            .map_err(|error| format!("{} {error}", error.code()))?;
        for (writer, acknowledged) in writers.iter_mut().zip(acknowledged) {
            seen.acknowledged += acknowledged - writer.revision;
            settle(&store, writer, acknowledged, seen)?;
        }
        store.close().map_err(|error| error.to_string())
    }

    fn spawn(&self) -> Result<(Child, Receiver<String>), String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command
            .args(["--engine", &self.options.engine, "--child", &self.url])
            .stdout(Stdio::piped());
        if let Some(rig) = &self.rig {
            rig.wrap(&mut command).map_err(|error| error.to_string())?;
        }
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("the child has no standard output")?;
        let (sender, lines) = mpsc::channel();
        #[expect(clippy::disallowed_methods, reason = "a tool, not the runtime")]
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok((child, lines))
    }
}

/// When to kill.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// This long after the start, which is mostly before the store is open.
    Early(Duration),
    /// After so many acknowledgements.
    Later(u64),
}

impl Moment {
    fn choose(chance: &mut Chance) -> Self {
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
    }
}

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
    writer.check(store)
}

#[expect(clippy::disallowed_methods, reason = "a tool, not the runtime")]
fn seed_of_the_moment() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

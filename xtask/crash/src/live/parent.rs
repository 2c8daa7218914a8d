//! The process that kills a runtime, and checks what its clients were told.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use everstep::storage::OpenOptions;

use super::CLIENTS;
use super::check::World;
use super::flows::Kind;
use super::point::POINTS;
use super::told::Told;
use crate::at_sync::AtSync;
use crate::chance::Chance;
use crate::victim::Victim;

/// Kills so often, lets everything come to its end, and says what was seen.
pub(crate) fn kill(victim: &mut Victim, home: &Path, cycles: u64, seed: u64) -> Result<String, String> {
    let mut run = Run::new(home.join("observer"));
    let mut chance = Chance::new(seed);
    for cycle in 1..=cycles {
        let moment = Moment::choose(cycle, &mut chance);
        run.life(victim, &moment)
            .and_then(|()| victim.cut_power(chance.next()))
            .and_then(|()| run.look(victim))
            .map_err(|error| format!("cycle {cycle} ({moment:?}): {error}"))?;
        if cycle % 10 == 0 {
            println!("cycle {cycle}: {} jobs ended so far", run.told.ended.len());
        }
    }
    run.life(victim, &Moment::Never).and_then(|()| run.look(victim))?;
    run.finish()?;
    Ok(format!(
        "{cycles} cycles: {} jobs ended as they should; of {} acknowledgements {} were looked for in the store \
         behind the death of its process, and held; \
         {} attempts were made again; {} kills hit the opening, {} a sync",
        run.told.ended.len(),
        run.told.count,
        run.told.held,
        run.world.again,
        run.killed_while_opening,
        run.killed_at_a_sync
    ))
}

/// What is known so far.
struct Run {
    observer: PathBuf,
    /// How much of the observer's file was read.
    read: u64,
    world: World,
    /// The job that each client does next.
    next: Vec<u64>,
    told: Told,
    /// Whether any child had the store open.
    opened: bool,
    killed_while_opening: u64,
    killed_at_a_sync: u64,
}

/// When a child dies.
#[derive(Debug)]
enum Moment {
    /// This long after the start, which is mostly before the store is open.
    Early(Duration),
    /// After so many acknowledgements.
    Later(u64),
    /// By itself, in a trap.
    Trapped(String),
    /// By itself, at a sync.
    AtSync(AtSync),
    /// Not at all: it ends when every job is done.
    Never,
}

impl Moment {
    /// Two of three kills the child deals itself, at one spot after the other: a few cycles have them all. The third comes
    /// from outside.
    fn choose(cycle: u64, chance: &mut Chance) -> Self {
        let turn = (cycle - 1) / 3;
        match cycle % 3 {
            1 => {
                let (name, _) = POINTS[(turn % POINTS.len() as u64) as usize];
                Self::Trapped(format!("{name}:{}", 1 + chance.below(120)))
            }
            2 => Self::AtSync(AtSync::in_turn(turn, chance)),
            _ => match chance.below(4) {
                0 => Self::Early(Duration::from_micros(chance.below(80_000))),
                1 => Self::Later(1 + chance.below(20)),
                _ => Self::Later(1 + chance.below(1_500)),
            },
        }
    }
}

/// The next thing that a child says, if it lives. One that is silent for so long has lost something.
fn next(lines: &Receiver<String>) -> Result<Option<String>, String> {
    const SILENCE: Duration = Duration::from_secs(60);
    match lines.recv_timeout(SILENCE) {
        Ok(line) => Ok(Some(line)),
        Err(RecvTimeoutError::Disconnected) => Ok(None),
        Err(RecvTimeoutError::Timeout) => Err("the child lives and gets nowhere".into()),
    }
}

impl Run {
    fn new(observer: PathBuf) -> Self {
        Self {
            observer,
            read: 0,
            world: World::default(),
            next: (0..CLIENTS).collect(),
            told: Told::default(),
            opened: false,
            killed_while_opening: 0,
            killed_at_a_sync: 0,
        }
    }

    /// One life of the runtime, from its start to its death.
    fn life(&mut self, victim: &Victim, moment: &Moment) -> Result<(), String> {
        let jobs: Vec<_> = self.next.iter().map(u64::to_string).collect();
        let mut words = vec!["--observer".to_owned(), self.observer.display().to_string()];
        words.extend(["--jobs".to_owned(), jobs.join(",")]);
        let known: Vec<_> = self.told.known(&self.next).iter().map(ToString::to_string).collect();
        if !known.is_empty() {
            words.extend(["--known".to_owned(), known.join(",")]);
        }
        let mut dies = None;
        match moment {
            Moment::Trapped(trap) => words.extend(["--trap".to_owned(), trap.clone()]),
            Moment::Never => {
                let last = self.next.iter().max().copied().unwrap_or_default();
                words.extend(["--until".to_owned(), (last + 1).to_string()]);
            }
            Moment::AtSync(at) => dies = Some(*at),
            Moment::Early(_) | Moment::Later(_) => {}
        }
        let (mut child, lines) = victim.spawn(&words, dies)?;
        let mut opened = false;
        let watched = self.watch(&lines, moment, &mut opened);
        if watched.is_err() {
            Victim::kill(child)?;
            return watched.map(drop);
        }
        let ended = watched?;
        let status = match moment {
            Moment::Trapped(_) | Moment::AtSync(_) | Moment::Never => {
                child.wait().map_err(|error| error.to_string())?
            }
            Moment::Early(_) | Moment::Later(_) => Victim::kill(child)?,
        };
        // What was in the pipe when it died counts: it was told.
        while let Ok(line) = lines.recv() {
            self.note(&line, &mut opened)?;
        }
        self.killed_while_opening += u64::from(!opened);
        self.opened |= opened;
        let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        let expected = match moment {
            Moment::Never => status.success(),
            Moment::Trapped(_) => killed,
            Moment::AtSync(at) if killed => {
                self.killed_at_a_sync += 1;
                at.judge(opened).map(|()| true)?
            }
            Moment::AtSync(_) => false,
            Moment::Early(_) | Moment::Later(_) => killed && !ended,
        };
        if expected {
            Ok(())
        } else {
            Err(format!("the child ended unexpectedly: {status}"))
        }
    }

    /// Listens until the moment has come. Tells whether the child died before.
    fn watch(&mut self, lines: &Receiver<String>, moment: &Moment, opened: &mut bool) -> Result<bool, String> {
        match moment {
            Moment::Early(after) => match lines.recv_timeout(*after) {
                Ok(line) => self.note(&line, opened).map(|()| false),
                Err(error) => Ok(error == RecvTimeoutError::Disconnected),
            },
            Moment::Later(times) => {
                for _ in 0..=*times {
                    let Some(line) = next(lines)? else {
                        return Ok(true);
                    };
                    self.note(&line, opened)?;
                }
                Ok(false)
            }
            Moment::Trapped(_) | Moment::AtSync(_) | Moment::Never => {
                while let Some(line) = next(lines)? {
                    self.note(&line, opened)?;
                }
                Ok(true)
            }
        }
    }

    /// Takes note of something that a client was told.
    fn note(&mut self, line: &str, opened: &mut bool) -> Result<(), String> {
        if line == "open" {
            *opened = true;
            return Ok(());
        }
        self.told.note(line)
    }

    /// Looks at what the dead left: the world outside, and a store that is sound.
    fn look(&mut self, victim: &Victim) -> Result<(), String> {
        self.read_observer()?;
        if !self.opened {
            // Killed before there was a store.
            return Ok(());
        }
        let report = OpenOptions::new().verify(&victim.url);
        let report = report.map_err(|error| format!("{} {error}", error.code()))?;
        if !report.is_clean() {
            return Err(format!("the store is not sound: {report}"));
        }
        self.told.look(&victim.url)?;
        // The next life asks for the last end once more before it goes on: what was told has to stay.
        for client in 0..CLIENTS {
            if let Some(job) = self.told.last_ended(client) {
                self.next[client as usize] = job;
            }
        }
        Ok(())
    }

    fn read_observer(&mut self) -> Result<(), String> {
        let Ok(mut file) = std::fs::File::open(&self.observer) else {
            // Killed before the first step.
            return if self.read == 0 {
                Ok(())
            } else {
                Err("the observer's file is gone".into())
            };
        };
        file.seek(SeekFrom::Start(self.read))
            .map_err(|error| error.to_string())?;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|error| error.to_string())?;
            self.read += line.len() as u64 + 1;
            self.world.read(&line)?;
        }
        Ok(())
    }

    /// Every job that was begun has ended, with the results that the world has seen.
    fn finish(&self) -> Result<(), String> {
        let last = self.next.iter().max().copied().unwrap_or_default();
        for job in 0..=last {
            let end = self
                .told
                .ended
                .get(&job)
                .ok_or_else(|| format!("job {job} never ended"))?;
            self.agrees(job, end).map_err(|error| format!("job {job}: {error}"))?;
        }
        Ok(())
    }

    fn agrees(&self, job: u64, end: &str) -> Result<(), String> {
        let (status, marks) = end.split_once(' ').unwrap_or((end, ""));
        let instance = format!("job-{job}");
        let kind = Kind::of(job);
        if kind == Kind::Saga {
            let undone = self.world.undone(&instance);
            let reversed = [format!("{instance}/1/second"), format!("{instance}/1/first")];
            return if status == "compensated" && undone == reversed {
                Ok(())
            } else {
                Err(format!("it is {status} and undid {undone:?}"))
            };
        }
        let marks: Vec<_> = marks.split(',').collect();
        let paths = kind.paths();
        if status != "completed" || marks.len() != paths.len() {
            return Err(format!("it is {status} with {marks:?}, its steps are {paths:?}"));
        }
        // The ids of children are derived; their keys are not known here.
        if kind == Kind::Family {
            return Ok(());
        }
        let run = if kind == Kind::Renewal { 2 } else { 1 };
        for (path, mark) in paths.iter().zip(marks) {
            let key = format!("{instance}/{run}/{path}");
            if self.world.result(&key) != Some(mark) {
                return Err(format!(
                    "its result has {mark} for {key}, the code saw {:?}",
                    self.world.result(&key)
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::at_sync::SPOTS;

    /// The spots were left to chance, and a few cycles had some of them or none.
    #[test]
    fn twelve_cycles_have_every_spot() {
        let mut chance = Chance::new(1);
        let mut dealt = BTreeSet::new();
        for cycle in 1..=12 {
            dealt.insert(match Moment::choose(cycle, &mut chance) {
                Moment::Trapped(trap) => trap.split(':').next().unwrap_or_default().to_owned(),
                Moment::AtSync(at) => format!("{:?} {:?}", at.side, at.stage),
                Moment::Early(_) | Moment::Later(_) => "outside".to_owned(),
                Moment::Never => "never".to_owned(),
            });
        }
        let syncs = SPOTS.map(|(side, stage)| format!("{side:?} {stage:?}"));
        let points = POINTS.map(|(name, _)| name.to_owned());
        let all = syncs.into_iter().chain(points).chain(["outside".to_owned()]);
        assert_eq!(dealt, all.collect());
    }
}

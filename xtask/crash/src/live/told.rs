//! What clients were told, and whether it is still so.
//!
//! It is looked for in the store right after the kill: whoever starts or sends once more under the same id would put
//! something that was lost there again.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

use everstep::InstanceId;
use everstep::storage::key::{Key, Local, Meta};
use everstep::storage::record::State;
use everstep::storage::{OpenOptions, Store};

use super::CLIENTS;

/// What a client was told of a job before it died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    pub(super) job: u64,
    /// Its first notes, which were sent.
    pub(super) notes: u64,
}

impl FromStr for Known {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let numbers = parts.and_then(|(job, notes)| Some((job.parse().ok()?, notes.parse().ok()?)));
        let (job, notes) = numbers.ok_or("what is known is job:notes")?;
        Ok(Self { job, notes })
    }
}

impl std::fmt::Display for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.job, self.notes)
    }
}

/// All that was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The jobs whose start was acknowledged, and how many notes to each.
    started: BTreeMap<u64, u64>,
    /// What became of the jobs whose end was told.
    pub(super) ended: HashMap<u64, String>,
    /// Acknowledgements so far.
    pub(super) count: u64,
    /// Those that were found in a store whose process had been killed since.
    pub(super) held: u64,
    /// How many had been looked for when it was looked last.
    looked: u64,
}

impl Told {
    /// Takes note of something that a client was told. What was told before must still hold.
    pub(super) fn note(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<_> = line.splitn(3, ' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let job = number(1).ok_or_else(|| format!("the child says {line:?}"))?;
        self.count += 1;
        match words[0] {
            "started" => drop(self.started.entry(job).or_default()),
            "sent" => {
                let note = number(2).ok_or_else(|| format!("the child says {line:?}"))?;
                let notes = self.started.entry(job).or_default();
                *notes = (*notes).max(note + 1);
            }
            "ended" => {
                let end = words.get(2).copied().unwrap_or_default();
                let first = self.ended.entry(job).or_insert_with(|| end.to_owned());
                if first != end {
                    return Err(format!("job {job} had ended {first:?}, and is now {end:?}"));
                }
            }
            _ => return Err(format!("the child says {line:?}")),
        }
        Ok(())
    }

    /// What the next clients have to know of the jobs that they begin with.
    pub(super) fn known(&self, jobs: &[u64]) -> Vec<Known> {
        let known = |job: &u64| {
            self.started.get(job).map(|notes| Known {
                job: *job,
                notes: *notes,
            })
        };
        jobs.iter().filter_map(known).collect()
    }

    /// The job that each client was told last that it has ended.
    pub(super) fn last_ended(&self, client: u64) -> Option<u64> {
        let theirs = self.ended.keys().filter(|job| *job % CLIENTS == client);
        theirs.max().copied()
    }

    /// Looks for all of it in a store that nobody has open.
    pub(super) fn look(&mut self, url: &str) -> Result<(), String> {
        let store = OpenOptions::new().open(url);
        let store = store.map_err(|error| format!("{} {error}", error.code()))?;
        let looked = self.is_there(&store);
        store.close().map_err(|error| error.to_string())?;
        looked?;
        self.held += self.count - self.looked;
        self.looked = self.count;
        Ok(())
    }

    fn is_there(&self, store: &Store) -> Result<(), String> {
        for (job, notes) in &self.started {
            let instance = instance(*job);
            let namespace = store.namespace(&instance);
            let snapshot = store.snapshot(namespace.shard()).map_err(|error| error.to_string())?;
            let state = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State));
            let state = state.map_err(|error| error.to_string())?;
            let state = state.ok_or_else(|| format!("{instance} was acknowledged, and is gone"))?;
            for note in 0..*notes {
                let message = note_id(note);
                let key = Key::Dedup(
                    namespace.shard(),
                    Cow::Borrowed(instance.as_str()),
                    message.as_str().into(),
                );
                let row = snapshot.get(&key.pack()).map_err(|error| error.to_string())?;
                row.ok_or_else(|| format!("{message} to {instance} was acknowledged, and is gone"))?;
            }
            if let Some(end) = self.ended.get(job) {
                let (told, status) = (end.split(' ').next().unwrap_or_default(), state.status.to_string());
                if told != status {
                    return Err(format!("{instance} was told to be {told}, and is {status}"));
                }
            }
        }
        Ok(())
    }
}

pub(super) fn instance(job: u64) -> InstanceId {
    InstanceId::new(format!("job-{job}")).expect("a number and a word are an id")
}

pub(super) fn note_id(note: u64) -> String {
    format!("note-{note}")
}

#[cfg(test)]
mod tests {
    use everstep::Runtime;

    use super::super::flows::{self, Note};
    use super::*;

    /// An acknowledged start, or message, that was lost was put there again by the next clients, who start and send once
    /// more and took any answer for a good one.
    #[test]
    fn a_loss_is_seen_before_it_is_mended() {
        let directory = tempfile::tempdir().expect("a directory");
        let url = format!("fjall:{}", directory.path().join("store").display());
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        executor.expect("an executor").block_on(async {
            let runtime: Runtime = flows::runtime().open(&url).await.expect("it opens");
            let job = runtime
                .start(flows::job, 1)
                .id(instance(1).as_str())
                .await
                .expect("it begins");
            job.send(Note(0)).id(note_id(0)).await.expect("it is sent");
            runtime.stop().await;
        });
        let told = |lines: &[&str]| {
            let mut told = Told::default();
            lines.iter().for_each(|line| told.note(line).expect("it is understood"));
            told
        };
        let mut there = told(&["started 1", "sent 1 0"]);
        assert_eq!(there.look(&url), Ok(()));
        assert_eq!(there.look(&url), Ok(()));
        assert_eq!((there.count, there.held), (2, 2), "each counts once");
        assert_eq!(there.known(&[0, 1]), ["1:1".parse().expect("known")]);
        let gone = |lines: &[&str]| told(lines).look(&url).expect_err("it is gone");
        assert!(gone(&["started 1", "started 2"]).contains("job-2 was acknowledged, and is gone"));
        assert!(gone(&["started 1", "sent 1 1"]).contains("note-1 to job-1 was acknowledged"));
        assert!(gone(&["started 1", "ended 1 completed 1,2"]).contains("job-1 was told to be completed"));
        assert!(told(&["ended 1 completed 1"]).note("ended 1 completed 2").is_err());
    }
}

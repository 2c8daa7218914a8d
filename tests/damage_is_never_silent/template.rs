//! A store to be damaged: made once, put down as often as need be, each time with other damage, and looked at.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use everstep::Shard;
use everstep::storage::engine::Snapshot;
use everstep::storage::{Error, value};

use crate::SEED;
use crate::kit::{self, Chance, Rows};

/// How long a damaged store may think before it counts as hanging. It takes well below a second.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A closed store, in memory, to be put down again as often as need be, each time with other damage.
pub(crate) struct Template {
    pub(crate) engine: &'static str,
    pub(crate) files: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) rows: Rows,
}

impl Template {
    /// A store with some hundred commits over several openings, large values among them.
    pub(crate) fn make(engine: &'static str) -> Self {
        Self::with(engine, 0)
    }

    /// The same, with so many megabytes more in the second opening.
    pub(crate) fn with(engine: &'static str, megabytes: u64) -> Self {
        let directory = kit::scratch();
        let path = directory.path().join("store");
        let mut chance = Chance::new(SEED);
        let mut rows = Rows::new();
        let mut revision = 1;
        for session in 0..4 {
            let store = kit::open(engine, &path);
            let namespaces: Vec<_> = (0..8)
                .map(|number| store.namespace(&kit::instance(&format!("i{number}"))))
                .collect();
            for namespace in namespaces.iter().filter(|_| session == 0) {
                kit::commit(&store, kit::start(namespace)).unwrap();
            }
            for _ in 0..8 {
                revision += 1;
                for namespace in &namespaces {
                    let length = match chance.below(24) {
                        0 => 150_000,
                        1..4 => 5_000,
                        _ => 20 + chance.below(400) as usize,
                    };
                    kit::commit(&store, kit::step(namespace, revision, chance.bytes(length))).unwrap();
                    let id = format!("m{revision}");
                    kit::commit(&store, kit::deliver(namespace, revision, &id)).unwrap();
                }
            }
            for number in (0..megabytes).filter(|_| session == 1) {
                let namespace = store.namespace(&kit::instance(&format!("large{number}")));
                kit::commit(&store, kit::start(&namespace)).unwrap();
                let content = vec![number as u8; 1_000_000];
                kit::commit(&store, kit::step(&namespace, 2, content)).unwrap();
            }
            rows = kit::rows(&store).unwrap();
            store.close().unwrap();
            if engine == "fjall" {
                arrange_fjall(&path.join(engine), session);
            }
        }
        Self {
            engine,
            files: kit::files(&path),
            rows,
        }
    }

    pub(crate) fn put_down(&self, path: &Path) {
        put_down(&self.files, path);
    }

    /// Opens what is at `path` and reads everything, each row in two ways.
    pub(crate) fn look(&self, path: &Path) -> Outcome {
        let store = match kit::try_open(self.engine, path) {
            Ok(store) => store,
            Err(error) => return Outcome::Refused(error),
        };
        let mut broken = 0;
        let mut silent = Vec::new();
        let snapshot = store.snapshot(Shard(0)).unwrap();
        for (key, written) in &self.rows {
            match get(&*snapshot, key) {
                Err(_) => broken += 1,
                Ok(Some(found)) if found == *written => {}
                Ok(found) => silent.push(format!(
                    "{key:02x?} reads as {:?} bytes",
                    found.map(|found| found.len())
                )),
            }
        }
        match kit::rows(&store) {
            Err(_) => broken += 1,
            Ok(rows) => {
                let untold = rows
                    .iter()
                    .filter(|(key, found)| self.rows.get(*key) != Some(*found) && value::open(key, found).is_ok());
                silent.extend(untold.map(|(key, _)| format!("{key:02x?} is listed differently")));
                let lost = self.rows.keys().filter(|key| !rows.contains_key(*key));
                silent.extend(lost.map(|key| format!("{key:02x?} is not listed")));
            }
        }
        drop(snapshot);
        // Whether it can be closed well is not the question here; that closing ends is.
        drop(store.close());
        if !silent.is_empty() {
            Outcome::Silent(silent)
        } else if broken > 0 {
            Outcome::Broken
        } else {
            Outcome::Whole
        }
    }
}

/// Brings fjall's files into the state of a larger store that was killed while it wrote a table: the first two
/// sessions lie in tables, what followed half in a sealed journal and half in the active one.
pub(crate) fn arrange_fjall(path: &Path, session: usize) {
    match session {
        0 | 1 => {
            let database = fjall::Database::builder(path).open().unwrap();
            let rows = database
                .keyspace("rows", fjall::KeyspaceCreateOptions::default)
                .unwrap();
            rows.rotate_memtable_and_wait().unwrap();
        }
        2 => {}
        _ => {
            let files = kit::files(path);
            let mut journals = files.iter().filter(|(name, _)| is_journal(name));
            let (name, bytes) = journals.next_back().unwrap();
            let number: u64 = name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            let starts = batches(bytes);
            // The first half is what the tables hold already.
            let middle = starts[starts.len() * 3 / 4];
            fs::write(path.join(name), &bytes[..middle]).unwrap();
            fs::write(path.join(format!("{}.jnl", number + 1)), &bytes[middle..]).unwrap();
        }
    }
}

pub(crate) fn is_journal(name: &Path) -> bool {
    name.extension().is_some_and(|extension| extension == "jnl")
}

/// Where the batches of a journal begin, but for the first: each ends with a mark, and the next begins with its tag.
pub(crate) fn batches(journal: &[u8]) -> Vec<usize> {
    let ends = journal
        .windows(5)
        .enumerate()
        .filter(|(_, window)| window == b"FJL\x03\x01");
    ends.map(|(at, _)| at + 4).collect()
}

/// Reads one row; a value that does not pass its envelope is an error, as it is for everyone who decodes it.
pub(crate) fn get(snapshot: &dyn Snapshot, key: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let found = snapshot.get(key).map_err(|error| error.to_string())?;
    if let Some(found) = &found {
        value::open(key, found).map_err(|error| error.to_string())?;
    }
    Ok(found)
}

pub(crate) fn put_down(files: &BTreeMap<PathBuf, Vec<u8>>, path: &Path) {
    for (name, bytes) in files {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // The engines allocate far more than they write; holes are not worth the time.
        let file = fs::File::create(&path).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for (at, part) in bytes.chunks(HOLE.len()).enumerate() {
            // By slices: comparing byte by byte would be most of the test's time.
            if part != &HOLE[..part.len()] {
                file.write_all_at(part, (at * HOLE.len()) as u64).unwrap();
            }
        }
    }
}

/// What was allocated and never written.
pub(crate) static HOLE: [u8; 64 * 1024] = [0; 64 * 1024];

pub(crate) fn flip(path: &Path, at: usize, bit: u8) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at as u64).unwrap();
    file.write_all_at(&[byte[0] ^ bit], at as u64).unwrap();
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Refused(Error),
    Whole,
    Broken,
    Silent(Vec<String>),
}

/// What is done to a copy, and how it is called.
pub(crate) type Damage = (String, Box<dyn Fn(&Path) + Send>);

/// Puts every damage on a fresh copy, and counts what came of it.
pub(crate) fn try_all(template: Template, damages: Vec<Damage>) {
    println!("seed {SEED:#x}, {} cases on {}", damages.len(), template.engine);
    let (sender, outcomes) = mpsc::channel();
    let untouched = kit::scratch();
    template.put_down(untouched.path());
    let outcome = template.look(untouched.path());
    assert!(matches!(outcome, Outcome::Whole), "without any damage: {outcome:?}");
    let cases: Vec<_> = damages.iter().map(|(name, _)| name.clone()).collect();
    let worker = std::thread::spawn(move || {
        for (_, damage) in damages {
            let directory = kit::scratch();
            template.put_down(directory.path());
            damage(directory.path());
            if sender.send(template.look(directory.path())).is_err() {
                return;
            }
        }
    });
    let mut counts = [0; 3];
    let mut silent = Vec::new();
    for case in cases {
        match outcomes.recv_timeout(PATIENCE) {
            Ok(Outcome::Whole) => counts[0] += 1,
            Ok(Outcome::Broken) => counts[1] += 1,
            Ok(Outcome::Refused(error)) => {
                assert!(error.code().starts_with("ES02"), "{case}: {error}");
                counts[2] += 1;
            }
            Ok(Outcome::Silent(what)) => silent.push(format!("{case}: {} rows, {}", what.len(), what[0])),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{case}: still not done after {PATIENCE:?}"),
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{case}: panicked"),
        }
    }
    worker.join().unwrap();
    println!("whole {}, broken rows {}, refused {}", counts[0], counts[1], counts[2]);
    assert!(silent.is_empty(), "silent: {silent:#?}");
    assert!(counts[2] > 0, "not one damage was noticed, which no store can do");
}

//! What becomes of a damaged store when somebody accepts the loss (FAULTS 8 and 9): it opens with a state that it really
//! had, the last one before the damage or a later one; its header says so; and every file that could not be read is
//! kept as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use everstep::storage::key::Key;
use everstep::storage::record::AcceptedLoss;
use everstep::storage::{Commit, Error, OpenOptions, Store, value};
use xxhash_rust::xxh3::xxh3_64;

use crate::SEED;
use crate::kit::{self, Chance, Rows};
use crate::template::{Damage, arrange_fjall, batches, flip, is_journal, put_down};

/// A closed store, and every state that it had.
struct Made {
    engine: &'static str,
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// A hash of its rows behind each of its commits.
    states: BTreeMap<u64, u64>,
    /// The last of them.
    rows: Rows,
    last: u64,
}

/// What an accepted loss left.
enum Left {
    /// This commit, as the header says, and everything before it.
    State(u64),
    /// Nothing that can be opened, and the reason.
    Nothing(String),
}

impl Made {
    /// Commit 1 is the header, and each of the others is the next revision of the only instance.
    fn make(engine: &'static str) -> Self {
        let directory = kit::scratch();
        let path = directory.path().join("store");
        let mut chance = Chance::new(SEED);
        let mut states = BTreeMap::from([(0, hash(&Rows::new())), (1, hash(&Rows::new()))]);
        let (mut last, mut rows) = (1, Rows::new());
        for session in 0..4 {
            let store = kit::open(engine, &path);
            for _ in 0..14 {
                let length = 40 + chance.below(500) as usize;
                let commit = next(&store, last, chance.bytes(length));
                last = kit::commit(&store, commit).unwrap().sequence;
                rows = kit::rows(&store).unwrap();
                states.insert(last, hash(&rows));
            }
            store.close().unwrap();
            if engine == "fjall" {
                arrange(&path.join(engine), session);
            }
        }
        let files = kit::files(&path);
        Self {
            engine,
            files,
            states,
            rows,
            last,
        }
    }

    /// Damages a copy, and sees what becomes of it when the loss is accepted. `None` if nothing was lost.
    fn accept(&self, case: &str, damage: &dyn Fn(&Path)) -> Option<Left> {
        let directory = kit::scratch();
        let path = directory.path().join("store");
        put_down(&self.files, &path);
        damage(&path);
        let damaged = without_lock(&path);
        let refused = match kit::try_open(self.engine, &path) {
            Ok(store) => {
                let rows = rows(&store).unwrap();
                store.close().unwrap();
                let differ = differences(&rows, &self.rows);
                assert!(differ.is_empty(), "{case}: silent: {differ:?}");
                return None;
            }
            Err(error) => error,
        };
        if let Error::DamagedLog { expected, .. } = refused {
            assert_eq!(expected, self.last, "{case}");
            assert!(without_lock(&path) == damaged, "{case}: a refused open changed files");
        }
        let accepting = OpenOptions::new().accept_loss(true);
        let store = match accepting.open(&kit::url(self.engine, &path)) {
            Ok(store) => store,
            Err(error) => {
                assert!(!matches!(error, Error::DamagedLog { .. }), "{case}: {error}");
                let error = error.to_string();
                assert!(error.contains("backup"), "{case}: {error}");
                return Some(Left::Nothing(error));
            }
        };
        let [loss] = store.header().accepted_losses.as_slice() else {
            panic!("{case}: {:?}", store.header());
        };
        let loss = loss.clone();
        assert_eq!(loss.expected, Some(self.last), "{case}");
        if let Error::DamagedLog { path: file, found, .. } = &refused {
            assert!(found.is_none_or(|found| found <= loss.found), "{case}: {found:?}");
            kept(&path, file.strip_prefix(&path).unwrap(), &damaged, case);
        }
        let state = rows(&store).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(hash(&state) == self.states[&loss.found], "{case}: no state that it had");
        self.go_on(store, &path, &loss, case);
        Some(Left::State(loss.found))
    }

    /// The store is one that can be used.
    fn go_on(&self, store: Store, path: &Path, loss: &AcceptedLoss, case: &str) {
        kit::commit(&store, next(&store, loss.found, vec![7; 300])).unwrap_or_else(|error| panic!("{case}: {error}"));
        let state = rows(&store).unwrap();
        store.close().unwrap();
        let store = kit::try_open(self.engine, path).unwrap_or_else(|error| panic!("{case}, again: {error}"));
        assert!(rows(&store).unwrap() == state, "{case}: reads differently");
        assert_eq!(
            store.header().accepted_losses.as_slice(),
            std::slice::from_ref(loss),
            "{case}"
        );
        store.close().unwrap();
    }
}

/// The commit behind this one.
fn next(store: &Store, last: u64, content: Vec<u8>) -> Commit {
    let namespace = store.namespace(&kit::instance("a"));
    if last <= 1 {
        kit::start(&namespace)
    } else {
        kit::step(&namespace, last, content)
    }
}

/// What is read differently from what was written.
fn differences(found: &Rows, written: &Rows) -> Vec<String> {
    let header = Key::Store.pack();
    let keys: BTreeSet<_> = found
        .keys()
        .chain(written.keys())
        .filter(|key| **key != header)
        .collect();
    let length = |rows: &Rows, key| rows.get(key).map(Vec::len);
    keys.into_iter()
        .filter(|key| found.get(*key) != written.get(*key))
        .map(|key| {
            let (written, found) = (length(written, key), length(found, key));
            format!(
                "{:?}: {written:?} bytes were written, {found:?} are read",
                Key::unpack(key)
            )
        })
        .collect()
}

/// A hash of all rows but the header.
fn hash(rows: &Rows) -> u64 {
    let mut bytes = Vec::new();
    for (key, value) in rows.iter().filter(|(key, _)| **key != Key::Store.pack()) {
        for part in [key, value] {
            bytes.extend_from_slice(&part.len().to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    xxh3_64(&bytes)
}

/// Every row but the header, which says what was accepted; an error if one of them can't be trusted.
fn rows(store: &Store) -> Result<Rows, String> {
    let mut rows = kit::rows(store).map_err(|error| error.to_string())?;
    rows.remove(&Key::Store.pack());
    for (key, value) in &rows {
        value::open(key, value).map_err(|error| error.to_string())?;
    }
    Ok(rows)
}

fn without_lock(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = kit::files(path);
    files.remove(Path::new("lock"));
    files
}

/// The journal that was damaged and all behind it are kept, to the byte.
fn kept(path: &Path, from: &Path, damaged: &BTreeMap<PathBuf, Vec<u8>>, case: &str) {
    let journals = damaged
        .iter()
        .filter(|(name, _)| is_journal(name) && name.as_path() >= from);
    let mut count = 0;
    for (name, bytes) in journals {
        let copy = path.join("damaged/1").join(name.file_name().unwrap());
        assert!(
            fs::read(&copy).is_ok_and(|kept| kept == *bytes),
            "{case}: {}",
            copy.display()
        );
        count += 1;
    }
    assert!(count > 0, "{case}");
    assert!(path.join("damaged/1/cut").is_file(), "{case}");
}

/// As a larger store that was killed while it wrote a table: the first two sessions lie in tables, and what followed
/// half in sealed journals and half in the active one.
fn arrange(path: &Path, session: usize) {
    if session < 3 {
        return arrange_fjall(path, session);
    }
    let files = kit::files(path);
    let (name, bytes) = files.iter().rfind(|(name, _)| is_journal(name)).unwrap();
    let number: u64 = name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let starts = batches(bytes);
    let cuts = [
        0,
        starts[starts.len() * 6 / 10],
        starts[starts.len() * 8 / 10],
        bytes.len(),
    ];
    for (number, cut) in (number..).zip(cuts.windows(2)) {
        fs::write(path.join(format!("{number}.jnl")), &bytes[cut[0]..cut[1]]).unwrap();
    }
}

fn all_flips(made: &Made, is_meant: impl Fn(&Path) -> bool, flips: usize) -> Vec<Damage> {
    let mut chance = Chance::new(SEED);
    let mut damages: Vec<Damage> = Vec::new();
    for (name, bytes) in made.files.iter().filter(|(name, _)| is_meant(name)) {
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for number in 0..flips.min(written) {
            let (from, to) = (number * written / flips, (number + 1) * written / flips);
            let at = from + chance.below((to - from).max(1) as u64) as usize;
            let (file, bit) = (name.clone(), 1 << chance.below(8));
            let flip = move |path: &Path| flip(&path.join(&file), at, bit);
            damages.push((format!("{} byte {at} bit {bit:#x}", name.display()), Box::new(flip)));
        }
    }
    damages
}

/// FAULTS 8: the loss of what a flipped bit hides could not be accepted. A store whose journal was damaged in the middle
/// did not open until a backup was restored.
#[test]
fn the_loss_behind_a_damaged_journal_can_be_accepted() {
    let made = Made::make("fjall");
    let mut damages = all_flips(&made, is_journal, 70);
    let journals: Vec<_> = made.files.keys().filter(|name| is_journal(name)).cloned().collect();
    let [first, second, third] = journals.as_slice() else {
        panic!("{journals:?}");
    };
    let cut = |file: &Path, part: usize| {
        let bytes = &made.files[file];
        let (file, bytes) = (file.to_owned(), bytes[..bytes.len() * part / 4].to_vec());
        let case = format!("{} cut to {} bytes", file.display(), bytes.len());
        let cut = move |path: &Path| fs::write(path.join(&file), &bytes).unwrap();
        (case, Box::new(cut) as Box<dyn Fn(&Path) + Send>)
    };
    damages.extend(
        [first, second, third]
            .into_iter()
            .flat_map(|file| [0, 1, 3].map(|part| cut(file, part))),
    );
    let middle = second.clone();
    let remove = move |path: &Path| fs::remove_file(path.join(&middle)).unwrap();
    damages.push(("the one in the middle removed".into(), Box::new(remove)));
    println!("seed {SEED:#x}, {} cases", damages.len());
    let mut found = BTreeMap::<_, usize>::new();
    for (case, damage) in &damages {
        match made.accept(case, damage) {
            Some(Left::State(state)) => *found.entry(state).or_default() += 1,
            Some(Left::Nothing(why)) => panic!("{case}: {why}"),
            None => {}
        }
    }
    println!("of {} commits, so often so many were left: {found:?}", made.last);
    assert!(found.values().sum::<usize>() > damages.len() * 9 / 10, "{found:?}");
    assert!(
        found.len() > 15,
        "damage at different places leaves different states: {found:?}"
    );
}

/// FAULTS 8: sled did not open, also if the loss was accepted, where it can't read its settings, the summary of its log,
/// or what the summary says that the log holds. All it needs is the log, up to where that can be read. It cuts the rest
/// off itself when it opens, before anybody is asked, so of the log nothing can be kept.
#[test]
fn the_loss_behind_a_damaged_log_of_sled_can_be_accepted() {
    accept_in_sled(&Made::make("sled"), 70);
}

fn accept_in_sled(made: &Made, flips: usize) {
    let damages = all_flips(made, |name| name.starts_with("sled"), flips);
    println!("seed {SEED:#x}, {} cases", damages.len());
    let (mut states, mut nothing) = (BTreeMap::<_, usize>::new(), Vec::new());
    for (case, damage) in &damages {
        match made.accept(case, damage) {
            Some(Left::State(state)) => *states.entry(state).or_default() += 1,
            Some(Left::Nothing(why)) => nothing.push(format!("{case}: {why}")),
            None => {}
        }
    }
    println!("of {} commits, so often so many were left: {states:?}", made.last);
    println!("nothing was left {} times: {nothing:#?}", nothing.len());
    assert!(
        states.len() > 10,
        "damage at different places leaves different states: {states:?}"
    );
    assert!(nothing.len() <= damages.len() / 10, "{nothing:#?}");
}

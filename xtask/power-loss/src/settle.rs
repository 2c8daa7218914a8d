//! The effect that a kill interrupted.
//!
//! The shim records an effect and then lets it happen, one at a time, so only
//! the last record can be without its effect, or with half of it. Before anyone
//! goes on, that is settled: content is finished, names are taken as found.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::{
    Error,
    image::{self, Fate},
    record::{Change, Event, Record},
    tree::Tree,
};

/// Reads the records, with the last one in agreement with the disk.
pub(crate) fn settle(path: &Path, actual: &Tree) -> Result<Vec<Record>, Error> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        bytes => bytes?,
    };
    let (mut records, valid) = Record::decode_all(&bytes);
    if valid < bytes.len() {
        OpenOptions::new().write(true).open(path)?.set_len(valid as u64)?;
    }
    let Some(last) = records.last() else {
        return Ok(records);
    };
    let news = match &last.event {
        Event::Write { file, .. } | Event::Resize { file, .. } => {
            if let Some(place) = actual.place(*file) {
                finish(place, &last.event)?;
            }
            None
        }
        Event::Entries(changes) => names_as_found(last.seq, changes, actual),
        Event::Outcome { .. } | Event::Synced { .. } => None,
    };
    if let Some(event) = news {
        let record = Record {
            seq: last.seq + 1,
            event,
        };
        let mut line = Vec::new();
        record.encode(&mut line);
        OpenOptions::new().append(true).open(path)?.write_all(&line)?;
        records.push(record);
    }
    Ok(records)
}

fn finish(place: &Path, event: &Event) -> Result<(), Error> {
    let present = fs::read(place)?;
    let mut finished = present.clone();
    image::redo(&mut finished, event, None, &Fate::Kept);
    if finished != present {
        fs::write(place, finished)?;
    }
    Ok(())
}

fn names_as_found(seq: u64, changes: &[Change], actual: &Tree) -> Option<Event> {
    let found = |change: &Change| actual.get(&(change.dir, change.name.clone()));
    let differing = changes.iter().find(|change| found(change) != change.after)?;
    if (differing.before, differing.after) == (None, None) {
        // The name was claimed and the file created, but not yet recorded.
        let after = found(differing);
        return Some(Event::Entries(vec![Change {
            after,
            ..differing.clone()
        }]));
    }
    Some(Event::Outcome { of: seq, done: 0 })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn settle_after(event: impl FnOnce(u64, u64) -> Event) -> (Vec<Record>, Vec<u8>) {
        let home = tempfile::tempdir().expect("a temporary directory");
        let (root, log) = (home.path().join("root"), home.path().join("records"));
        fs::create_dir(&root).expect("a root");
        fs::write(root.join("f"), b"abcd").expect("a file");
        let id = |path: &Path| fs::metadata(path).expect("metadata").ino();
        let event = event(id(&root), id(&root.join("f")));
        let mut bytes = Vec::new();
        Record { seq: 5, event }.encode(&mut bytes);
        bytes.extend_from_slice(b"torn");
        fs::write(&log, &bytes).expect("records");
        let tree = Tree::read(&root, &home.path().join("kept")).expect("a tree");
        let records = settle(&log, &tree).expect("settled");
        assert_eq!(
            settle(&log, &tree).expect("settled"),
            records,
            "settling twice changes nothing"
        );
        (records, fs::read(root.join("f")).expect("content"))
    }

    #[test]
    fn half_a_write_is_finished() {
        let (records, content) = settle_after(|_, file| Event::Write {
            file,
            offset: 2,
            old_len: 3,
            old: b"x".to_vec(),
            new: b"cdef".to_vec(),
        });
        assert_eq!((records.len(), content.as_slice()), (1, b"abcdef".as_slice()));
    }

    #[test]
    fn a_removal_that_did_not_happen_is_noted() {
        let (records, _) = settle_after(|dir, file| {
            let name = b"f".to_vec();
            Event::Entries(vec![Change {
                dir,
                name,
                before: Some(file),
                after: None,
            }])
        });
        assert_eq!(records[1].event, Event::Outcome { of: 5, done: 0 });
    }

    #[test]
    fn a_creation_behind_its_claim_is_noted() {
        let mut created = None;
        let (records, _) = settle_after(|dir, file| {
            let claim = Change {
                dir,
                name: b"f".to_vec(),
                before: None,
                after: None,
            };
            created = Some(Event::Entries(vec![Change {
                after: Some(file),
                ..claim.clone()
            }]));
            Event::Entries(vec![claim])
        });
        assert_eq!(Some(&records[1].event), created.as_ref());
    }
}

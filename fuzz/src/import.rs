//! The target for export files: what people bring from elsewhere.
//!
//! - Any bytes are imported or refused; nothing of a refused file is left.
//! - What was imported can be verified and exported, and the export of it can be imported again.

use std::fmt::Write;
use std::sync::Arc;

use everstep::storage::engines::Memory;
use everstep::storage::{OpenOptions, Pace};
use xxhash_rust::xxh3::xxh3_128;

use crate::machine::in_virtual_time;

/// Checks one input: as a file, and as the rows of a file that is whole.
pub fn check(data: &[u8]) {
    in_virtual_time(async {
        import(data);
        let rows: Vec<_> = String::from_utf8_lossy(data).lines().map(str::to_owned).collect();
        import(whole(&rows).as_bytes());
    });
}

/// A file of one instance with these rows, whose last line is right about them.
pub(crate) fn whole(rows: &[String]) -> String {
    let mut file = String::from(r#"{"everstep_export":1,"format":1,"scope":{"instance":"a"},"shards":1}"#);
    file.push('\n');
    for row in rows {
        file.push_str(row);
        file.push('\n');
    }
    let (hash, count) = (xxh3_128(file.as_bytes()), rows.len());
    let end = format!(r#"{{"everstep_export_end":1,"instances":1,"rows":{count},"hash":"{hash:032x}"}}"#);
    writeln!(file, "{end}").expect("a text takes what is written to it");
    file
}

fn import(file: &[u8]) {
    let disk = Memory::new();
    let options = OpenOptions::new().in_task(Pace::default());
    match options.import_engine(Arc::new(disk.clone()), &mut &*file) {
        Ok((store, imported)) => {
            store.verify().expect("what was imported can be read");
            let mut exported = Vec::new();
            let written = store.export(&mut exported).expect("what was imported can be exported");
            assert_eq!((written.instances, written.rows), (imported.instances, imported.rows));
            let again = options.import_engine(Arc::new(Memory::new()), &mut exported.as_slice());
            let (_, again) = again.expect("what was exported can be imported");
            assert_eq!(again, imported);
        }
        Err(_) => {
            if let Ok(store) = options.open_engine(Arc::new(disk)) {
                let mut left = Vec::new();
                let left = store.export(&mut left).expect("an empty store can be exported");
                assert_eq!(left.instances, 0, "a refused import left something behind");
            }
        }
    }
}

//! A guard over the lists of tables.
//!
//! fjall keeps, for each keyspace, a file that lists its tables, and beside it in `current` which list is in force and
//! the checksum over it. It writes that checksum and does not read it: a flipped byte in the list can make every row
//! of a table newer, older or invisible, and each of them still passes its own checks. So it is read here.
//!
//! ```text
//! keyspaces/ID/current      number of the list (8 bytes), xxh3 over it (16 bytes), 0 for xxh3; little endian
//! keyspaces/ID/vNUMBER      the list
//! ```

use std::io;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_128;

use crate::storage::engine::ReadError;

/// The kind of checksum that is known here.
const XXH3: u8 = 0;

/// Compares every list of tables of the database in `directory` with its checksum. Changes nothing.
pub(super) fn check(directory: &Path) -> Result<(), ReadError> {
    let keyspaces = match std::fs::read_dir(directory.join("keyspaces")) {
        Ok(keyspaces) => keyspaces,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ReadError::Unavailable(error)),
    };
    for keyspace in keyspaces {
        check_keyspace(&keyspace.map_err(ReadError::Unavailable)?.path())?;
    }
    Ok(())
}

fn check_keyspace(keyspace: &Path) -> Result<(), ReadError> {
    let damaged = |path: &Path| {
        let path = path.display();
        Err(ReadError::Corrupt(format!(
            "{path} is damaged or missing; restore it from a backup"
        )))
    };
    let current = keyspace.join("current");
    let bytes = match std::fs::read(&current) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
        // fjall takes this for a keyspace whose making was cut short, and removes it with all its tables. Ours are made
        // once, when the store is.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return damaged(&current),
        Err(error) => return Err(ReadError::Unavailable(error)),
    };
    let Some((number, rest)) = bytes.split_first_chunk() else {
        return damaged(&current);
    };
    let Some((checksum, &[XXH3])) = rest.split_first_chunk() else {
        return damaged(&current);
    };
    let list = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    match std::fs::read(&list) {
        Ok(bytes) if xxh3_128(&bytes) == u128::from_le_bytes(*checksum) => Ok(()),
        Ok(_) => damaged(&list),
        Err(error) if error.kind() == io::ErrorKind::NotFound => damaged(&current),
        Err(error) => Err(ReadError::Unavailable(error)),
    }
}

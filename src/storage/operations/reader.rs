//! Reading the lines of an import, one at a time.

use std::io::{BufRead, Read};

use xxhash_rust::xxh3::Xxh3;

use crate::limits::IMPORT_LINE_BYTES_MAX;
use crate::storage::error::{Error, Result};
use crate::storage::open::FORMAT;
use crate::storage::operations::line::{EXPORT, Header, Line, Trailer};

/// Something is wrong with the line that is being read; its number is filled in by the reader.
pub(super) fn bad<T>(reason: &str) -> Result<T> {
    Err(Error::Import {
        line: 0,
        reason: reason.to_owned(),
    })
}

/// Reads lines, never more than one at a time and never more of it than a line may have.
pub(super) struct Lines<'a> {
    file: &'a mut dyn BufRead,
    number: u64,
    hash: Xxh3,
    /// The hash of everything before the current line.
    before: u128,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a mut dyn BufRead) -> Self {
        Self {
            file,
            number: 0,
            hash: Xxh3::new(),
            before: 0,
            line: Vec::new(),
        }
    }

    pub(super) fn header(&mut self) -> Result<Header> {
        if !self.read()? {
            return self.refuse("the file is empty");
        }
        let header: Header = match serde_json::from_slice(&self.line) {
            Ok(header) => header,
            Err(error) => return self.refuse(&format!("not the first line of an export: {error}")),
        };
        if header.everstep_export != EXPORT {
            return self.refuse(&format!(
                "version {} of the file format is not known",
                header.everstep_export
            ));
        }
        if header.format != FORMAT {
            let reason = format!("the export is of a store of format {}, this is {FORMAT}", header.format);
            return self.refuse(&reason);
        }
        Ok(header)
    }

    pub(super) fn next(&mut self) -> Result<Line> {
        if !self.read()? {
            return self.refuse("the file ends before its last line");
        }
        let parsed = if self.line.starts_with(b"{\"everstep_export_end\"") {
            serde_json::from_slice(&self.line).map(Line::Trailer)
        } else {
            serde_json::from_slice(&self.line).map(Line::Row)
        };
        match parsed {
            Ok(line) => Ok(line),
            Err(error) => self.refuse(&format!("neither a row nor the last line: {error}")),
        }
    }

    /// Checks what the last line says, and that it is the last one.
    pub(super) fn end(&mut self, trailer: &Trailer, instances: u64, rows: u64) -> Result<()> {
        if trailer.everstep_export_end != EXPORT {
            return self.refuse("the last line is of another version");
        }
        if (trailer.instances, trailer.rows) != (instances, rows) {
            let reason = format!(
                "the last line says {} instances and {} rows, found {instances} and {rows}",
                trailer.instances, trailer.rows
            );
            return self.refuse(&reason);
        }
        if trailer.hash != format!("{:032x}", self.before) {
            return self.refuse("the hash does not fit: the file was changed");
        }
        if self.read()? {
            return self.refuse("there are lines behind the last one");
        }
        Ok(())
    }

    /// Reads the next line; false at the end of the file.
    fn read(&mut self) -> Result<bool> {
        self.line.clear();
        self.before = self.hash.digest128();
        self.number += 1;
        let limit = IMPORT_LINE_BYTES_MAX as u64 + 1;
        let mut bounded = Read::take(&mut *self.file, limit);
        let read = bounded.read_until(b'\n', &mut self.line);
        if read.map_err(Error::io("read", "the import"))? as u64 == limit {
            return self.refuse(&format!("the line has more than {IMPORT_LINE_BYTES_MAX} bytes"));
        }
        self.hash.update(&self.line);
        Ok(!self.line.is_empty())
    }

    fn refuse<T>(&self, reason: &str) -> Result<T> {
        bad(reason).map_err(|error| self.fails(error))
    }

    /// Says at which line an error came up.
    pub(super) fn fails(&self, error: Error) -> Error {
        match error {
            Error::Import { reason, .. } => Error::Import {
                line: self.number,
                reason,
            },
            error => error,
        }
    }
}

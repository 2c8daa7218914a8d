//! The name registry of an instance: every name that its paths are made of, stored once.

use std::collections::HashMap;

use crate::limits::NAME_BYTES_MAX;
use crate::location::Location;

/// A name that an operation can't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_BYTES_MAX} bytes, this one has {0}")]
pub(crate) struct InvalidName(usize);

impl InvalidName {
    /// The stable code of this error.
    pub(crate) fn code(&self) -> &'static str {
        "ES0102"
    }
}

/// Names by index, and the way back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<String>,
    indices: HashMap<String, u32>,
    /// How many of them are stored.
    stored: usize,
    /// Bytes of those that are not.
    new_bytes: usize,
}

impl Names {
    /// The registry as it is stored.
    pub(crate) fn load(names: Vec<String>) -> Self {
        let numbered = names.iter().cloned().zip(0..);
        Self {
            indices: numbered.collect(),
            stored: names.len(),
            new_bytes: 0,
            names,
        }
    }

    /// Whether a text can be a name.
    pub(crate) fn check(name: &str) -> Result<(), InvalidName> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(InvalidName(name.len()));
        }
        Ok(())
    }

    /// The index of a name, a new one if need be.
    pub(crate) fn index(&mut self, name: &str) -> Result<u32, InvalidName> {
        self.find(name).map_or_else(|| self.add(name), Ok)
    }

    /// The index of a name that is not known.
    pub(crate) fn add(&mut self, name: &str) -> Result<u32, InvalidName> {
        Self::check(name)?;
        let index = u32::try_from(self.names.len()).expect("a history is bounded far below 2^32 names");
        self.names.push(name.to_owned());
        self.new_bytes += name.len();
        self.indices.insert(name.to_owned(), index);
        Ok(index)
    }

    /// The index of a name that is known.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.indices.get(name).copied()
    }

    /// How many are not stored yet, and their bytes.
    pub(crate) fn new_ones(&self) -> (usize, usize) {
        (self.names.len() - self.stored, self.new_bytes)
    }

    /// All of them, by index.
    pub(crate) fn all(&self) -> &[String] {
        &self.names
    }

    /// The names that are not stored yet; from now on they count as stored.
    pub(crate) fn take_new(&mut self) -> Vec<(u32, String)> {
        // Only these are looked at: a step costs the same however many names there are.
        let new = self.names[self.stored..].iter().zip(self.stored..);
        let numbered = |(name, at): (&String, usize)| {
            let index = u32::try_from(at).expect("a history is bounded far below 2^32 names");
            (index, name.clone())
        };
        let new = new.map(numbered).collect();
        self.stored = self.names.len();
        self.new_bytes = 0;
        new
    }

    /// A location as people read it.
    pub(crate) fn path(&self, location: &Location) -> String {
        location.path(&self.names)
    }
}

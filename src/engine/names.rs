//! The name registry of an instance: every name that its paths are made of, stored once.

use std::collections::HashMap;

use crate::limits::NAME_BYTES_MAX;
use crate::location::{Location, Segment};

/// A name that an operation can't have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_BYTES_MAX} bytes, this one has {0}")]
pub(crate) struct InvalidName(usize);

/// Names by index, and the way back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<String>,
    indices: HashMap<String, u32>,
    /// How many of them are stored.
    stored: usize,
}

impl Names {
    /// The registry as it is stored.
    pub(crate) fn load(names: Vec<String>) -> Self {
        let numbered = names.iter().cloned().zip(0..);
        Self {
            indices: numbered.collect(),
            stored: names.len(),
            names,
        }
    }

    /// The index of a name, a new one if need be.
    pub(crate) fn index(&mut self, name: &str) -> Result<u32, InvalidName> {
        if let Some(index) = self.indices.get(name) {
            return Ok(*index);
        }
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(InvalidName(name.len()));
        }
        let index = u32::try_from(self.names.len()).expect("a history is bounded far below 2^32 names");
        self.names.push(name.to_owned());
        self.indices.insert(name.to_owned(), index);
        Ok(index)
    }

    /// The names that are not stored yet; from now on they count as stored.
    pub(crate) fn take_new(&mut self) -> Vec<(u32, String)> {
        let new = self
            .names
            .iter()
            .cloned()
            .zip(0..)
            .skip(self.stored)
            .map(|(name, index)| (index, name))
            .collect();
        self.stored = self.names.len();
        new
    }

    /// A location as people read it: `payment/retry/~3/charge`.
    pub(crate) fn path(&self, location: &Location) -> String {
        let name = |index: u32| self.names.get(index as usize).map_or("?", String::as_str);
        let mut path = String::new();
        for segment in location.segments() {
            if !path.is_empty() {
                path.push('/');
            }
            match segment {
                Segment::Name(index) => path.push_str(name(*index)),
                Segment::Iteration { name: index, number } => {
                    path.push_str(&format!("{}~{number}", name(*index)));
                }
            }
        }
        path
    }
}

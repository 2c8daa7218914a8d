//! What a start is refused for before anything is written.

use std::collections::BTreeMap;

use crate::engine::Definition;
use crate::handle::{Crowded, Error, Result};
use crate::limits::{CROWD_MAX, TAG_BYTES_MAX, TAGS_MAX};
use crate::storage::record::Flow;

pub(in crate::handle) fn check_flow(flow: &Flow) -> Result<()> {
    flow.check().map_err(|invalid| Error::Gate(invalid.to_string()))
}

pub(super) fn check_crowd(crowd: Option<(usize, Crowded)>) -> Result<()> {
    match crowd {
        Some((waiting, _)) if !(1..=CROWD_MAX).contains(&waiting) => Err(Error::Gate(format!(
            "the number of those who may wait is 1 to {CROWD_MAX}, this one is {waiting}"
        ))),
        _ => Ok(()),
    }
}

/// A version that this process has no code of can't be started with.
pub(in crate::handle) fn check_version(definition: &Definition, version: u32) -> Result<()> {
    if version > definition.version {
        return Err(Error::Version {
            workflow: definition.name.to_owned(),
            version,
            newest: definition.version,
        });
    }
    Ok(())
}

pub(in crate::handle) fn check_tags(tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(Error::Tags(format!(
            "an instance has at most {TAGS_MAX} tags, these are {}",
            tags.len()
        )));
    }
    let long = tags
        .iter()
        .flat_map(|(key, value)| [key, value])
        .find(|text| text.len() > TAG_BYTES_MAX);
    if let Some(long) = long {
        let length = long.len();
        return Err(Error::Tags(format!(
            "the key and the value of a tag have at most {TAG_BYTES_MAX} bytes, this one has {length}"
        )));
    }
    Ok(())
}

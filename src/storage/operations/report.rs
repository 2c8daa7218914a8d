//! What `verify` found.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::ids::Shard;
use crate::limits::FINDINGS_MAX;
use crate::storage::value::DecodeError;

/// A way in which a store can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// The engine itself can't read a part of its files. What lies behind it in the same family was not read.
    EngineDamaged,
    /// The store is behind its watermark, or has another past.
    BehindWatermark,
    /// There is no readable watermark.
    NoWatermark,
    /// There is no store header.
    MissingHeader,
    /// A shard has no row that says how far it has got.
    MissingPosition,
    /// An import was cut short.
    ImportUnfinished,
    /// A key that no release of this format writes.
    InvalidKey,
    /// A value that ends too early.
    Truncated,
    /// Bytes behind the end of a record.
    TrailingBytes,
    /// A value whose checksum does not fit.
    Damaged,
    /// A value that belongs to another key.
    WrongKey,
    /// A record of another type than its key says.
    WrongType,
    /// A record of a newer release.
    NewerVersion,
    /// A record that can't be read though its envelope is intact.
    Malformed,
    /// An id that no instance can have.
    InvalidId,
    /// An instance in a shard where nobody looks for it.
    WrongShard,
    /// An instance without its state: nobody sees it.
    MissingState,
    /// An instance without its origin.
    MissingOrigin,
    /// An instance without its input.
    MissingInput,
    /// A name registry with a hole.
    NameGap,
    /// A location that uses a name which is not registered.
    UnknownName,
    /// A history with more or fewer rows than the state says.
    HistoryCount,
    /// A completion beyond the number of completions that the state says.
    OrderTooHigh,
    /// Two completions at the same place in the order.
    OrderTwice,
    /// A state that says when its alarm rings, without the alarm.
    MissingAlarm,
    /// An alarm of an instance that is not there.
    OrphanAlarm,
    /// An alarm at another time than the state says.
    StaleAlarm,
    /// An instance without its listing row.
    MissingIndex,
    /// A listing row of an instance that is not there.
    OrphanIndex,
    /// A listing row at another time than the instance was created at.
    IndexTime,
    /// A listing row that says something else than the instance.
    IndexDiffers,
    /// A message id seen by an instance that is not there.
    OrphanDedup,
    /// An instance to run that is not there.
    OrphanRunnable,
    /// An instance to run that has ended.
    RunnableEnded,
}

impl Fault {
    /// The name under which a report counts it.
    fn name(self) -> String {
        let mut name = String::new();
        for character in format!("{self:?}").chars() {
            if character.is_ascii_uppercase() && !name.is_empty() {
                name.push(' ');
            }
            name.push(character.to_ascii_lowercase());
        }
        name
    }
}

impl From<&DecodeError> for Fault {
    fn from(error: &DecodeError) -> Self {
        match error {
            DecodeError::Truncated { .. } => Self::Truncated,
            DecodeError::TrailingBytes { .. } => Self::TrailingBytes,
            DecodeError::Damaged => Self::Damaged,
            DecodeError::WrongKey => Self::WrongKey,
            DecodeError::WrongType { .. } => Self::WrongType,
            DecodeError::NewerVersion { .. } => Self::NewerVersion,
            DecodeError::Malformed(_) => Self::Malformed,
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// In which way.
    pub fault: Fault,
    /// In which shard.
    pub shard: Shard,
    /// Of which instance, if it can be told. It need not be a valid id.
    pub instance: Option<String>,
    /// At which key, as text.
    pub key: String,
    /// What exactly.
    pub detail: String,
}

/// What `verify` read and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Shards read.
    pub shards: u16,
    /// Instances read, broken ones included.
    pub instances: u64,
    /// Rows read.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How often each fault was found: all of them, also those that are not listed.
    pub faults: BTreeMap<Fault, u64>,
    /// The first [`FINDINGS_MAX`] findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }

    /// How many things are wrong.
    pub fn total(&self) -> u64 {
        self.faults.values().sum()
    }

    pub(super) fn add(&mut self, finding: impl FnOnce() -> Finding, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding());
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shards,
            instances,
            rows,
            bytes,
            ..
        } = self;
        let of = if *shards == 1 { "shard" } else { "shards" };
        writeln!(
            f,
            "read {instances} instances, {rows} rows, {bytes} bytes in {shards} {of}"
        )?;
        if self.is_clean() {
            return write!(f, "nothing is wrong");
        }
        write!(f, "{} things are wrong", self.total())?;
        for (fault, count) in &self.faults {
            write!(f, "\n  {count} × {}", fault.name())?;
        }
        for finding in &self.findings {
            let instance = finding.instance.as_deref().unwrap_or("-");
            write!(
                f,
                "\n{}: instance {instance:?}, shard {}, {}: {}",
                finding.fault.name(),
                finding.shard,
                finding.key,
                finding.detail
            )?;
        }
        let hidden = self.total() - self.findings.len() as u64;
        if hidden > 0 {
            write!(f, "\nand {hidden} more")?;
        }
        Ok(())
    }
}

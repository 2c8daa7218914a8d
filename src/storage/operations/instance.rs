//! Verifying one instance: its rows as they come by, then what they say of each other and of the rows beside.

use crate::ids::InstanceId;
use crate::location::{Location, Segment};
use crate::storage::error::Result;
use crate::storage::key::{self, Key, Local, Meta};
use crate::storage::operations::report::Fault;
use crate::storage::operations::verify::Verifier;
use crate::storage::operations::walk::{Look, Row, look};
use crate::storage::record::{Alarm, Entry, IndexRow, Origin, State};
use crate::storage::store::shard_of;
use crate::storage::value;

/// What was seen of a fact.
#[derive(Debug, Default)]
enum Fact<R> {
    #[default]
    Missing,
    /// Reported where it lies; nothing is concluded from it.
    Unreadable,
    Found(R),
}

/// What was seen of one instance so far. Holds a number for each name and each completion, and no values.
#[derive(Debug)]
pub(super) struct InstanceCheck {
    id: String,
    prefix: Vec<u8>,
    /// Indices of the registry, in order.
    names: Vec<u32>,
    entries: u64,
    /// Places in the order of completions.
    orders: Vec<u64>,
    state: Fact<State>,
    origin: Fact<Origin>,
    input: bool,
}

impl InstanceCheck {
    pub(super) fn begin(verifier: &mut Verifier<'_>, id: &str, key: &[u8]) -> Self {
        if let Err(error) = InstanceId::internal(id) {
            verifier.find(Fault::InvalidId, Some(id), key, error.to_string());
        }
        let home = shard_of(id, verifier.shards);
        if home != verifier.shard {
            let detail = format!("the instance belongs into shard {home}");
            verifier.find(Fault::WrongShard, Some(id), key, detail);
        }
        Self {
            id: id.to_owned(),
            prefix: key::namespace(verifier.shard, id),
            names: Vec::new(),
            entries: 0,
            orders: Vec::new(),
            state: Fact::Missing,
            origin: Fact::Missing,
            input: false,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Whether a key that can't be unpacked lies in this namespace.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        key.starts_with(&self.prefix)
    }

    /// Takes in a row. One that is not `readable` was reported, and still counts as being there.
    pub(super) fn row(
        &mut self,
        verifier: &mut Verifier<'_>,
        local: &Local<'_>,
        row: &Row,
        readable: bool,
    ) -> Result<()> {
        match local {
            Local::Name(index) => {
                let expected = self.names.last().map_or(0, |last| last + 1);
                if *index != expected {
                    let detail = format!("the name before it is missing: index {expected}");
                    verifier.find(Fault::NameGap, Some(&self.id), &row.key, detail);
                }
                self.names.push(*index);
            }
            Local::History(location) => {
                self.entries += 1;
                self.names_of(verifier, location, row);
                if readable {
                    let entry: Entry = decode(row)?;
                    self.orders.extend(entry.completed.map(|completed| completed.order));
                }
            }
            Local::Meta(Meta::State) => self.state = fact(row, readable)?,
            Local::Meta(Meta::Origin) => self.origin = fact(row, readable)?,
            Local::Meta(Meta::Input) => self.input = true,
            Local::Meta(Meta::Output | Meta::Failure | Meta::Hold | Meta::Flow)
            | Local::Inbox(_)
            | Local::Attempts(_)
            | Local::Emitted(_)
            | Local::Published(_)
            | Local::Answer(_) => {}
        }
        Ok(())
    }

    /// Whether every name in a location is registered. Names come before the history in key order.
    fn names_of(&self, verifier: &mut Verifier<'_>, location: &Location, row: &Row) {
        for segment in location.segments() {
            let (Segment::Name(name) | Segment::Iteration { name, .. }) = segment;
            if self.names.binary_search(name).is_err() {
                let detail = format!("the name with index {name} is not registered");
                verifier.find(Fault::UnknownName, Some(&self.id), &row.key, detail);
            }
        }
    }

    /// Compares what was seen, when all rows came by.
    pub(super) fn end(mut self, verifier: &mut Verifier<'_>) -> Result<()> {
        let missing = [
            (Fault::MissingState, Meta::State, self.state.is_missing()),
            (Fault::MissingOrigin, Meta::Origin, self.origin.is_missing()),
            (Fault::MissingInput, Meta::Input, !self.input),
        ];
        for (fault, fact, is_missing) in missing {
            if is_missing {
                let key = Key::Instance(verifier.shard, self.id.as_str().into(), Local::Meta(fact)).pack();
                verifier.find(fault, Some(&self.id), &key, "there is no such row".into());
            }
        }
        let Fact::Found(state) = std::mem::take(&mut self.state) else {
            return Ok(());
        };
        self.history(verifier, &state);
        self.alarm(verifier, &state)?;
        match &self.origin {
            Fact::Found(origin) => self.index(verifier, origin, &state),
            _ => Ok(()),
        }
    }

    fn history(&mut self, verifier: &mut Verifier<'_>, state: &State) {
        let prefix = self.prefix.clone();
        if self.entries != state.entries {
            let detail = format!("the state says {} entries, found {}", state.entries, self.entries);
            verifier.find(Fault::HistoryCount, Some(&self.id), &prefix, detail);
        }
        self.orders.sort_unstable();
        for pair in self.orders.windows(2) {
            if pair[0] == pair[1] {
                let detail = format!("two entries are completion {}", pair[0]);
                verifier.find(Fault::OrderTwice, Some(&self.id), &prefix, detail);
            }
        }
        let beyond = self.orders.partition_point(|order| *order < state.completions);
        for order in &self.orders[beyond..] {
            let detail = format!("an entry is completion {order}, the state knows {}", state.completions);
            verifier.find(Fault::OrderTooHigh, Some(&self.id), &prefix, detail);
        }
    }

    fn alarm(&self, verifier: &mut Verifier<'_>, state: &State) -> Result<()> {
        let Some(at) = state.alarm_at_ms else {
            return Ok(());
        };
        let key = Key::Alarm(verifier.shard, at, self.id.as_str().into());
        if let Look::Missing = look::<Alarm>(verifier.snapshot, &key)? {
            let detail = "the state names this alarm, and it is not there".into();
            verifier.find(Fault::MissingAlarm, Some(&self.id), &key.pack(), detail);
        }
        Ok(())
    }

    fn index(&self, verifier: &mut Verifier<'_>, origin: &Origin, state: &State) -> Result<()> {
        let key = Key::Index(verifier.shard, origin.created_at_ms, self.id.as_str().into());
        match look::<IndexRow>(verifier.snapshot, &key)? {
            Look::Missing => {
                let detail = "the instance has no listing row".into();
                verifier.find(Fault::MissingIndex, Some(&self.id), &key.pack(), detail);
            }
            Look::Found(row) if !row.is_of(origin, state) => {
                let detail = differences(&row, &IndexRow::of(origin, state));
                verifier.find(Fault::IndexDiffers, Some(&self.id), &key.pack(), detail);
            }
            Look::Found(_) | Look::Unreadable => {}
        }
        Ok(())
    }
}

/// Which fields of a listing row are wrong. Tags are people's own words, and are counted but not shown.
fn differences(found: &IndexRow, right: &IndexRow) -> String {
    let mut fields = Vec::new();
    if (&found.workflow, found.status) != (&right.workflow, right.status) {
        let (found, right) = ((&found.workflow, found.status), (&right.workflow, right.status));
        fields.push(format!("the listing says {found:?}, the instance {right:?}"));
    }
    if found.parent != right.parent {
        let (found, right) = (&found.parent, &right.parent);
        fields.push(format!(
            "the listing names the parent {found:?}, the instance {right:?}"
        ));
    }
    if found.tags != right.tags {
        let (found, right) = (found.tags.len(), right.tags.len());
        fields.push(format!(
            "the {found} tags in the listing are not the {right} of the instance"
        ));
    }
    if right.status.is_terminal() && found.updated_at_ms != right.updated_at_ms {
        let (found, right) = (found.updated_at_ms, right.updated_at_ms);
        fields.push(format!(
            "the listing says that it ended at {found}, the instance at {right}"
        ));
    }
    fields.join("; ")
}

impl<R> Fact<R> {
    fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }
}

fn fact<R: value::Record>(row: &Row, readable: bool) -> Result<Fact<R>> {
    if readable {
        decode(row).map(Fact::Found)
    } else {
        Ok(Fact::Unreadable)
    }
}

/// Reads a record that was checked before.
fn decode<R: value::Record>(row: &Row) -> Result<R> {
    value::decode(&row.key, &row.value).map_err(|source| crate::storage::Error::Decode {
        key: key::describe(&row.key),
        source,
    })
}

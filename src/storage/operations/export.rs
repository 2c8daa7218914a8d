//! Writing a store, or one instance of it, as text that any release and any engine can read back.
//!
//! The format stands in `docs/export.md`. Together with [`OpenOptions::import`](crate::storage::OpenOptions::import) this is
//! also how a store moves to another engine or another number of shards, and how a sled store, whose files never
//! shrink, is compacted: export it, import the file as a new store, and put that in the place of the old one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use serde::Serialize;
use xxhash_rust::xxh3::Xxh3;

use crate::ids::{InstanceId, Shard};
use crate::storage::engine::Snapshot;
use crate::storage::error::{Error, Refusal, Result};
use crate::storage::key::{self, Key, Local, Meta};
use crate::storage::open::FORMAT;
use crate::storage::operations::line::{EXPORT, Header, Owner, RowKey, RowLine, Scope, Trailer};
use crate::storage::operations::of_store;
use crate::storage::operations::schema::schema;
use crate::storage::operations::walk::{Instances, Row, Walk, first_key};
use crate::storage::record::{Origin, Outgoing, Secret, State};
use crate::storage::store::Store;
use crate::storage::value::{self, Record};

/// What an export holds.
///
#[doc = include_str!("../../../docs/export.md")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Instances.
    pub instances: u64,
    /// Rows, those that are no instance's included.
    pub rows: u64,
}

impl Store {
    /// Exports everything, as it is at one moment. Commits go on meanwhile.
    ///
    /// What deleted instances have on their way to others belongs to nobody who could be exported: while there is any,
    /// the export is refused ([`Error::OnItsWay`]).
    ///
    /// The file holds the secrets that the tokens of promises are made of, so that tokens that were given away hold in the
    /// copy too: keep it like the store itself.
    ///
    /// What can't be read of an instance, or could be one's, ends the export with an error that names it: a file never
    /// passes for more than it holds. [`Store::salvage`] writes what is sound all the same.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name).display().to_string();
    /// use everstep::storage::OpenOptions;
    /// let store = OpenOptions::new().open(&path("old"))?;
    /// let mut file = Vec::new();
    /// store.export(&mut file)?;
    /// let (copy, imported) = OpenOptions::new().shards(4).import(&path("new"), &mut file.as_slice())?;
    /// assert_eq!(imported.instances, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(&self, out: &mut dyn Write) -> Result<Exported> {
        let shards: Vec<_> = self.shards().collect();
        let snapshots = self.snapshots()?;
        for (shard, snapshot) in shards.iter().zip(&snapshots) {
            nothing_left_behind(&**snapshot, *shard)?;
        }
        let mut lines = Lines::begin(out, Scope::Store, self.shard_count())?;
        // One instance of each shard waits here, and the least of them is next: the order of the file does not
        // depend on the shards.
        let mut next = BinaryHeap::new();
        let mut sources: Vec<_> = shards
            .iter()
            .zip(&snapshots)
            .map(|(shard, snapshot)| Instances::new(&**snapshot, *shard))
            .collect();
        for (shard, source) in shards.iter().zip(&mut sources) {
            next.extend(next_of(source)?.map(|id| Reverse((id, *shard))));
        }
        while let Some(Reverse((id, shard))) = next.pop() {
            let at = usize::from(shard.0);
            lines.instance(&*snapshots[at], shard, &id)?;
            next.extend(next_of(&mut sources[at])?.map(|id| Reverse((id, shard))));
        }
        of_store::visit(&snapshots, &mut |_, row| lines.row(row), &mut |_, error| Err(error))?;
        lines.end()
    }

    /// Exports one instance. One that does not exist is [`Refusal::Missing`].
    ///
    /// The secret that the tokens of its promises are made of is not in the file: whoever has it can't decide a promise
    /// of the instance. Everything else is, its input, its results and its messages among them.
    pub fn export_instance(&self, instance: &InstanceId, out: &mut dyn Write) -> Result<Exported> {
        let shard = self.shard_of(instance);
        let snapshot = self.snapshot(shard)?;
        if read::<State>(&*snapshot, &meta(shard, instance.as_str(), Meta::State))?.is_none() {
            return Err(Refusal::Missing.into());
        }
        let mut lines = Lines::begin(out, Scope::Instance(Owner(instance.clone())), self.shard_count())?;
        lines.instance(&*snapshot, shard, instance.as_str())?;
        lines.end()
    }
}

/// Refuses to leave out what a deleted instance has on its way.
pub(super) fn nothing_left_behind(snapshot: &dyn Snapshot, shard: Shard) -> Result<()> {
    let (mut start, end) = key::outbox(shard);
    while let Some(key) = first_key(snapshot, &start, &end)? {
        let Key::Outbox(_, sender, ..) = Key::unpack(&key)? else {
            return Err(Error::Corrupt(format!("{} is not in an outbox", key::describe(&key))));
        };
        if snapshot.get(&meta(shard, &sender, Meta::State).pack())?.is_none() {
            let instance = sender.into_owned();
            return Err(Error::OnItsWay { instance });
        }
        start = key::below(&key::outbox_of(shard, &sender)).1;
    }
    Ok(())
}

/// The next instance. A key among them that can't be read may be anyone's, so nothing is left out over it.
fn next_of(instances: &mut Instances<'_>) -> Result<Option<String>> {
    let next = instances.next()?;
    match instances.passed_over() {
        None => Ok(next),
        Some(key) => Err(Error::Corrupt(format!(
            "{} lies among the instances and can't be read; verify names what is wrong",
            key::describe(key)
        ))),
    }
}

/// Writes lines and remembers what the last one has to say of them.
pub(super) struct Lines<'a> {
    out: &'a mut dyn Write,
    /// Whether secrets are left out.
    discreet: bool,
    hash: Xxh3,
    exported: Exported,
    line: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn begin(out: &'a mut dyn Write, scope: Scope, shards: u16) -> Result<Self> {
        let mut lines = Self {
            out,
            discreet: scope != Scope::Store,
            hash: Xxh3::new(),
            exported: Exported::default(),
            line: Vec::new(),
        };
        lines.line(&Header {
            everstep_export: EXPORT,
            format: FORMAT,
            scope,
            shards,
        })?;
        Ok(lines)
    }

    /// Writes all rows of an instance, its state among the last.
    pub(super) fn instance(&mut self, snapshot: &dyn Snapshot, shard: Shard, id: &str) -> Result<()> {
        let state_key = meta(shard, id, Meta::State);
        let lost = |what| Error::Corrupt(format!("instance {id:?} has no {what}; verify names what is wrong"));
        let state: State = read(snapshot, &state_key)?.ok_or_else(|| lost("state"))?;
        let origin: Origin = read(snapshot, &meta(shard, id, Meta::Origin))?.ok_or_else(|| lost("origin"))?;
        let state_key = state_key.pack();
        for range in [
            key::namespace(shard, id),
            key::dedup_of(shard, id),
            key::outbox_of(shard, id),
        ] {
            let mut walk = Walk::new(snapshot, key::below(&range));
            while let Some(row) = walk.next()? {
                if row.key != state_key {
                    self.row(&row)?;
                }
            }
        }
        let alarm = state.alarm_at_ms.map(|at| Key::Alarm(shard, at, id.into()).pack());
        let last = [
            Some(state_key),
            alarm,
            Some(Key::Index(shard, origin.created_at_ms, id.into()).pack()),
            Some(Key::Runnable(shard, id.into()).pack()),
        ];
        for key in last.into_iter().flatten() {
            if let Some(value) = snapshot.get(&key)? {
                self.row(&Row { key, value })?;
            }
        }
        self.exported.instances += 1;
        Ok(())
    }

    pub(super) fn row(&mut self, row: &Row) -> Result<()> {
        let key = Key::unpack(&row.key)?;
        let schema = schema(&key);
        let unreadable = |source| Error::Decode {
            key: key::describe(&row.key),
            source,
        };
        schema.check(&row.key, &row.value).map_err(unreadable)?;
        let discreet = self.discreet.then(|| without_secret(&key, row)).transpose()?;
        let value = discreet.flatten();
        let value = value.as_deref().unwrap_or(&row.value);
        let envelope = value::open(&row.key, value).map_err(unreadable)?;
        let words = RowKey::of(&key)
            .ok_or_else(|| Error::Corrupt(format!("{} belongs into no export", key::describe(&row.key))))?;
        self.exported.rows += 1;
        self.line(&RowLine::new(words, schema.name, &envelope))
    }

    fn line(&mut self, line: &impl Serialize) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).map_err(|error| failed(error.into()))?;
        self.line.push(b'\n');
        self.hash.update(&self.line);
        self.out.write_all(&self.line).map_err(failed)
    }

    pub(super) fn end(mut self) -> Result<Exported> {
        let exported = self.exported;
        let trailer = Trailer {
            everstep_export_end: EXPORT,
            instances: exported.instances,
            rows: exported.rows,
            hash: format!("{:032x}", self.hash.digest128()),
        };
        self.line(&trailer)?;
        self.out.flush().map_err(failed)?;
        Ok(exported)
    }
}

/// The value of a row without the secret in it; none if there is no secret in such a row.
fn without_secret(key: &Key<'_>, row: &Row) -> Result<Option<Vec<u8>>> {
    match key {
        Key::Instance(_, _, Local::Meta(Meta::Origin)) => {
            let origin: Origin = decode(&row.key, &row.value)?;
            Ok(Some(value::encode(&row.key, &origin.without_secret())))
        }
        Key::Outbox(..) => {
            let mut outgoing: Outgoing = decode(&row.key, &row.value)?;
            let Some(origin) = outgoing.parcel.starts_mut() else {
                return Ok(None);
            };
            // It has drawn nothing yet.
            origin.secret = Secret::BLANK;
            Ok(Some(value::encode(&row.key, &outgoing)))
        }
        _ => Ok(None),
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("write", "the export")(error)
}

fn meta(shard: Shard, instance: &str, fact: Meta) -> Key<'_> {
    Key::Instance(shard, instance.into(), Local::Meta(fact))
}

fn read<R: Record>(snapshot: &dyn Snapshot, key: &Key<'_>) -> Result<Option<R>> {
    let bytes = key.pack();
    let Some(value) = snapshot.get(&bytes)? else {
        return Ok(None);
    };
    decode(&bytes, &value).map(Some)
}

fn decode<R: Record>(key: &[u8], value: &[u8]) -> Result<R> {
    value::decode(key, value).map_err(|source| Error::Decode {
        key: key::describe(key),
        source,
    })
}

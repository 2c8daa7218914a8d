//! Reading an export back, into a store that nobody else has open.
//!
//! Nothing is ever overwritten: a whole store goes into an empty one, an instance into a store that does not have it.
//! Rows are given the shard that their instance has in this store, and an envelope that binds them to it.
//!
//! **What a crash leaves.** Before the first row the store header says that an import has begun, and of what; only
//! after the last line was read and found right it no longer does. The rows of an instance are there before its state,
//! and what names it from outside comes behind that.
//!
//! - *A whole store:* in between it does not open ([`Error::ImportUnfinished`]), so it can't be taken for a whole one.
//!   Importing again removes what the first try left and begins anew.
//! - *One instance:* it came to a store that is whole without it, and others must not suffer for it. What was written
//!   of it is taken back: at once if the file was bad, and by whoever opens the store next if the process died or the
//!   engine failed.
//!
//! **Secrets.** The file of one instance has none. It is given a new one here, and so are the children that it was about to
//! start: the tokens of the original decide nothing of the copy.
//!
//! **Gates.** A whole store keeps who stands where; one instance comes to the gate of this store anew ([`of_store`]).
//!
//! **What a file can't do.** A line that is too long, or no line of an export, or not the row that it claims to be,
//! ends the import with its number; what was read of it is never more than a line may have.

use std::io::BufRead;
use std::sync::Arc;

use serde::Serialize;

use crate::chance::Chance;
use crate::ids::{InstanceId, Shard};
use crate::limits::ARRIVAL_EPOCH_MAX;
use crate::storage::engine::Engine;
use crate::storage::error::{Error, Refusal, Result};
use crate::storage::key::{self, Arrival, Key, Local, Meta};
use crate::storage::open::{OpenOptions, Place};
use crate::storage::operations::line::{Line, Owner, RowLine, Scope, unhex};
use crate::storage::operations::of_store::{self, Standing};
use crate::storage::operations::reader::{Lines, bad};
use crate::storage::operations::schema::schema;
use crate::storage::operations::walk::{Look, Row, first_key, look};
use crate::storage::operations::writer::{Slices, content};
use crate::storage::record::{
    Entry, EntryKind, Flow, Importing, Origin, Outgoing, Parcel, Runnable, Secret, Seen, Stand, State,
};
use crate::storage::store::{Parts, Store, shard_of};
use crate::storage::value::{self, Envelope};

/// What an import brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Instances.
    pub instances: u64,
    /// Rows, those that are no instance's included.
    pub rows: u64,
}

impl OpenOptions {
    /// Imports what [`Store::export`] wrote, and opens the store: a whole store into an empty or new one, one instance
    /// into a store where it is missing. The number of shards need not be that of the exported store.
    ///
    /// An import of a whole store that fails, or is cut short, leaves a store that does not open; the same import again
    /// begins anew. An import of one instance that fails leaves the store as it was without it, at the latest when
    /// that is next opened.
    pub fn import(&self, url: &str, file: &mut dyn BufRead) -> Result<(Store, Imported)> {
        self.import_place(Place::find(url)?, file)
    }

    /// The same on an engine that needs no directory of ours.
    pub fn import_engine(&self, engine: Arc<dyn Engine>, file: &mut dyn BufRead) -> Result<(Store, Imported)> {
        self.import_place(Place::Engine(engine), file)
    }

    fn import_place(&self, place: Place, file: &mut dyn BufRead) -> Result<(Store, Imported)> {
        let mut lines = Lines::new(file);
        let header = lines.header()?;
        let mut parts = self.for_import().prepare(place)?;
        begin(&mut parts, &header.scope)?;
        let mut import = Import {
            scope: header.scope,
            chance: Arc::clone(&self.chance),
            slices: Slices::new(parts.header.shards),
            parts: &mut parts,
            instance: None,
            last_of_store: Vec::new(),
            standing: Standing::default(),
            imported: Imported::default(),
            arrivals_above: 0,
            engine_failed: false,
        };
        match import.read(&mut lines) {
            Ok(()) => {}
            // What the disk holds is unknown then: whoever opens the store next takes it back.
            Err(error) if import.engine_failed => return Err(error),
            Err(error) => {
                if let Err(failed) = take_back(&mut parts) {
                    tracing::warn!(error = %failed, "an import could not be taken back; the next open does it");
                }
                return Err(error);
            }
        }
        let imported = import.finish()?;
        Ok((Store::start(parts)?, imported))
    }
}

/// Checks that nothing would be overwritten, removes what an earlier try left, and marks the store.
fn begin(parts: &mut Parts, scope: &Scope) -> Result<()> {
    let marker = Importing {
        instance: match scope {
            Scope::Store => None,
            Scope::Instance(Owner(instance)) => Some(instance.to_string()),
        },
    };
    match (&parts.header.importing, scope) {
        // One instance that was begun earlier is gone by now: opening took it back.
        (Some(_), Scope::Instance(_)) => return Err(Error::ImportUnfinished),
        (Some(_), Scope::Store) => {
            for shard in parts.shards() {
                parts.clear(shard, content(shard, parts.header.shards))?;
            }
        }
        (None, Scope::Store) => {
            for shard in parts.shards() {
                let (start, end) = content(shard, parts.header.shards);
                if first_key(&*parts.engine.snapshot(shard)?, &start, &end)?.is_some() {
                    let what = "the store to import into".into();
                    return Err(Error::NotEmpty { what });
                }
            }
        }
        (None, Scope::Instance(Owner(instance))) => {
            let shard = shard_of(instance.as_str(), parts.header.shards);
            let snapshot = parts.engine.snapshot(shard)?;
            let (start, end) = key::below(&key::namespace(shard, instance.as_str()));
            if first_key(&*snapshot, &start, &end)?.is_some() {
                return Err(Refusal::Exists.into());
            }
            // Of one that was deleted something may still be on its way. It would pass for this one's, and be taken back
            // with it.
            for prefix in [
                key::dedup_of(shard, instance.as_str()),
                key::outbox_of(shard, instance.as_str()),
            ] {
                let (start, end) = key::below(&prefix);
                if first_key(&*snapshot, &start, &end)?.is_some() {
                    let what = format!("what an instance {instance} before it left behind");
                    return Err(Error::NotEmpty { what });
                }
            }
        }
    }
    parts.header.importing = Some(marker);
    parts.write_header()
}

/// Takes back what an import of one instance wrote before it was cut short. Killed in between, it is done again. The
/// import of a whole store is left as it is.
pub(crate) fn take_back(parts: &mut Parts) -> Result<()> {
    let Some(Importing { instance: Some(id) }) = parts.header.importing.clone() else {
        return Ok(());
    };
    tracing::warn!(instance = %id, "the import of an instance was cut short; what it wrote is removed");
    remove(parts, &id)?;
    parts.header.importing = None;
    parts.write_header()
}

/// Removes an instance that an earlier try left, whole or in part.
fn remove(parts: &mut Parts, id: &str) -> Result<()> {
    let shard = shard_of(id, parts.header.shards);
    let snapshot = parts.engine.snapshot(shard)?;
    let meta = |fact| Key::Instance(shard, id.into(), Local::Meta(fact));
    let mut batch = crate::storage::batch::Batch::new();
    batch.delete(&Key::Runnable(shard, id.into()).pack());
    // The state goes first and with it what names the instance, as it came last: the rest is invisible.
    if let Look::Found(State {
        alarm_at_ms: Some(at), ..
    }) = look(&*snapshot, &meta(Meta::State))?
    {
        batch.delete(&Key::Alarm(shard, at, id.into()).pack());
    }
    if let Look::Found(Origin { created_at_ms, .. }) = look(&*snapshot, &meta(Meta::Origin))? {
        batch.delete(&Key::Index(shard, created_at_ms, id.into()).pack());
    }
    batch.delete(&meta(Meta::State).pack());
    parts.commit(shard, batch)?;
    parts.clear(shard, key::below(&key::namespace(shard, id)))?;
    parts.clear(shard, key::below(&key::dedup_of(shard, id)))?;
    parts.clear(shard, key::below(&key::outbox_of(shard, id)))
}

/// The instance whose rows are being read.
struct Current {
    id: InstanceId,
    /// Where the last row stands in the order of the file.
    last: (u8, Vec<u8>),
    /// What was not yet said of it.
    state: Option<State>,
    origin: Option<Origin>,
    input: bool,
    /// Whether it has to pass a gate, and comes to that of this store: the file of one instance has no places.
    gated: bool,
    /// Whether others owe it something: they know of the original, and it has to ask them anew.
    owed: bool,
    /// Whether it stands at a gate, so that its place has to be in the file.
    stands: bool,
}

struct Import<'a> {
    scope: Scope,
    /// Where the secrets of copies come from.
    chance: Arc<dyn Chance>,
    parts: &'a mut Parts,
    slices: Slices,
    instance: Option<Current>,
    /// Where the last row that is no instance's stands in the order of the file; empty before the first.
    last_of_store: Vec<u8>,
    standing: Standing,
    imported: Imported,
    arrivals_above: u64,
    /// Whether it was the engine that failed, and not the file.
    engine_failed: bool,
}

impl Import<'_> {
    /// Takes in all rows of a file, and checks that it is whole.
    fn read(&mut self, lines: &mut Lines<'_>) -> Result<()> {
        let trailer = loop {
            match lines.next()? {
                Line::Row(row) => self.row(&row).map_err(|error| lines.fails(error))?,
                Line::Trailer(trailer) => break trailer,
            }
        };
        self.end_instance().map_err(|error| lines.fails(error))?;
        lines.end(&trailer, self.imported.instances, self.imported.rows)?;
        self.come_anew()
    }

    /// Has those come to their gates anew whose places are not in the file.
    fn come_anew(&mut self) -> Result<()> {
        self.engine_failed = true;
        self.slices.flush(self.parts)?;
        for (shard, row) in self.standing.come_anew(self.parts)? {
            self.slices.set(self.parts, shard, &row)?;
        }
        self.engine_failed = false;
        Ok(())
    }

    fn write(&mut self, shard: Shard, row: &Row) -> Result<()> {
        let written = self.slices.set(self.parts, shard, row);
        self.engine_failed = written.is_err();
        written
    }

    /// Takes in a row that is no instance's.
    fn row_of_store(&mut self, line: &RowLine) -> Result<()> {
        if self.scope != Scope::Store {
            return bad("the row belongs to the store, and the first line says that this is one instance");
        }
        self.end_instance()?;
        // Where it lies may depend on what is in it.
        let Some(key) = line.key.in_shard(Shard(0)) else {
            return bad("the row belongs nowhere");
        };
        let place = of_store::place(&key);
        let shard = of_store::home(&key, &seal(&key, line)?, self.parts.header.shards);
        let Some(key) = line.key.in_shard(shard) else {
            return bad("the row belongs nowhere");
        };
        let row = seal(&key, line)?;
        if place <= self.last_of_store {
            return bad("the row is not in the order of an export, or is there twice");
        }
        self.last_of_store = place;
        if let Key::Gate(_, _, at, instance) = &key {
            self.above(at.epoch)?;
            self.standing.has_place(instance);
        }
        self.imported.rows += 1;
        if let Some(placed) = of_store::placed(&key) {
            self.write(shard, &placed)?;
        }
        self.write(shard, &row)
    }

    /// Takes in a row.
    fn row(&mut self, line: &RowLine) -> Result<()> {
        let Some(id) = line.key.instance() else {
            return self.row_of_store(line);
        };
        if !self.last_of_store.is_empty() {
            return bad("a row of an instance comes behind those of the store");
        }
        if matches!(&self.scope, Scope::Instance(Owner(instance)) if instance != id) {
            return bad("the row belongs to another instance than the first line says");
        }
        self.turn_to(id)?;
        let shard = shard_of(id.as_str(), self.parts.header.shards);
        let Some(key) = line.key.in_shard(shard) else {
            return bad("the location is too deep");
        };
        let mut row = seal(&key, line)?;
        let Some(current) = &mut self.instance else {
            return bad("the row belongs to no instance");
        };
        let place = (rank(&key), row.key.clone());
        if place <= current.last {
            return bad("the row is not in the order of an export, or is there twice");
        }
        current.last = place;
        let comes = match &key {
            Key::Outbox(..) => comes_to_a_gate(&row)?,
            _ => None,
        };
        match &key {
            Key::Instance(_, _, Local::Meta(Meta::State)) => current.state = decode(&row)?,
            Key::Instance(_, _, Local::Meta(Meta::Origin)) => {
                current.origin = decode::<Origin>(&row)?;
                if let (Scope::Instance(_), Some(origin)) = (&self.scope, &mut current.origin) {
                    origin.secret = Secret::draw(&*self.chance);
                    row.value = value::encode(&row.key, origin);
                }
            }
            Key::Instance(_, _, Local::Meta(Meta::Input)) => current.input = true,
            Key::Instance(_, _, Local::History(_)) => {
                current.owed |= decode::<Entry>(&row)?.is_some_and(|it| is_owed(&it));
            }
            Key::Instance(_, _, Local::Meta(Meta::Flow)) => {
                if let Some(flow) = decode::<Flow>(&row)?
                    && let Some(gate) = &flow.gate
                {
                    current.stands = gate.stand != Stand::Outside;
                    if let Scope::Instance(_) = self.scope {
                        current.gated = true;
                        row.value = value::encode(&row.key, &of_store::outside(flow));
                    }
                }
            }
            Key::Outbox(..) if comes.is_some() => {
                if let Scope::Instance(_) = self.scope {
                    self.imported.rows += 1;
                    return Ok(());
                }
                // One that has no place yet is given one when this gets there.
                current.stands &= comes != Some(None);
            }
            Key::Outbox(..) if matches!(self.scope, Scope::Instance(_)) => {
                if let Some(mut outgoing) = decode::<Outgoing>(&row)?
                    && let Some(origin) = outgoing.parcel.starts_mut()
                {
                    origin.secret = Secret::draw(&*self.chance);
                    row.value = value::encode(&row.key, &outgoing);
                }
            }
            Key::Instance(_, _, Local::Inbox(arrival)) => self.above(arrival.epoch)?,
            Key::Dedup(..) => self.above(decode::<Seen>(&row)?.map_or(0, |seen| seen.epoch))?,
            Key::Alarm(_, at, _) if current.state.as_ref().and_then(|state| state.alarm_at_ms) != Some(*at) => {
                return bad("the alarm is not the one that the state names");
            }
            Key::Index(_, at, _) if current.origin.as_ref().map(|origin| origin.created_at_ms) != Some(*at) => {
                return bad("the listing row is not at the time of the origin");
            }
            _ => {}
        }
        self.imported.rows += 1;
        self.write(shard, &row)
    }

    /// Notes the epoch of a message: those of this store have to be above it, so that what is sent later comes later,
    /// and never in the place of another.
    fn above(&mut self, epoch: u64) -> Result<()> {
        if epoch > ARRIVAL_EPOCH_MAX {
            return bad("the epoch is too large");
        }
        self.arrivals_above = self.arrivals_above.max(epoch);
        Ok(())
    }

    /// Ends the instance before, if this row begins another.
    fn turn_to(&mut self, id: &InstanceId) -> Result<()> {
        match &self.instance {
            Some(current) if current.id == *id => return Ok(()),
            Some(current) if current.id.as_str() > id.as_str() => {
                return bad("the instances are not in the order of an export");
            }
            _ => {}
        }
        self.end_instance()?;
        self.instance = Some(Current {
            id: id.clone(),
            last: (0, Vec::new()),
            state: None,
            origin: None,
            input: false,
            gated: false,
            owed: false,
            stands: false,
        });
        Ok(())
    }

    /// Checks that the instance is whole.
    fn end_instance(&mut self) -> Result<()> {
        let Some(current) = self.instance.take() else {
            return Ok(());
        };
        if current.state.is_none() || current.origin.is_none() || !current.input {
            return bad(&format!("instance {} ends without state, origin or input", current.id));
        }
        self.imported.instances += 1;
        if let (Scope::Instance(_), Some(origin)) = (&self.scope, &current.origin) {
            self.let_parent_look(origin)?;
        }
        if current.state.is_some_and(|state| state.status.is_terminal()) {
            return Ok(());
        }
        if let Scope::Store = self.scope {
            if current.stands {
                self.standing.stands(current.id.as_str());
            }
            return Ok(());
        }
        let Some(origin) = current.origin.filter(|_| current.gated || current.owed) else {
            return Ok(());
        };
        self.let_run(current.id.as_str(), &origin.workflow)
    }

    /// Has an instance looked after when the store is opened.
    fn let_run(&mut self, instance: &str, workflow: &str) -> Result<()> {
        let shard = shard_of(instance, self.parts.header.shards);
        let key = Key::Runnable(shard, instance.into()).pack();
        let value = value::encode(&key, &Runnable::new(workflow, 0));
        self.write(shard, &Row { key, value })
    }

    /// Has the parent of a child that was imported looked after, if it was imported before: the child may have ended, and
    /// have told the original.
    fn let_parent_look(&mut self, child: &Origin) -> Result<()> {
        let Some(parent) = child.parent.as_ref().filter(|parent| parent.awaited) else {
            return Ok(());
        };
        let shard = shard_of(&parent.instance, self.parts.header.shards);
        let snapshot = self.parts.engine.snapshot(shard)?;
        let meta = |fact| Key::Instance(shard, parent.instance.as_str().into(), Local::Meta(fact));
        let (state, origin) = (
            look(&*snapshot, &meta(Meta::State))?,
            look(&*snapshot, &meta(Meta::Origin))?,
        );
        let (Look::Found(State { status, .. }), Look::Found(Origin { workflow, seed, .. })) = (state, origin) else {
            return Ok(());
        };
        let key = Key::Runnable(shard, parent.instance.as_str().into());
        let runs = !matches!(look::<Runnable>(&*snapshot, &key)?, Look::Missing);
        if seed.is_none() || status.is_terminal() || runs {
            return Ok(());
        }
        self.let_run(&parent.instance, &workflow)
    }

    /// Makes everything durable, and the store whole.
    fn finish(mut self) -> Result<Imported> {
        self.slices.flush(self.parts)?;
        let header = &mut self.parts.header;
        header.importing = None;
        header.arrivals_above = header.arrivals_above.max(self.arrivals_above);
        self.parts.write_header()?;
        Ok(self.imported)
    }
}

/// Whether somebody else has to be asked anew for what an entry waits for: a topic, or a child.
fn is_owed(entry: &Entry) -> bool {
    match &entry.kind {
        EntryKind::Event { decided, .. } => decided.is_none(),
        EntryKind::Child(child) => child.awaited && child.decided.is_none() && !child.closed,
        _ => false,
    }
}

/// Whether a row of an outbox says that an instance comes to a gate, and if so, whether it has a place there.
fn comes_to_a_gate(row: &Row) -> Result<Option<Option<Arrival>>> {
    let outgoing = decode::<Outgoing>(row)?;
    Ok(match outgoing.map(|outgoing| outgoing.parcel) {
        Some(Parcel::Enter { place, .. }) => Some(place),
        _ => None,
    })
}

/// Where a key stands in an export: its rows, what it saw, and what makes it visible.
fn rank(key: &Key<'_>) -> u8 {
    match key {
        Key::Instance(_, _, Local::Meta(Meta::State)) => 2,
        Key::Store | Key::Position(_) | Key::Instance(..) | Key::Dead(..) | Key::Tombstone(..) => 0,
        Key::Gate(..) | Key::Placed(..) => 0,
        Key::Dedup(..) | Key::Outbox(..) => 1,
        Key::Alarm(..) => 3,
        Key::Index(..) => 4,
        Key::Runnable(..) => 5,
    }
}

/// The row that a line stands for, if it is what it claims to be.
fn seal(key: &Key<'_>, line: &RowLine) -> Result<Row> {
    let packed = key.pack();
    if Key::unpack(&packed).is_err() {
        return bad("the key has a part that is too long or too large");
    }
    let Some(record) = unhex(&line.bare) else {
        return bad("`bare` is not lower-case hexadecimal");
    };
    let value = value::seal(
        &packed,
        &Envelope {
            record_type: line.record_type,
            version: line.schema,
            record: &record,
        },
    );
    let schema = schema(key);
    if line.record != schema.name || line.record_type != schema.record_type {
        return bad(&format!(
            "a {} belongs under this key, not a {}",
            schema.name, line.record
        ));
    }
    match schema.check(&packed, &value) {
        Ok(()) => Ok(Row { key: packed, value }),
        Err(error) => bad(&error.to_string()),
    }
}

fn decode<R: value::Record>(row: &Row) -> Result<Option<R>> {
    Ok(value::decode(&row.key, &row.value).ok())
}

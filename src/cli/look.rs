//! Reading an instance out of a store, without running anything.

use std::collections::{BTreeMap, HashMap};

use everstep::clock::Millis;
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{
    Attempts, Decided, Entry, EntryKind, Failure, Hold, Input, Message, Name, Origin, Output, Published, State, Status,
};
use everstep::storage::{OpenOptions, Rows, Store, Url};
use everstep::{InstanceId, storage};
use serde_json::{Value, json};

use super::problem::{Outcome, Problem};
use super::{json as shown, text};

/// Options for a store that is there already: a mistyped path must not make a new one, nor an empty directory become
/// one. What is there and is no store is told by opening it.
pub(crate) fn existing(url: &str) -> Outcome<OpenOptions> {
    let there = match url.parse().map_err(Problem::from)? {
        #[cfg(feature = "fjall")]
        Url::Fjall(path) => holds(&path, "fjall")?,
        #[cfg(feature = "sled")]
        Url::Sled(path) => holds(&path, "sled")?,
        Url::Memory => false,
    };
    if there {
        Ok(OpenOptions::new())
    } else {
        Err(Problem::NoStore(url.to_owned()))
    }
}

/// Whether there is something at a path that may be a store of this engine. Not to be allowed to look is another thing.
#[cfg(any(feature = "fjall", feature = "sled"))]
fn holds(path: &std::path::Path, engine: &str) -> Outcome<bool> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let kind = |path: &std::path::Path| match path.metadata() {
        Ok(there) => Ok(Some(there)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(storage::Error::Io {
            action: "look at",
            path: path.to_owned(),
            source: std::sync::Arc::new(error),
        }),
    };
    let is_store = |engine: &str| Ok::<_, Problem>(kind(&path.join(engine))?.is_some_and(|there| there.is_dir()));
    if kind(path)?.is_some_and(|there| there.is_file()) || is_store(engine)? {
        return Ok(true);
    }
    let other = if engine == "fjall" { "sled" } else { "fjall" };
    if is_store(other)? {
        return Err(Problem::from(storage::Error::NotAStore {
            path: path.to_owned(),
            reason: format!("it holds a {other} store; open it as `{other}:{}`", path.display()),
        }));
    }
    Ok(false)
}

/// Opens a store that is there.
pub(crate) fn open(url: &str) -> Outcome<Store> {
    Ok(existing(url)?.open(url)?)
}

/// An id on the command line: also that of a built-in instance, which `list --all` shows.
pub(crate) fn id(text: &str) -> Result<String, everstep::InvalidId> {
    if !text.starts_with("__") {
        text.parse::<InstanceId>()?;
    }
    Ok(text.to_owned())
}

/// The instance that is meant, if it is there.
pub(crate) fn find(store: &Store, url: &str, text: &str) -> Outcome<InstanceId> {
    let none = || Problem::NoInstance(text.to_owned(), url.to_owned());
    if let Ok(id) = text.parse::<InstanceId>() {
        let namespace = store.namespace(&id);
        let snapshot = store.snapshot(namespace.shard())?;
        let state = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))?;
        return state.map(|_| id).ok_or_else(none);
    }
    // The ids of built-in ones are made by nobody else: they are taken from the listing.
    for shard in store.shards() {
        let mut after = None;
        loop {
            let page = store.instances(shard, after.as_ref())?;
            if let Some((_, id, _)) = page.rows.into_iter().find(|(_, id, _)| id.as_str() == text) {
                return Ok(id);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Err(none())
}

/// One instance, as it was at one moment.
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    pub(crate) origin: Origin,
    pub(crate) state: State,
    pub(crate) input: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) failure: Option<Failure>,
    pub(crate) hold: Option<Hold>,
    /// In the order of their places: what is inside an entry follows it.
    pub(crate) lines: Vec<Line>,
    /// What waits in the inbox, by name.
    pub(crate) inbox: Vec<String>,
    pub(crate) published: BTreeMap<String, Value>,
}

impl Instance {
    /// Puts the entries in the order in which they were first asked for, each followed by what is inside it.
    pub(crate) fn in_order(&mut self) {
        let mut first = HashMap::new();
        for line in &self.lines {
            for depth in 1..=line.path.len() {
                let begun = first.entry(line.path[..depth].to_vec()).or_insert(line.entry.id);
                *begun = line.entry.id.min(*begun);
            }
        }
        let way = |line: &Line| -> Vec<_> { (1..=line.path.len()).map(|depth| first[&line.path[..depth]]).collect() };
        self.lines.sort_by_cached_key(way);
    }

    /// How many items of the map at this path are over, and well. Nothing is recorded of that but what was done for each.
    pub(crate) fn items_over(&self, map: &[String]) -> u64 {
        let mut well = BTreeMap::new();
        for line in self.lines.iter().filter(|line| line.path.starts_with(map)) {
            if let Some(item) = line.path.get(map.len()) {
                *well.entry(item).or_insert(true) &= line.is_done() && line.failure().is_none();
            }
        }
        well.values().filter(|well| **well).count() as u64
    }
}

/// One entry.
pub(crate) struct Line {
    /// The names on the way to it, outermost first.
    pub(crate) path: Vec<String>,
    pub(crate) entry: Entry,
    pub(crate) attempts: Option<Attempts>,
    /// What it came to, in a word or two and a value.
    pub(crate) detail: Value,
}

impl Line {
    pub(crate) fn at_ms(&self) -> Option<Millis> {
        self.entry.completed.map(|completed| completed.at_ms)
    }

    /// Whether it is over, well or badly. What undoes something has no place in the order of completions.
    pub(crate) fn is_done(&self) -> bool {
        let undone = match &self.entry.kind {
            EntryKind::Rollback(decided) | EntryKind::Compensation { decided, .. } => decided.is_some(),
            _ => false,
        };
        undone || self.entry.completed.is_some()
    }

    /// What it came to, where there is something to say. The unit is stored as an empty list.
    pub(crate) fn told(&self) -> Option<String> {
        match (self.failure(), &self.detail) {
            (Some(failure), _) => Some(failure.message.clone()),
            (None, Value::Null) => None,
            (None, Value::Array(items)) if items.is_empty() => None,
            (None, detail) => Some(detail.to_string()),
        }
    }

    /// Which attempt did it and how long that took, of a step and of what undoes one.
    pub(crate) fn took(&self) -> Option<String> {
        let ran = self.entry.ran?;
        let took = text::span(ran.duration_ms);
        Some(match ran.number {
            1 => format!("took {took}"),
            number => format!("attempt {number} took {took}"),
        })
    }

    /// How it ended, where it ended badly.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.entry.kind {
            EntryKind::Step(Some(Decided::Failed(failure)))
            | EntryKind::Rollback(Some(Decided::Failed(failure)))
            | EntryKind::Promise {
                decided: Some(Decided::Failed(failure)),
                ..
            }
            | EntryKind::Compensation {
                decided: Some(Decided::Failed(failure)),
                ..
            }
            | EntryKind::Compensating(failure) => Some(failure),
            EntryKind::Child(child) => match &child.decided {
                Some(Decided::Failed(failure)) => Some(failure),
                _ => None,
            },
            _ => None,
        }
    }

    /// The entry as JSON.
    pub(crate) fn object(&self) -> Value {
        let failed = self.attempts.iter().flat_map(|attempts| &attempts.failed);
        let failed: Vec<_> = failed
            .map(|attempt| {
                json!({
                    "number": attempt.number,
                    "started_at_ms": attempt.started_at_ms,
                    "duration_ms": attempt.duration_ms,
                    "failure": failure_object(&attempt.failure),
                })
            })
            .collect();
        json!({
            "path": self.path.join("/"),
            "kind": self.entry.kind.name(),
            "id": self.entry.id,
            "order": self.entry.completed.map(|completed| completed.order),
            "at_ms": self.at_ms(),
            "detail": self.detail,
            "failure": self.failure().map(failure_object),
            "failed_attempts": failed,
            "succeeded": self.entry.ran.map(|ran| {
                json!({
                    "number": ran.number,
                    "started_at_ms": ran.started_at_ms,
                    "duration_ms": ran.duration_ms,
                })
            }),
        })
    }
}

/// A failure, for programs.
pub(crate) fn failure_object(failure: &Failure) -> Value {
    json!({
        "kind": format!("{:?}", failure.kind),
        "message": failure.message,
        "path": failure.path,
        "attempts": failure.attempts,
        "causes": failure.causes,
        "code": failure.code,
    })
}

/// A status as `--status` takes it.
pub(crate) fn status_name(status: Status) -> String {
    status.to_string().replace(' ', "-")
}

/// Reads an instance; none if there is no such instance.
pub(crate) fn instance(store: &Store, id: &InstanceId) -> Outcome<Option<Instance>> {
    let namespace = store.namespace(id);
    let snapshot = store.snapshot(namespace.shard())?;
    let Some(state) = namespace.get::<State>(&*snapshot, &Local::Meta(Meta::State))? else {
        return Ok(None);
    };
    let lost = || storage::Error::Corrupt(format!("instance {id} has no origin"));
    let origin = namespace
        .get::<Origin>(&*snapshot, &Local::Meta(Meta::Origin))?
        .ok_or_else(lost)?;
    let input: Option<Input> = namespace.get(&*snapshot, &Local::Meta(Meta::Input))?;
    let output: Option<Output> = namespace.get(&*snapshot, &Local::Meta(Meta::Output))?;
    let (mut names, mut attempts) = (Vec::new(), BTreeMap::new());
    let (mut lines, mut inbox, mut published) = (Vec::new(), Vec::new(), BTreeMap::new());
    namespace.list(&*snapshot, Rows::All, &mut |local, row| {
        match local {
            Local::Name(_) => names.push(row.decode::<Name>()?.0),
            Local::History(location) => lines.push((location.into_owned(), row.decode::<Entry>()?)),
            Local::Attempts(entry) => {
                attempts.insert(entry, row.decode::<Attempts>()?);
            }
            Local::Inbox(_) => inbox.push(row.decode::<Message>()?),
            Local::Published(name) => {
                let Published(payload) = row.decode()?;
                published.insert(name.into_owned(), shown::payload(store, &payload));
            }
            Local::Meta(_) | Local::Emitted(_) | Local::Answer(_) => {}
        }
        Ok(())
    })?;
    let lines = lines.into_iter().map(|(location, entry)| Line {
        path: location.path_parts(&names),
        attempts: attempts.remove(&entry.id),
        detail: detail(store, &entry.kind),
        entry,
    });
    Ok(Some(Instance {
        lines: lines.collect(),
        id: id.clone(),
        origin,
        state,
        input: input.map(|Input(payload)| shown::payload(store, &payload)),
        output: output.map(|Output(payload)| shown::payload(store, &payload)),
        failure: namespace.get(&*snapshot, &Local::Meta(Meta::Failure))?,
        hold: namespace.get(&*snapshot, &Local::Meta(Meta::Hold))?,
        inbox: inbox.iter().map(called).collect(),
        published,
    }))
}

/// What people call a message.
fn called(message: &Message) -> String {
    message
        .told_or_asked()
        .map_or_else(|| "(internal)".to_owned(), |(name, _)| name.to_owned())
}

/// What an entry came to, or what it waits for.
fn detail(store: &Store, kind: &EntryKind) -> Value {
    let decided = |decided: &Option<Decided>| match decided {
        Some(Decided::Completed(payload)) => shown::payload(store, payload),
        Some(Decided::Failed(_)) | None => Value::Null,
    };
    match kind {
        EntryKind::Step(end) | EntryKind::Rollback(end) => decided(end),
        EntryKind::Sleep { wake_at_ms } => json!({"until": text::time(*wake_at_ms)}),
        EntryKind::Receive { taken, until_ms } if taken.is_empty() => json!({"until": until_ms.map(text::time)}),
        EntryKind::Receive { taken, .. } => {
            let taken = taken.iter().filter_map(Message::told_or_asked);
            let values = taken.map(|(name, payload)| json!({name: shown::payload(store, payload)}));
            let mut values: Vec<_> = values.collect();
            if values.len() == 1 {
                values.remove(0)
            } else {
                Value::Array(values)
            }
        }
        EntryKind::Loop(state) => match &state.output {
            Some(output) => json!({"iterations": state.iteration, "output": shown::payload(store, output)}),
            None => json!({"iteration": state.iteration, "state": shown::payload(store, &state.state)}),
        },
        EntryKind::Join { branches } => {
            let status = |(name, status): &(String, _)| (name.clone(), format!("{status:?}").to_lowercase().into());
            Value::Object(branches.iter().map(status).collect())
        }
        EntryKind::Race { winner } => json!({"winner": winner}),
        EntryKind::Version { version } | EntryKind::Passed { version, .. } => json!({"version": version}),
        EntryKind::Cancel { reason } => json!({"reason": reason}),
        EntryKind::Map { items } => json!({"items": items}),
        EntryKind::Child(child) => {
            json!({"instance": child.instance, "workflow": child.workflow, "output": decided(&child.decided)})
        }
        EntryKind::Sent { to, name, .. } => json!({"to": to, "name": name}),
        EntryKind::Publish { topic, .. } => json!({"topic": topic}),
        EntryKind::Event {
            topic, decided: end, ..
        } => json!({"topic": topic, "event": decided(end)}),
        EntryKind::Promise { decided: end, .. } => decided(end),
        EntryKind::Compensation { input, .. } => json!({"input": shown::payload(store, input)}),
        _ => Value::Null,
    }
}

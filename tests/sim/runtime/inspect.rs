//! The store, compared with the ledger: everything that was acknowledged is there, once and in order.

use std::collections::BTreeMap;

use everstep::InstanceId;
use everstep::storage::key::{Local, Meta};
use everstep::storage::record::{Content, Decided, Entry, EntryKind, Message, State};
use everstep::storage::{Rows, Store};

use super::interpreter::{News, Riddle, Tidings};
use super::ledger;

/// What is stored of an instance.
#[derive(Default)]
struct Stored {
    state: Option<State>,
    /// Ids of messages in the order in which they were taken.
    taken: BTreeMap<u64, Vec<String>>,
    inbox: Vec<String>,
    /// Events that were taken, by place.
    events: Vec<String>,
}

/// Compares a store that rests with what is known, and if that is wanted with what it thinks of itself.
pub(crate) fn inspect(store: &Store, verifies: bool) {
    if verifies {
        let report = store.verify().unwrap();
        if !report.is_clean() {
            ledger::with(|ledger| ledger.violation(format!("verify: {report}")));
        }
    }
    look_for_rung(store);
    let ids: Vec<_> = ledger::with(|ledger| ledger.instances.keys().cloned().collect());
    for id in ids {
        compare(&id, &read(store, &id));
    }
}

/// An alarm rings once. One that would ring again does nothing that anybody could see: whoever it wakes has nothing to
/// do. So it is looked for where it would ring from: what is there although its instance has another one, or none, has
/// rung or was taken back.
fn look_for_rung(store: &Store) {
    for shard in store.shards() {
        let mut after = None;
        loop {
            let page = store.alarms(shard, after.as_ref()).unwrap();
            for (at_ms, instance, _) in page.rows {
                let namespace = store.namespace(&instance);
                let snapshot = store.snapshot(shard).unwrap();
                let state: Option<State> = namespace.get(&*snapshot, &Local::Meta(Meta::State)).unwrap();
                if state.and_then(|state| state.alarm_at_ms) != Some(at_ms) {
                    ledger::with(|ledger| ledger.violation(format!("{instance} rings again, at {at_ms}")));
                }
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
}

fn read(store: &Store, id: &str) -> Stored {
    let namespace = store.namespace(&InstanceId::new(id).unwrap());
    let snapshot = store.snapshot(namespace.shard()).unwrap();
    let mut stored = Stored::default();
    let visit = &mut |local: Local<'_>, row: everstep::storage::Row<'_>| {
        match local {
            Local::Meta(Meta::State) => stored.state = Some(row.decode()?),
            Local::Inbox(_) => stored.inbox.extend(news(store, &row.decode()?)),
            Local::History(_) => {
                let entry: Entry = row.decode()?;
                match (entry.kind, entry.completed) {
                    (EntryKind::Receive { taken, .. }, Some(completed)) => {
                        let ids = taken.iter().filter_map(|message| news(store, message));
                        stored.taken.insert(completed.order, ids.collect());
                    }
                    (
                        EntryKind::Event {
                            decided: Some(Decided::Completed(taken)),
                            ..
                        },
                        _,
                    ) => {
                        stored.events.push(store.codecs().unpack::<Tidings>(&taken).unwrap().id);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(())
    };
    namespace.list(&*snapshot, Rows::All, visit).unwrap();
    stored
}

/// The id that the sender gave to news; none for what the runtime itself puts into inboxes.
fn news(store: &Store, message: &Message) -> Option<String> {
    match &message.content {
        Content::Told { payload, .. } => Some(store.codecs().unpack::<News>(payload).unwrap().id()),
        Content::Asked { payload, .. } => Some(store.codecs().unpack::<Riddle>(payload).unwrap().id()),
        _ => None,
    }
}

fn compare(id: &str, stored: &Stored) {
    ledger::with(|ledger| {
        let mut wrong = Vec::new();
        if ledger.instance(id).vanishing && stored.state.is_none() {
            ledger.forget(id);
        }
        for event in &stored.events {
            ledger.has_event(id, event);
        }
        let followed: Vec<_> = {
            let messages = ledger.instances.get(id).map(|seen| &seen.messages);
            let followed = messages
                .into_iter()
                .flatten()
                .filter(|(_, known)| ledger.has_followed(id, known));
            followed.map(|(message, _)| message.clone()).collect()
        };
        let seen = ledger.instance(id);
        seen.vanishing = false;
        let rewound = seen.renewals > 0;
        match &stored.state {
            None if seen.started => wrong.push("is gone".to_owned()),
            None => {}
            Some(_) if !seen.offered => wrong.push("was never started".to_owned()),
            Some(state) => {
                if let Some(ended) = seen.ended.filter(|ended| *ended != state.status) {
                    wrong.push(format!("was {ended} and is {}", state.status));
                }
            }
        }
        let taken: Vec<_> = stored.taken.values().flatten().collect();
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for message in &taken {
            let (sender, number) = message.rsplit_once('-').unwrap();
            let number = number.parse().unwrap();
            if last.insert(sender, number).is_some_and(|before| before >= number) {
                wrong.push(format!("took {message} out of order: {taken:?}"));
            }
        }
        let ended = stored.state.as_ref().is_some_and(|state| state.status.is_terminal());
        for (message, known) in &seen.messages {
            let waits = stored.inbox.contains(message);
            let times = usize::from(waits) + taken.iter().filter(|taken| *taken == &message).count();
            if times > 1 || (waits && followed.contains(message) && !rewound) {
                wrong.push(format!("has message {message} twice"));
            }
            if known.acknowledged && times == 0 && !known.was_taken && !ended {
                wrong.push(format!("lost message {message}"));
            }
        }
        for message in stored.inbox.iter().chain(taken) {
            if !seen.messages.contains_key(message) {
                wrong.push(format!("has message {message}, which nobody sent to it"));
            }
        }
        for what in wrong {
            ledger.violation(format!("{id} {what}"));
        }
    });
}

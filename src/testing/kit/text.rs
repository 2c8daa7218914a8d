//! What is recorded, as people read it in the report of a test.

use super::double::Wait;
use crate::handle::{Description, History, HistoryEntry};
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Decided, EntryKind};

/// What a call gave. If that is an error, the test fails at the line that made the call: a panic in a closure would be
/// told of the kit's own line.
#[track_caller]
pub(super) fn or_panic<T, E>(result: Result<T, E>, says: impl FnOnce(E) -> String) -> T {
    match result {
        Ok(done) => done,
        Err(error) => panic!("{}", says(error)),
    }
}

/// A user's value, as JSON where it is something that JSON can say.
pub(super) fn payload(codecs: &Codecs, payload: &Payload) -> String {
    let value: Result<serde_json::Value, _> = codecs.unpack(payload);
    value.map_or_else(|_| format!("{} bytes", payload.bytes.len()), |value| value.to_string())
}

fn decided(codecs: &Codecs, decided: Option<&Decided>) -> Option<String> {
    decided.map(|decided| match decided {
        Decided::Completed(value) => payload(codecs, value),
        Decided::Failed(failure) => format!("failed: {failure}"),
    })
}

/// What an operation came to, without when, or under which number; none if it has not come to anything.
pub(super) fn outcome(codecs: &Codecs, kind: &EntryKind) -> Option<String> {
    match kind {
        EntryKind::Step(ended) | EntryKind::Rollback(ended) => decided(codecs, ended.as_ref()),
        EntryKind::Promise { decided: ended, .. } | EntryKind::Compensation { decided: ended, .. } => {
            decided(codecs, ended.as_ref())
        }
        EntryKind::Receive { taken, .. } => {
            let told = taken.iter().filter_map(|message| message.told_or_asked());
            let texts: Vec<_> = told
                .map(|(name, value)| format!("{name} {}", payload(codecs, value)))
                .collect();
            Some(texts.join(", "))
        }
        EntryKind::Child(child) => decided(codecs, child.decided.as_ref()),
        EntryKind::Event { decided: ended, .. } => decided(codecs, ended.as_ref()),
        EntryKind::Race { winner } => winner.clone(),
        EntryKind::Version { version } | EntryKind::Passed { version, .. } => Some(version.to_string()),
        EntryKind::Loop(state) => state.output.as_ref().map(|output| payload(codecs, output)),
        EntryKind::Sent { to, name, .. } => Some(format!("{name} to {to}")),
        EntryKind::Publish { topic, .. } => Some(topic.clone()),
        EntryKind::Cancel { reason } => Some(reason.clone()),
        EntryKind::Compensating(failure) => Some(failure.to_string()),
        _ => None,
    }
}

/// Whether nothing more comes of it. What undoes something has no place in the order of completions; that the undoing
/// began is all there is to say of that; and of a map nothing is recorded but its items.
fn is_over(entry: &HistoryEntry) -> bool {
    match &entry.kind {
        EntryKind::Rollback(decided) | EntryKind::Compensation { decided, .. } => decided.is_some(),
        EntryKind::Map { .. } | EntryKind::Compensating(_) => true,
        _ => entry.completed.is_some(),
    }
}

fn entry(codecs: &Codecs, entry: &HistoryEntry) -> String {
    let (kind, path) = (entry.kind.name(), &entry.path);
    let outcome = match (is_over(entry), outcome(codecs, &entry.kind)) {
        (false, _) => " (not complete)".to_owned(),
        (true, Some(outcome)) => format!(": {outcome}"),
        (true, None) => String::new(),
    };
    let failed = entry.attempts.as_ref().map_or(0, |attempts| attempts.failed.len());
    let failed = if failed > 0 {
        format!(" [{failed} attempts failed]")
    } else {
        String::new()
    };
    format!("  {kind} `{path}`{outcome}{failed}\n")
}

/// A history, one line for each entry.
fn history(codecs: &Codecs, history: &History) -> String {
    if history.entries.is_empty() {
        return "  nothing is recorded\n".to_owned();
    }
    history.entries.iter().map(|recorded| entry(codecs, recorded)).collect()
}

/// Where an instance stands.
pub(super) fn description(codecs: &Codecs, description: &Description, recorded: &History, waits: &[Wait]) -> String {
    let mut text = format!("`{}` is {}", description.id, description.status);
    if description.paused {
        text.push_str(", and paused");
    }
    if let Some(hold) = &description.hold {
        text.push_str(&format!(": {}", hold.reason));
    }
    if let Some(failure) = &description.failure {
        text.push_str(&format!(": {failure}"));
    }
    text.push('\n');
    for Wait { path, kind, call_site } in waits {
        text.push_str(&format!("  it waits for `{path}` ({kind}), at {call_site}\n"));
    }
    text.push_str("its history:\n");
    text.push_str(&history(codecs, recorded));
    text
}

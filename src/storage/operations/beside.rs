//! Verifying what lies beside the namespaces, against the instances it names.

use crate::storage::error::Result;
use crate::storage::key::{Key, Local, Meta};
use crate::storage::operations::report::Fault;
use crate::storage::operations::verify::Verifier;
use crate::storage::operations::walk::{Look, Row, look};
use crate::storage::record::{Origin, State, StoreHeader};
use crate::storage::value;

/// Checks the store header.
pub(super) fn header(verifier: &mut Verifier<'_>, row: &Row) -> Result<()> {
    if let Ok(header) = value::decode::<StoreHeader>(&row.key, &row.value)
        && let Some(importing) = header.importing
    {
        let detail = match &importing.instance {
            Some(_) => "the import of an instance was cut short; opening the store takes it back",
            None => "the import of the store was cut short",
        }
        .into();
        verifier.find(Fault::ImportUnfinished, importing.instance.as_deref(), &row.key, detail);
    }
    Ok(())
}

/// Checks a row that names an instance. An instance whose state can't be read is reported where it lies, and nothing
/// is concluded from it.
pub(super) fn row(verifier: &mut Verifier<'_>, key: &Key<'_>, row: &Row) -> Result<()> {
    let (Key::Alarm(_, _, instance)
    | Key::Index(_, _, instance)
    | Key::Dedup(_, instance, _)
    | Key::Runnable(_, instance)) = key
    else {
        return Ok(());
    };
    let state = look::<State>(verifier.snapshot, &meta(verifier, instance, Meta::State))?;
    let mut find = |fault, detail: String| verifier.find(fault, Some(instance), &row.key, detail);
    let gone = || "there is no such instance".to_owned();
    match (key, state) {
        (_, Look::Unreadable) => {}
        (Key::Alarm(..), Look::Missing) => find(Fault::OrphanAlarm, gone()),
        (Key::Alarm(_, at, _), Look::Found(state)) if state.alarm_at_ms != Some(*at) => {
            let detail = format!("the state has its alarm at {:?}", state.alarm_at_ms);
            find(Fault::StaleAlarm, detail);
        }
        (Key::Index(..), Look::Missing) => find(Fault::OrphanIndex, gone()),
        (Key::Index(_, at, _), Look::Found(_)) => index(verifier, *at, instance, row)?,
        (Key::Dedup(..), Look::Missing) => find(Fault::OrphanDedup, gone()),
        (Key::Runnable(..), Look::Missing) => find(Fault::OrphanRunnable, gone()),
        (Key::Runnable(..), Look::Found(state)) if state.status.is_terminal() => {
            find(
                Fault::RunnableEnded,
                format!("the instance has ended: {}", state.status),
            );
        }
        _ => {}
    }
    Ok(())
}

/// Whether a listing row lies at the time at which its instance was created. What it says is compared from the
/// instance's side.
fn index(verifier: &mut Verifier<'_>, at: u64, instance: &str, row: &Row) -> Result<()> {
    let origin = look::<Origin>(verifier.snapshot, &meta(verifier, instance, Meta::Origin))?;
    if let Look::Found(origin) = origin
        && origin.created_at_ms != at
    {
        let detail = format!("the instance was created at {}", origin.created_at_ms);
        verifier.find(Fault::IndexTime, Some(instance), &row.key, detail);
    }
    Ok(())
}

fn meta<'a>(verifier: &Verifier<'_>, instance: &'a str, fact: Meta) -> Key<'a> {
    Key::Instance(verifier.shard, instance.into(), Local::Meta(fact))
}

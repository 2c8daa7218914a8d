//! What an operator does: cancel, terminate, pause, resume, reset, retry, release, delete.

use everstep::{Effect, Error, Handle};

use super::Act;
use crate::runtime::interpreter::Interpreter;
use crate::runtime::ledger;

/// Does it.
pub(super) async fn operate(handle: &Handle<Interpreter>, act: &Act) -> Result<(), Error> {
    let id = handle.id().as_str();
    match act {
        Act::Reset(_, pick) => reset(handle, *pick).await,
        Act::Retry(_) => {
            ledger::with(|ledger| ledger.renews(id));
            let answer = handle.retry().await;
            renewed(id, answer)
        }
        Act::Delete(_) => delete(handle).await,
        Act::Release(_) => release(handle).await,
        _ => hold(handle, act).await,
    }
}

/// Cancels, terminates, pauses or resumes.
async fn hold(handle: &Handle<Interpreter>, act: &Act) -> Result<(), Error> {
    let id = handle.id().to_string();
    let (resumes, since) = ledger::with(|ledger| {
        let seen = ledger.instance(&id);
        match act {
            Act::Cancel(_) | Act::Terminate(_) => ledger.is_to_end(&id),
            Act::Resume(_) => {
                seen.resumes.0 += 1;
                ledger.is_held(&id, false);
            }
            _ => {}
        }
        (ledger.instance(&id).resumes, ledger.renewals(&id))
    });
    let operated = match act {
        Act::Cancel(_) => handle.cancel("enough").await,
        Act::Terminate(_) => handle.terminate("enough").await,
        Act::Pause(_) => handle.pause().await,
        _ => handle.resume().await,
    };
    let operated = match operated {
        Ok(operated) => operated,
        Err(Error::Deleted(_) | Error::InboxFull { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    ledger::with(|ledger| {
        ledger.note(format!("{act:?}: {operated:?}"));
        if operated.effect == Effect::Ended || operated.now.is_terminal() {
            ledger.saw_end_since(&id, since, operated.now);
        }
        if matches!(act, Act::Cancel(_)) {
            ledger.is_acknowledged_to_end(&id, since, operated.effect);
        }
        // Somebody else may have asked for the contrary meanwhile.
        let holds = matches!(act, Act::Pause(_)) && matches!(operated.effect, Effect::Done | Effect::Already);
        let seen = ledger.instance(&id);
        seen.resumes.1 += u64::from(matches!(act, Act::Resume(_)));
        let contrary = resumes.0 != resumes.1 || seen.resumes != resumes;
        if holds && !contrary && ledger.renewals(&id) == since {
            ledger.is_held(&id, true);
        }
    });
    Ok(())
}

/// Takes an instance back to an operation that its history tells of.
async fn reset(handle: &Handle<Interpreter>, pick: u64) -> Result<(), Error> {
    let id = handle.id().as_str();
    let entries = match handle.history().await {
        Ok(history) => history.entries,
        Err(Error::Deleted(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let Some(at) = pick.checked_rem(entries.len() as u64) else {
        return Ok(());
    };
    let path = &entries[at as usize].path;
    ledger::with(|ledger| {
        ledger.note(format!("{id} is to go back to {path}"));
        ledger.renews(id);
    });
    let answer = handle.reset(path).await;
    renewed(id, answer)
}

fn renewed(id: &str, answer: Result<everstep::Operated, Error>) -> Result<(), Error> {
    ledger::with(|ledger| ledger.note(format!("{id} runs again: {answer:?}")));
    match answer {
        Ok(_) | Err(Error::NoWayBack { .. } | Error::Deleted(_)) => {
            ledger::with(|ledger| ledger.renewed(id));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Nobody is held here, so nobody can be let go.
async fn release(handle: &Handle<Interpreter>) -> Result<(), Error> {
    let id = handle.id().as_str();
    let since = ledger::with(|ledger| ledger.renewals(id));
    let operated = match handle.release().await {
        Ok(operated) => operated,
        Err(Error::Deleted(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    ledger::with(|ledger| match operated.effect {
        Effect::Ended => ledger.saw_end_since(id, since, operated.now),
        Effect::Already => {}
        effect => ledger.violation(format!("{id} was released: {effect:?}")),
    });
    Ok(())
}

async fn delete(handle: &Handle<Interpreter>) -> Result<(), Error> {
    let id = handle.id().as_str();
    ledger::with(|ledger| ledger.instance(id).vanishing = true);
    let answer = handle.delete().await;
    ledger::with(|ledger| ledger.note(format!("{id} is deleted: {answer:?}")));
    match answer {
        Ok(()) | Err(Error::Deleted(_)) => ledger::with(|ledger| {
            if ledger.instance(id).vanishing {
                ledger.forget(id);
            }
        }),
        Err(Error::NotFinished { .. }) => ledger::with(|ledger| ledger.instance(id).vanishing = false),
        Err(error) => return Err(error),
    }
    Ok(())
}

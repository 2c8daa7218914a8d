//! What anybody may do: start, send, ask, decide, publish, look, list, wait.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep::storage::record::{FailureKind, Status};
use everstep::{Error, Handle, Runtime, Sent};

use crate::runtime::client::Terms;
use crate::runtime::interpreter::{Interpreter, News, Riddle, Tidings};
use crate::runtime::ledger::{self, UNANSWERED};
use crate::runtime::program::Program;

pub(crate) fn handle(runtime: &Runtime, id: &str) -> Result<Handle<Interpreter>, Error> {
    runtime.handle(Interpreter, id)
}

pub(super) async fn start(runtime: &Runtime, id: &str, program: &Program, terms: Terms) -> Result<(), Error> {
    ledger::with(|ledger| {
        ledger.instance(id).offered = true;
        ledger.limits(id, terms.deadline_ms);
        ledger.delays(id, terms.after_ms.unwrap_or(0));
    });
    let mut start = runtime
        .start(Interpreter, program.clone())
        .id(id)
        .priority(terms.priority);
    if let Some(millis) = terms.deadline_ms {
        start = start.deadline(Duration::from_millis(millis));
    }
    if let Some(millis) = terms.after_ms {
        start = start.after(Duration::from_millis(millis));
    }
    let started = start.await?;
    let (existed, differs) = (started.existed(), started.input_differs());
    ledger::with(|ledger| {
        ledger.note(format!("{id} started, existed {existed}, differs {differs}"));
        if existed {
            ledger.instance(id).started = true;
            return;
        }
        if ledger.instance(id).vanishing {
            // It was deleted, which somebody else is about to be told.
            ledger.forget(id);
        }
        let seen = ledger.instance(id);
        seen.deleted = false;
        let was_started = std::mem::replace(&mut seen.started, true);
        let was_created = seen.created.replace(program.variant).is_some();
        if was_started || was_created {
            ledger.violation(format!("{id} was started twice"));
        }
    });
    Ok(())
}

/// Sends, and tells whether it is there now.
pub(crate) async fn send(handle: &Handle<Interpreter>, news: News) -> Result<bool, Error> {
    let (id, to) = (news.id(), news.to.clone());
    let (tried, since) = tries(&id, &to);
    let sent = handle.send(news).id(&id).await;
    ledger::with(|ledger| ledger.note(format!("{id} to {to}: {sent:?}")));
    match sent {
        Ok(sent) => {
            ledger::with(|ledger| {
                let message = ledger.instance(&to).messages.entry(id.clone()).or_default();
                let before = std::mem::replace(&mut message.acknowledged, true);
                if sent == Sent::Accepted && before {
                    ledger.violation(format!("{id} to {to} was accepted twice"));
                }
                if sent == Sent::Duplicate && !tried {
                    ledger.violation(format!("{id} to {to} is said to have been sent before"));
                }
            });
            Ok(true)
        }
        Err(error) => refused(&to, since, error).map(|()| false),
    }
}

/// A message is tried. Tells whether it was before, and the renewals that are known.
fn tries(id: &str, to: &str) -> (bool, u64) {
    ledger::with(|ledger| {
        let tried_at = ledger.trace.len();
        let messages = &mut ledger.instance(to).messages;
        let tried = messages.contains_key(id);
        let message = messages.entry(id.to_owned()).or_default();
        if !tried {
            message.tried_at = tried_at;
        }
        (tried, ledger.renewals(to))
    })
}

/// What an answer that is an error says about an instance. An error that says nothing is given back.
fn refused(id: &str, since: u64, error: Error) -> Result<(), Error> {
    ledger::with(|ledger| match error {
        Error::Finished { status, .. } => {
            ledger.saw_end_since(id, since, status);
            Ok(())
        }
        Error::Unknown(_) => {
            let seen = ledger.instance(id);
            if seen.started || seen.deleted {
                ledger.violation(format!("{id} was started and is unknown"));
            }
            Ok(())
        }
        Error::Deleted(_) => {
            let seen = ledger.instance(id);
            if !seen.deleted && !seen.vanishing {
                ledger.violation(format!("{id} is said to be deleted"));
            }
            Ok(())
        }
        Error::InboxFull { .. } => Ok(()),
        error => Err(error),
    })
}

/// Asks, and waits for so long. Tells whether there was an answer of any kind.
pub(crate) async fn ask(handle: &Handle<Interpreter>, riddle: Riddle, patience: &str) -> Result<bool, Error> {
    let (id, to) = (riddle.id(), riddle.to.clone());
    let question = format!("{id} to {to}");
    let (_, since) = tries(&id, &to);
    let answer = match handle.ask(riddle).id(&id).timeout(patience).await {
        Ok(answer) => answer,
        Err(Error::Refused(failure)) => failure.message.clone(),
        Err(Error::Unanswered(_)) => UNANSWERED.to_owned(),
        Err(Error::TimedOut(_)) => return Ok(false),
        Err(error) => return refused(&to, since, error).map(|()| true),
    };
    ledger::with(|ledger| {
        let message = ledger.instance(&to).messages.entry(id).or_default();
        message.acknowledged = true;
        ledger.hears_answer(&question, &to, &answer);
    });
    Ok(true)
}

/// Keeps or breaks a promise.
pub(crate) async fn decide(runtime: &Runtime, token: &str, decision: &str, keeps: bool) -> Result<(), Error> {
    let id = ledger::with(|ledger| ledger.decides(token, decision));
    let since = ledger::with(|ledger| ledger.renewals(&id));
    let sent = if keeps {
        runtime.resolve(token, &decision).await
    } else {
        runtime.reject(token, decision).await
    };
    ledger::with(|ledger| ledger.note(format!("{decision} to {id}: {sent:?}")));
    match sent {
        Ok(Sent::Accepted) => ledger::with(|ledger| ledger.decided(token, decision)),
        Ok(_) => {}
        Err(Error::TooLate(_)) => ledger::with(|ledger| ledger.is_too_late(token)),
        Err(Error::InvalidToken(error)) => ledger::with(|ledger| {
            // Another instance has its id now.
            if ledger.token_is_given(token) && !ledger.instance(&id).vanishing {
                ledger.violation(format!("a token of {id}: {error}"));
            }
        }),
        Err(error) => return refused(&id, since, error),
    }
    Ok(())
}

/// Publishes an event.
pub(crate) async fn publish(runtime: &Runtime, event: &str, to_one: bool, keep_ms: u64) -> Result<(), Error> {
    ledger::with(|ledger| ledger.publishes(event, to_one, keep_ms));
    let publishing = runtime
        .publish(Tidings { id: event.to_owned() })
        .id(event)
        .keep(Duration::from_millis(keep_ms));
    if to_one {
        publishing.to_one().await?;
    } else {
        publishing.await?;
    }
    ledger::with(|ledger| ledger.published(event, None));
    Ok(())
}

/// Asks for what the code has said.
pub(super) async fn query(runtime: &Runtime, id: &str) -> Result<(), Error> {
    let since = ledger::with(|ledger| ledger.renewals(id));
    match handle(runtime, id)?.query::<String>("progress").await {
        Ok(found) => {
            ledger::with(|ledger| ledger.queried(id, found.as_ref()));
            Ok(())
        }
        Err(error) => refused(id, since, error),
    }
}

/// Lists, page by page.
pub(super) async fn list(runtime: &Runtime) -> Result<(), Error> {
    let before = ledger::with(|ledger| ledger.known());
    let mut rows: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    let mut after = None;
    loop {
        let list = runtime.list().workflow("interpreter").limit(2);
        let page = match after {
            Some(cursor) => list.after(cursor).await?,
            None => list.await?,
        };
        for row in page.rows {
            rows.entry(row.id).or_default().push(row.status);
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    ledger::with(|ledger| ledger.listed(&before, &rows));
    Ok(())
}

/// Reads the status; tells whether it is over.
pub(crate) async fn look(runtime: &Runtime, id: &str) -> Result<bool, Error> {
    let (offered, since) = ledger::with(|ledger| (ledger.instance(id).offered, ledger.renewals(id)));
    match handle(runtime, id)?.status().await {
        Ok(description) => {
            let status = description.status;
            ledger::with(|ledger| {
                ledger.saw_status(id, status);
                if !offered {
                    ledger.violation(format!("{id} is there and nobody started it"));
                }
                if let Some(hold) = &description.hold {
                    ledger.violation(format!("{id} is held: {hold:?}"));
                }
            });
            Ok(status.is_terminal())
        }
        Err(error) => refused(id, since, error).map(|()| false),
    }
}

/// Reads what an instance that has ended has said to whoever follows it.
pub(crate) async fn follow(runtime: &Runtime, id: &str) -> Result<(), Error> {
    let mut stream = handle(runtime, id)?.stream::<String>();
    let mut said = Vec::new();
    while let Some(item) = stream.next().await? {
        said.push(item.value);
    }
    ledger::with(|ledger| ledger.followed(id, &said));
    Ok(())
}

/// Waits for the result.
pub(crate) async fn result(runtime: &Runtime, id: &str) -> Result<(), Error> {
    let since = ledger::with(|ledger| ledger.renewals(id));
    let result = match handle(runtime, id)?.result().await {
        Ok(output) => Ok(output),
        Err(Error::Failed(failure)) => {
            if failure.kind == FailureKind::DeadlineExceeded {
                ledger::with(|ledger| ledger.ran_out_of_time(id));
            }
            Err(failure.message.clone())
        }
        Err(error) => return refused(id, since, error),
    };
    ledger::with(|ledger| {
        if ledger.renewals(id) == since {
            ledger.saw_end(id, &result);
        }
    });
    Ok(())
}

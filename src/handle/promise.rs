//! `runtime.resolve` and `runtime.reject`: the outside world decides a promise.

use std::sync::Arc;

use serde::Serialize;

use crate::actor::Shared;
use crate::engine::{PromiseToken, rejected, resolved};
use crate::handle::send::Delivered;
use crate::handle::{Error, Result, Sent, look, send};
use crate::storage;
use crate::storage::record::{self, Decided};

/// Keeps a promise with a value.
pub(crate) async fn resolve<T: Serialize>(shared: &Arc<Shared>, token: &str, value: &T) -> Result<Sent> {
    let payload = shared.store.codecs().pack(value).map_err(storage::Error::from)?;
    settle(shared, token, resolved(payload)).await
}

/// Breaks a promise with a reason.
pub(crate) async fn reject(shared: &Arc<Shared>, token: &str, reason: &str) -> Result<Sent> {
    settle(shared, token, rejected(reason)).await
}

async fn settle(shared: &Arc<Shared>, token: &str, decided: Decided) -> Result<Sent> {
    let token: PromiseToken = token.parse()?;
    let seen = look::existing(shared, token.instance())?;
    token.verify(seen.origin.secret)?;
    let message = token.settle(decided, shared.clock.now_ms());
    match send::deliver(shared, token.instance(), &message).await? {
        Delivered::Before(arrival) if arrival == record::Seen::TOO_LATE.arrival() => {
            Err(Error::TooLate(token.instance().clone()))
        }
        delivered => Ok(delivered.into()),
    }
}

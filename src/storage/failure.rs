//! Why a store acknowledges nothing any more, and who wants to hear of it.

use std::sync::OnceLock;

use tokio::sync::Notify;

use crate::storage::error::Error;

/// Empty for as long as the store works.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    error: OnceLock<Error>,
    told: Notify,
}

impl Failure {
    pub(crate) fn get(&self) -> Option<&Error> {
        self.error.get()
    }

    /// The store has failed, and the first reason stays.
    pub(crate) fn set(&self, error: Error) -> &Error {
        let first = self.error.get_or_init(|| error);
        self.told.notify_waiters();
        first
    }

    /// Waits until the store has failed, which most never do.
    pub(crate) async fn told(&self) {
        while self.get().is_none() {
            let mut told = std::pin::pin!(self.told.notified());
            // Looked at once more when it can't be missed any longer.
            told.as_mut().enable();
            if self.get().is_none() {
                told.await;
            }
        }
    }
}

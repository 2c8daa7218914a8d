//! Why a pump stopped, and what is written down of it.

use crate::actor::hold::{self, Held};
use crate::actor::shared::Shared;
use crate::actor::supervisor::Blame;
use crate::engine::Divergence;
use crate::storage::record::Status;
use crate::storage::{Activation, Error};

/// Why a pump stopped.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error(transparent)]
    Storage(#[from] Error),
    #[error(transparent)]
    Divergence(#[from] Divergence),
    #[error("this process does not know workflow `{0}`")]
    UnknownWorkflow(String),
    #[error("this process knows workflow `{workflow}` up to version {known}, and the instance is of version {version}")]
    UnknownVersion { workflow: String, version: u32, known: u32 },
    #[error("its function panicked: {0}")]
    Panicked(String),
    #[error("somebody else needs the instance")]
    Asked,
    #[error("it has nothing to do")]
    Idle,
}

impl Stopped {
    /// A commit that no store would take is the instance's own; that a store can't be reached is not.
    pub(super) fn blame(&self) -> Blame {
        match self {
            Self::Storage(Error::TooLarge { .. } | Error::Refused(_)) => Blame::Instance,
            Self::Storage(_) => Blame::Store,
            Self::Divergence(_) | Self::Panicked(_) | Self::Asked | Self::Idle => Blame::Instance,
            Self::UnknownWorkflow(_) | Self::UnknownVersion { .. } => Blame::Instance,
        }
    }
}

/// Writes down why an instance can't go on, if that is something to write down.
pub(super) async fn settle(
    shared: &Shared,
    activation: &Activation,
    stopped: Result<(), Stopped>,
) -> Result<(), Stopped> {
    let (status, reason, report) = match stopped {
        Ok(()) | Err(Stopped::Idle) => return Ok(()),
        Err(Stopped::Divergence(divergence)) => {
            let report = shared.store.codecs().pack(&divergence).ok();
            (Status::Stuck, divergence.to_string(), report)
        }
        Err(unknown @ (Stopped::UnknownWorkflow(_) | Stopped::UnknownVersion { .. })) => {
            (Status::Parked, unknown.to_string(), None)
        }
        // What can't be read concerns this instance alone.
        Err(Stopped::Storage(error @ (Error::Corrupt(_) | Error::Decode { .. } | Error::InvalidKey(_)))) => {
            tracing::error!(instance = %activation.instance(), %error, code = error.code(), "an instance is damaged");
            (Status::Stuck, error.to_string(), None)
        }
        Err(stopped) => return Err(stopped),
    };
    let held = Held { status, reason, report };
    Ok(hold::put_aside(shared, activation, &held).await?)
}

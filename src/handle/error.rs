//! What a call on the runtime or on a handle can fail with.

use crate::ids::{InstanceId, InvalidId};
use crate::storage;
use crate::storage::record::Failure;

/// What a call returns.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused or failed.
    #[error(transparent)]
    Storage(#[from] storage::Error),
    /// The text is not an id.
    #[error(transparent)]
    InvalidId(#[from] InvalidId),
    /// There is no such instance.
    #[error("there is no instance `{0}`")]
    Unknown(InstanceId),
    /// The instance ended with an error.
    #[error("the instance failed: {}", .0.message)]
    Failed(Failure),
    /// A part of the runtime did not start.
    #[error("the runtime could not be started: {0}")]
    Start(String),
}

impl Error {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Storage(error) => error.code(),
            Self::InvalidId(error) => error.code(),
            Self::Unknown(_) => "ES0401",
            Self::Failed(_) => "ES0402",
            Self::Start(_) => "ES0403",
        }
    }
}

//! When a committer that is a task makes its groups (feature `testing`).

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

/// What a committer that is a task waits for before each group: the time that a simulated disk takes.
#[derive(Clone)]
pub struct Pace(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>);

impl Pace {
    /// Waits for what this gives, which is asked before each group.
    pub fn new(wait: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(wait))
    }

    pub(crate) fn before_group(&self) -> BoxFuture<'static, ()> {
        (self.0)()
    }
}

impl Default for Pace {
    /// Waits for nothing.
    fn default() -> Self {
        Self::new(|| Box::pin(std::future::ready(())))
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pace").finish_non_exhaustive()
    }
}

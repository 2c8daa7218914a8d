//! What a workflow function holds: its way to ask for things. Each verb has a file of its own under `verbs`.

use std::fmt;
use std::marker::PhantomData;

use crate::engine::scope::Scope;
use crate::ids::InstanceId;

/// The context of a running workflow. Everything durable goes through it.
///
/// It is cheap to clone, and belongs to the function that was called with it: used in a step or in another task it
/// answers with an error.
pub struct Ctx<W> {
    scope: Scope,
    workflow: PhantomData<fn() -> W>,
}

impl<W> Ctx<W> {
    pub(crate) fn new(scope: Scope) -> Self {
        Self {
            scope,
            workflow: PhantomData,
        }
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The id of this instance.
    pub fn id(&self) -> &InstanceId {
        &self.scope.facts().instance
    }

    /// Which run of the instance this is, from one.
    pub fn run_number(&self) -> u32 {
        self.scope.facts().run
    }
}

impl<W> Clone for Ctx<W> {
    fn clone(&self) -> Self {
        Self::new(self.scope.clone())
    }
}

impl<W> fmt::Debug for Ctx<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("instance", self.id())
            .finish_non_exhaustive()
    }
}

//! Which activation of an instance may commit.
//!
//! An instance is brought into memory and dropped again many times while a process lives, and tasks of an earlier
//! activation may still be running when the next one begins. Every commit of an actor carries its activation, and
//! the committer refuses one that is over. The table lives in memory: a restart begins a new epoch, which outdates
//! all of them at once.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

use crate::ids::InstanceId;

/// The right to commit for an instance, until the next activation or the end of this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    instance: InstanceId,
    token: u64,
}

impl Activation {
    /// Whose activation it is.
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }
}

/// The current activation of every resident instance.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    current: DashMap<InstanceId, u64>,
    tokens: AtomicU64,
}

impl Activations {
    /// Begins an activation. One that was current until now is over.
    pub(crate) fn begin(&self, instance: &InstanceId) -> Activation {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        self.current.insert(instance.clone(), token);
        Activation {
            instance: instance.clone(),
            token,
        }
    }

    /// Ends an activation, if it is still the current one.
    pub(crate) fn end(&self, activation: &Activation) {
        self.current
            .remove_if(&activation.instance, |_, token| *token == activation.token);
    }

    /// Whether an activation is the current one.
    pub(crate) fn is_current(&self, activation: &Activation) -> bool {
        self.current
            .get(&activation.instance)
            .is_some_and(|token| *token == activation.token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_activation_is_the_current_one() {
        let activations = Activations::default();
        let instance = InstanceId::new("a").unwrap();
        let first = activations.begin(&instance);
        assert!(activations.is_current(&first));
        let second = activations.begin(&instance);
        assert!(!activations.is_current(&first));
        activations.end(&first);
        assert!(activations.is_current(&second), "an old one can't end a newer one");
        activations.end(&second);
        assert!(!activations.is_current(&second));
    }
}

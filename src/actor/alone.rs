//! Having an instance alone.
//!
//! Whoever writes the rows of an instance itself (an operator, the supervisor) must not do so beside its actor. A resident
//! is asked to leave, and none begins until what there is to do is done.
//!
//! Whoever goes away before the resident has let go has changed nothing. From then on they are expected: what they wanted
//! is done without them, since nobody else would wake the instance again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::actor::lasting::{Errand, Lasting};
use crate::actor::shared::Shared;
use crate::actor::signal::Signal;
use crate::ids::InstanceId;
use crate::storage::Activation;

/// Does something with an instance that nobody else has meanwhile. `act` is given an activation, and its commits have to
/// carry it. Afterwards the instance is woken: it may have something else to do now.
pub(crate) fn exclusively<A, F>(shared: &Arc<Shared>, instance: &InstanceId, act: A) -> Lasting<Alone<A, F>>
where
    A: FnOnce(Activation) -> F + Send + 'static,
    F: Future<Output: Send> + Send + 'static,
{
    let stage = Stage::Before(Some(act));
    let instance = instance.clone();
    Lasting::new(shared, Alone { instance, stage })
}

/// Somebody who wants to have an instance alone.
pub(crate) struct Alone<A, F> {
    instance: InstanceId,
    stage: Stage<A, F>,
}

/// How far they are.
enum Stage<A, F> {
    /// They have not asked.
    Before(Option<A>),
    /// They wait until whoever has it is gone.
    Waits(Option<A>, Arc<Signal>, Pin<Box<dyn Future<Output = ()> + Send>>),
    /// They have it. It is given back when what they do is done.
    Acts { acting: Pin<Box<F>>, _hold: Hold },
    /// It is done.
    Over,
}

impl<A, F> Errand for Alone<A, F>
where
    A: FnOnce(Activation) -> F + Send + 'static,
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(&mut self, shared: &Arc<Shared>, context: &mut Context<'_>) -> Poll<F::Output> {
        loop {
            let act = match &mut self.stage {
                Stage::Before(act) => act.take(),
                Stage::Waits(act, _, gone) => {
                    ready!(gone.as_mut().poll(context));
                    act.take()
                }
                Stage::Acts { acting, .. } => {
                    let output = ready!(acting.as_mut().poll(context));
                    self.stage = Stage::Over;
                    return Poll::Ready(output);
                }
                Stage::Over => None,
            };
            let act = act.expect("it is done once");
            self.stage = match shared.directory.take(&self.instance) {
                Ok(signal) => {
                    let hold = Hold::new(shared, &self.instance, signal);
                    Stage::Acts {
                        acting: Box::pin(act(hold.activation.clone())),
                        _hold: hold,
                    }
                }
                Err(signal) => {
                    let leaving = Arc::clone(&signal);
                    Stage::Waits(Some(act), signal, Box::pin(async move { leaving.gone().await }))
                }
            };
        }
    }

    fn goes_on(&mut self) -> bool {
        match &self.stage {
            Stage::Before(_) | Stage::Over => false,
            Stage::Waits(_, signal, _) => !signal.want_no_more(),
            Stage::Acts { .. } => true,
        }
    }
}

/// An instance that somebody has alone. Given back when dropped.
struct Hold {
    shared: Arc<Shared>,
    activation: Activation,
    signal: Arc<Signal>,
}

impl Hold {
    fn new(shared: &Arc<Shared>, instance: &InstanceId, signal: Arc<Signal>) -> Self {
        let activation = shared.store.activate(instance);
        let shared = Arc::clone(shared);
        Self {
            shared,
            activation,
            signal,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.store.deactivate(&self.activation);
        let (directory, instance) = (&self.shared.directory, self.activation.instance());
        let wanted = self.signal.lets_go();
        directory.leave(instance, &self.signal);
        // Whoever is next wakes it: it would only have to leave again.
        if !wanted {
            directory.wake(instance);
        }
    }
}

//! Children: starting them, and closing those that nobody waits for any more.

use crate::clock::Millis;
use crate::engine::derived;
use crate::engine::error::Misuse;
use crate::engine::execution::Execution;
use crate::engine::farewell::Farewell;
use crate::engine::request::{ChildRequest, OutsideRequest, Until};
use crate::limits::{CHILDREN_OPEN_MAX, CLOSED_AT_ONCE_MAX};
use crate::location::Location;
use crate::storage::record::{
    ChildState, ClosePolicy, Decided, EntryKind, Failure, FailureKind, Flow, InvalidGate, Origin, Parcel, Parent, Reach,
};

impl Execution {
    /// Begins a child, in the commit that records it. One that is recorded was started before.
    pub(crate) fn begin_child(&mut self, location: Location, request: ChildRequest, now: Millis) {
        let ChildRequest {
            state,
            version,
            input,
            manner,
            ..
        } = request;
        let (instance, awaited) = (state.instance.clone(), state.awaited);
        if let Some(refused) = self
            .refuses_child(&state, &manner.flow)
            .filter(|_| !self.is_recorded(&location))
        {
            let decided = Some(Decided::Failed(refused));
            self.finished
                .push((location, EntryKind::Child(ChildState { decided, ..state })));
            return;
        }
        let secret = derived::secret(self.origin.secret, self.state.run, &location);
        let mut origin = Origin::new(state.workflow.as_str(), version, now, secret);
        origin.tags = manner.tags;
        origin.deadline_at_ms = manner.deadline.map(|deadline| Until::After(deadline).at_ms(now));
        let (kind, until) = (EntryKind::Child(state), None);
        let entry = if awaited {
            self.begin_outside(location, OutsideRequest { kind, until }, now)
        } else {
            self.journal.lock().record(&location, kind.clone(), None);
            let entry = self.journal.lock().entries[&location].id;
            self.finished.push((location, kind));
            Some(entry)
        };
        let Some(entry) = entry else { return };
        origin.parent = Some(Parent {
            instance: self.namespace.instance().to_string(),
            run: self.state.run,
            entry,
            awaited: awaited || manner.tells_its_end,
        });
        let bytes = input.bytes.len();
        self.outbox
            .put(instance, bytes, Parcel::start(origin, input, *manner.flow));
    }

    /// Why a child is not begun: there are too many, or it would wait for ever for the one who waits for it.
    fn refuses_child(&self, child: &ChildState, flow: &Flow) -> Option<Failure> {
        if self.undecided.len() >= CHILDREN_OPEN_MAX {
            let message = format!("an instance has at most {CHILDREN_OPEN_MAX} children at a time");
            return Some(Failure::new(FailureKind::Limit, message));
        }
        // One that is abandoned goes on when its parent has left.
        let waited_for = child.awaited && child.close != ClosePolicy::Abandon;
        let gate = flow.gate.as_ref().filter(|gate| waited_for && gate.limit == 1)?;
        let own = self.gate.as_ref() == Some(&gate.key);
        own.then(|| Misuse::from(InvalidGate::Own(gate.key.clone())).into())
    }

    pub(super) fn is_recorded(&self, location: &Location) -> bool {
        self.journal.lock().entries.contains_key(location)
    }

    /// Closes the next children that the code has let go of.
    pub(crate) fn close_children(&mut self, now: Millis) {
        let closing = self.journal.lock().close_next(CLOSED_AT_ONCE_MAX);
        self.close(&closing, now);
    }

    /// The run is over: whatever children it has left are closed, all of them in the commit that ends it.
    pub(crate) fn close_all_children(&mut self, now: Millis) {
        let closing = self.journal.lock().close_all();
        self.close(&closing, now);
    }

    /// The instance ends: its parent is told how, and its children are closed.
    pub(crate) fn say_farewell(&mut self, decided: &Decided, reach: Reach, now: Millis) {
        let told = self.farewell(now).to_parent(decided, reach);
        self.outbox.extend(told);
        self.close_all_children(now);
    }

    fn close(&mut self, closing: &[(Location, ChildState)], now: Millis) {
        if closing.is_empty() {
            return;
        }
        let ended = self
            .journal
            .lock()
            .ended
            .as_ref()
            .map(|failure| failure.message.clone());
        let reason = ended.unwrap_or_else(|| "nobody waits for it any more".to_owned());
        let children = closing.iter().map(|(location, child)| (location, child));
        let told = self.farewell(now).to_children(children, &reason);
        self.outbox.extend(told);
    }

    pub(super) fn farewell(&self, now: Millis) -> Farewell<'_> {
        Farewell {
            instance: self.namespace.instance(),
            origin: &self.origin,
            run: self.state.run,
            now,
        }
    }
}

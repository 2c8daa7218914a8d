//! Where history and code do not match.

use crate::engine::divergence::Divergence;
use crate::engine::journal::{Journal, is_given_up};
use crate::engine::request::Request;
use crate::engine::witness::CallSite;
use crate::location::Location;
use crate::storage::record::EntryKind;

impl Journal {
    /// The code came to its end, or to where nothing more is recorded: whatever it did not ask for was for other code.
    pub(crate) fn expect_nothing_unasked(&mut self, ended: bool) {
        self.pass_over_gates(u64::MAX);
        if self.unasked == 0 {
            return;
        }
        let unknown = |location: &&Location| self.entries.contains_key(*location) && !self.is_known(location);
        let first = self.undelivered.iter().find(unknown).cloned();
        match first.or_else(|| self.first_unasked()) {
            Some(left_over) if ended => self.diverge(&left_over, "end"),
            Some(left_over) => self.diverge_unasked(&left_over),
            None => {}
        }
    }

    /// The code rests, and waits for what it has asked for. History may say that it did so no more at this place: that a
    /// child was closed, or that a topic was told. Then it would wait for ever.
    pub(crate) fn expect_nothing_given_up(&mut self) {
        let given_up = |(at, request): &&(Location, Request)| match (request, self.entries.get(at)) {
            (Request::Event(..), Some(entry)) => entry.completed.is_none() && is_given_up(&entry.kind),
            (Request::Child(_), Some(entry)) => matches!(&entry.kind, EntryKind::Child(child) if child.closed),
            _ => false,
        };
        let waits = |(_, request): &&(Location, Request)| matches!(request, Request::Event(..) | Request::Child(_));
        let found = self.fresh.iter().filter(waits).find(given_up);
        if let Some((at, kind)) = found.map(|(at, request)| (at.clone(), request.kind())) {
            self.diverge(&at, &format!("{kind} that it waits for"));
        }
    }

    /// The first recorded entry that the code never asked for.
    fn first_unasked(&self) -> Option<Location> {
        self.entries.keys().find(|location| !self.is_known(location)).cloned()
    }

    /// Notes the first mismatch between history and code.
    pub(crate) fn diverge(&mut self, location: &Location, asked: &str) {
        let call_site = self.ops.get(location).map(|op| op.call_site);
        self.diverge_at(location, asked, call_site);
    }

    pub(super) fn diverge_at(&mut self, location: &Location, asked: &str, call_site: Option<CallSite>) {
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, Some(asked.to_owned()), call_site));
        }
    }

    /// Nobody asked for what is recorded here. What was asked for and is not recorded probably stands in its place.
    pub(super) fn diverge_unasked(&mut self, location: &Location) {
        let unrecorded = self.fresh.iter().find(|(at, _)| !self.entries.contains_key(at));
        let instead = unrecorded.map(|(at, request)| format!("{} `{}`", request.kind(), self.names.path(at)));
        let call_site = unrecorded.and_then(|(at, _)| self.ops.get(at)).map(|op| op.call_site);
        if self.divergence.is_none() {
            self.divergence = Some(Divergence::at(self, location, instead, call_site));
        }
    }
}

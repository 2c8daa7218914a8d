//! The mocks that a test counts on: one that stands in for nothing is a mistake in the test.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::calls::Calls;
use crate::engine::CallSite;

/// Shared by a harness and all that were made of it. With the last of them it looks whether every mock was used.
#[derive(Debug, Default)]
pub(super) struct Expected(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    /// Where each was set.
    mocks: BTreeMap<String, CallSite>,
    used: BTreeSet<String>,
    /// What was called, for a report.
    called: BTreeSet<String>,
}

impl Expected {
    pub(super) fn expect(&self, name: &str, call_site: CallSite) {
        self.0.borrow_mut().mocks.insert(name.to_owned(), call_site);
    }

    pub(super) fn forget(&self, name: &str) {
        self.0.borrow_mut().mocks.remove(name);
    }

    /// One of the harnesses has ended.
    pub(super) fn learn(&self, calls: &Calls) {
        let mut state = self.0.borrow_mut();
        state.used.extend(calls.used());
        let all = calls.all().into_iter();
        state.called.extend(all.map(|call| call.activity.unwrap_or(call.path)));
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        // A test that fails anyhow says why.
        if std::thread::panicking() {
            return;
        }
        let State { mocks, used, called } = &*self.0.borrow();
        if let Some((name, call_site)) = mocks.iter().find(|(name, _)| !used.contains(*name)) {
            panic!(
                "the mock `{name}`, set at {call_site}, stood in for nothing; what was called: {called:?}\n\
                 Is the name right? One that a test can do without is set with `mocking`."
            );
        }
    }
}

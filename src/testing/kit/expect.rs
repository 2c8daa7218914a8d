//! What a test expects, with a report of what there is if it is not so.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::calls::goes_by;
use super::text::or_panic;
use super::{Call, Handle, Harness, instances, text};
use crate::engine::Workflow;
use crate::storage::payload::{Codecs, Payload};
use crate::storage::record::{Decided, EntryKind, Status};

impl Harness {
    /// The calls of an activity, or of a step by its name or its path, in their order. Every attempt is one.
    pub fn calls(&self, name: &str) -> Vec<Call> {
        self.inner.calls.named(name)
    }

    /// All calls, whatever was called, in their order.
    pub fn all_calls(&self) -> Vec<Call> {
        self.inner.calls.all()
    }

    /// What was called at all, and where everyone stands, for a report: what was not called may have been in the way of a
    /// failure.
    fn called(&self) -> String {
        let all = self.all_calls();
        let lines: String = all.iter().map(|call| format!("\n  {call}")).collect();
        let called = if all.is_empty() {
            "nothing was called"
        } else {
            "what was called:"
        };
        format!("{called}{lines}\n{}", self.report())
    }

    /// Expects so many calls: attempts at an activity, or at a step by its name or its path.
    #[track_caller]
    pub fn assert_called(&self, name: &str, times: usize) {
        let found = self.calls(name).len();
        assert!(
            found == times,
            "`{name}` was called {found} times, expected {times}\n{}",
            self.called()
        );
        if times == 0 {
            // A mock of this name is there to see that nobody needs it.
            self.inner.expected.forget(name);
        }
    }

    /// Expects that nobody called it.
    #[track_caller]
    pub fn assert_not_called(&self, name: &str) {
        self.assert_called(name, 0);
    }

    /// Expects that so many calls are complete: activities, or steps by their name or path, whose results are in the
    /// histories of all instances as they are now. However often an attempt was made again, it is one; so this holds in
    /// [`crash_everywhere`](Harness::crash_everywhere), where [`assert_called`](Harness::assert_called) does not. What a
    /// loop has trimmed from its history, and what an earlier run has left behind, is not counted.
    ///
    /// ```
    /// # use everstep::testing::{Harness, Mock};
    /// # use everstep::{Ctx, Result, Runtime, activity, ok, workflow};
    /// #[activity]
    /// async fn charge(amount: u32) -> Result<u32> {
    ///     ok(amount)
    /// }
    ///
    /// #[workflow]
    /// async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<u32> {
    ///     ok(ctx.run(charge, amount).await?)
    /// }
    ///
    /// let harness = Harness::new(Runtime::builder().workflow(payment));
    /// harness.crash_everywhere(|harness| {
    ///     harness.start(payment, 20).output();
    ///     harness.assert_completed("charge", 1);
    /// });
    /// ```
    #[track_caller]
    pub fn assert_completed(&self, name: &str, times: usize) {
        let found = self.completed(name);
        assert!(
            found == times,
            "`{name}` was completed {found} times, expected {times}\n{}",
            self.report()
        );
    }

    fn completed(&self, name: &str) -> usize {
        self.living(|life| {
            life.run(async {
                let mut completed = 0;
                for id in instances(life.runtime().store()) {
                    let any = life.runtime().instance(&id).expect("the id of an instance is one");
                    for entry in any.history().await.expect("an instance can be read").entries {
                        let done = matches!(
                            entry.kind,
                            EntryKind::Step(Some(Decided::Completed(_)))
                                | EntryKind::Rollback(Some(Decided::Completed(_)))
                        );
                        let activity = self.inner.calls.activity_at(&id, &entry.path);
                        completed += usize::from(done && goes_by(name, &entry.path, activity.as_deref()));
                    }
                }
                completed
            })
        })
    }

    /// Expects a call of an activity with this input.
    #[track_caller]
    pub fn assert_called_with(&self, name: &str, input: &impl Serialize) {
        let expected = packed(input);
        let calls = self.calls(name);
        assert!(
            calls.iter().any(|call| call.raw_input() == Some(&expected)),
            "`{name}` was not called with {}\n{}",
            text::payload(&Codecs::plain(), &expected),
            self.called()
        );
    }
}

impl<W: Workflow> Handle<W> {
    /// Expects that the instance is there in its life.
    #[track_caller]
    pub fn assert_status(&self, status: Status) {
        let found = self.status();
        assert!(
            found == status,
            "`{}` is {found}, expected {status}\n{}",
            self.id(),
            self.report()
        );
    }

    /// Expects that the instance waits at a place: for a message or an event by its name, for a sleep, a child or a
    /// promise by its path.
    #[track_caller]
    pub fn assert_waits_for(&self, name: &str) {
        let waits = self.waits();
        let waits = waits.iter().any(|wait| is_at(&wait.path, name));
        assert!(waits, "`{}` does not wait for `{name}`\n{}", self.id(), self.report());
    }

    /// Expects that these operations are complete, in this order, and no others: by their paths.
    ///
    /// ```
    /// # use everstep::testing::Harness;
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn order(ctx: Ctx<Order>) -> Result<u32> {
    ///     let price = ctx.step("price", || async { ok(20) }).await?;
    ///     ctx.sleep("cooling off", "1d").await?;
    ///     ok(ctx.step("charge", move || async move { ok(price) }).await?)
    /// }
    /// let harness = Harness::new(Runtime::builder().workflow(order));
    /// let order = harness.start(order, ());
    /// order.assert_history(&["price"]);
    /// order.assert_waits_for("cooling off");
    /// harness.advance("1d");
    /// order.assert_history(&["price", "cooling off", "charge"]);
    /// assert_eq!(order.step_result::<u32>("charge"), 20);
    /// ```
    #[track_caller]
    pub fn assert_history(&self, paths: &[&str]) {
        let history = self.history();
        let complete = history.entries.iter().filter(|entry| entry.completed.is_some());
        let found: Vec<&str> = complete.map(|entry| entry.path.as_str()).collect();
        assert!(
            found == paths,
            "`{}` has not done what was expected\nexpected: {paths:?}\n   found: {found:?}\n{}",
            self.id(),
            self.report()
        );
    }

    /// What a step returned, by its path.
    ///
    /// # Panics
    ///
    /// If it did not return, or returned something else.
    #[track_caller]
    pub fn step_result<T: DeserializeOwned>(&self, path: &str) -> T {
        let history = self.history();
        let Some(entry) = history.at(path) else {
            panic!("`{}` has no step `{path}`\n{}", self.id(), self.report());
        };
        let EntryKind::Step(Some(Decided::Completed(payload))) = &entry.kind else {
            panic!("`{path}` of `{}` has no result\n{}", self.id(), self.report());
        };
        let codecs = self.codecs();
        let unpacked = codecs.unpack(payload);
        or_panic(unpacked, |error| {
            format!("`{path}` returned {}: {error}", text::payload(codecs, payload))
        })
    }
}

/// Whether an operation is the one that is meant: by its path, or by its name if it is numbered.
fn is_at(path: &str, name: &str) -> bool {
    let unnumbered = path.rsplit_once('~').map_or(path, |(before, _)| before);
    let ends = |text: &str| text == name || text.strip_suffix(name).is_some_and(|before| before.ends_with('/'));
    ends(path) || ends(unnumbered)
}

fn packed(value: &impl Serialize) -> Payload {
    let packed = Codecs::plain().pack(value);
    packed.expect("what is expected can be stored")
}

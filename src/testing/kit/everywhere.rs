//! A crash at every commit.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::disk::Death;
use super::{Harness, Mode, instances, text};
use crate::engine::panic_text;

/// What is on disk in the end, but for when and under which number: by instance and path.
type Recorded = BTreeMap<(String, String), String>;

impl Harness {
    /// Plays a script once, to count the commits; then twice for each of them, with a crash of the process right before
    /// and right after it became durable. What the script returns, and what is recorded in the end, must be the same.
    ///
    /// The script gets a harness at its beginning, with the mocks of this one. Calls that the process dies of are made
    /// again with the next one, under the same ids, as a careful caller does, and give the answer that the first one
    /// would have given.
    ///
    /// A script with twice as many commits is played twice as often and takes twice as long each time: four times the work.
    /// Keep scripts short, and write several of them rather than a long one.
    ///
    /// ```
    /// # use everstep::testing::{Harness, Mock};
    /// # use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
    /// # #[derive(Message, serde::Serialize, serde::Deserialize)] struct Approval { by: String }
    /// #[workflow(accepts(Approval))]
    /// async fn order(ctx: Ctx<Order>, amount: u32) -> Result<String> {
    ///     let total = ctx.step("price", move || async move { ok(amount * 2) }).await?;
    ///     let by = ctx.receive::<Approval>().timeout("7d").await?.by;
    ///     ok(format!("{total} approved by {by}"))
    /// }
    /// let harness = Harness::new(Runtime::builder().workflow(order));
    /// let result = harness.crash_everywhere(|harness| {
    ///     let order = harness.start(order, 21);
    ///     order.send(Approval { by: "kim".into() });
    ///     order.run_until_complete()
    /// });
    /// assert_eq!(result.unwrap(), "42 approved by kim");
    /// ```
    ///
    /// # Panics
    ///
    /// If a crash makes a difference, with the crash and the difference.
    #[track_caller]
    pub fn crash_everywhere<T: PartialEq + Debug>(&self, script: impl Fn(&Self) -> T) -> T {
        let whole = self.afresh(Mode::Plain);
        drop(whole.life());
        let opened = whole.inner.disk.borrow().commits();
        let expected = script(&whole);
        let recorded = whole.recorded();
        let commits = whole.inner.disk.borrow().commits();
        for number in opened + 1..=commits {
            for death in [Death::Before(number), Death::After(number)] {
                let harness = self.afresh(Mode::Dies(death));
                let found = catch_unwind(AssertUnwindSafe(|| (script(&harness), harness.recorded())));
                let (found, found_recorded) = match found {
                    Ok(found) => found,
                    Err(panic) => panic!("{death}: the script panicked: {}", panic_text(&*panic)),
                };
                assert!(
                    found == expected,
                    "{death} made a difference\nexpected: {expected:?}\n   found: {found:?}\n{}",
                    harness.report()
                );
                if let Some(difference) = difference(&recorded, &found_recorded) {
                    panic!("{death} made a difference\n{difference}\n{}", harness.report());
                }
            }
        }
        expected
    }

    fn recorded(&self) -> Recorded {
        self.living(|life| {
            life.run(async {
                let mut recorded = Recorded::new();
                let codecs = life.runtime().store().codecs();
                for id in instances(life.runtime().store()) {
                    let any = life.runtime().instance(&id).expect("the id of an instance is one");
                    let status = any.status().await.expect("an instance can be read").status;
                    recorded.insert((id.clone(), String::new()), status.to_string());
                    for entry in any.history().await.expect("an instance can be read").entries {
                        if entry.completed.is_some() {
                            let outcome = text::outcome(codecs, &entry.kind).unwrap_or_default();
                            let outcome = format!("{} {outcome}", entry.kind.name());
                            recorded.insert((id.clone(), entry.path), outcome);
                        }
                    }
                }
                recorded
            })
        })
    }
}

/// The first thing that is recorded in one and not in the other, or not in the same way.
fn difference(expected: &Recorded, found: &Recorded) -> Option<String> {
    let nothing = "nothing".to_owned();
    let places = expected.keys().chain(found.keys());
    let mut differing = places.filter(|place| expected.get(*place) != found.get(*place));
    let place @ (instance, path) = differing.next()?;
    let (expected, found) = (expected.get(place), found.get(place));
    let (expected, found) = (expected.unwrap_or(&nothing), found.unwrap_or(&nothing));
    Some(format!(
        "recorded at `{path}` of {instance}\nexpected: {expected}\n   found: {found}"
    ))
}

//! Testing a workflow: a week passes in no time, a bank is played, and the process dies wherever it can.
//!
//! The harness runs the real runtime, in virtual time, on a disk in memory. In a program of yours these functions are
//! `#[test]`s, and `app` is what `main` opens.
//!
//! Output:
//!
//! ```text
//! an approved request is paid at the third attempt: receipt 7, approved by kim
//! a forgotten request is over after 7 days: nobody approved
//! a crash before or after any commit makes no difference: receipt 7, approved by kim
//! run again, the code does the same: nobody approved
//! ```

use everstep::testing::{Harness, Mock};
use everstep::{Builder, Ctx, Message, Result, Runtime, activity, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval {
    by: String,
}

/// Stands for a call to a bank, which a test must not make.
#[activity(retries = 5, timeout = "30s")]
async fn charge(cents: u32) -> Result<String> {
    unreachable!("there is no bank in an example: {cents}")
}

#[workflow(accepts(Approval))]
async fn request(ctx: Ctx<Request>, cents: u32) -> Result<String> {
    let Some(approval) = ctx.receive::<Approval>().within("7d").await? else {
        return ok("nobody approved".to_owned());
    };
    let receipt = ctx.run(charge, cents).await?;
    ok(format!("{receipt}, approved by {}", approval.by))
}

fn app() -> Builder {
    Runtime::builder().workflow(request)
}

/// A bank that is down twice.
fn harness() -> Harness {
    Harness::new(app()).mocking("charge", Mock::fails("503").times(2).then_returns("receipt 7"))
}

fn approved(harness: &Harness) -> String {
    let request = harness.start(request, 2_000);
    harness.advance("3d");
    request.assert_waits_for("Approval");
    request.send(Approval { by: "kim".into() });
    request.output()
}

fn forgotten(harness: &Harness) -> String {
    harness.start(request, 2_000).output()
}

fn main() {
    let bank = harness();
    let result = approved(&bank);
    bank.assert_called("charge", 3);
    bank.assert_called_with("charge", &2_000_u32);
    println!("an approved request is paid at the third attempt: {result}");

    let bank = harness();
    let begun = bank.now();
    let result = forgotten(&bank);
    bank.assert_not_called("charge");
    let days = bank.now().duration_since(begun).unwrap_or_default().as_secs() / 86_400;
    println!("a forgotten request is over after {days} days: {result}");

    let result = harness().crash_everywhere(approved);
    println!("a crash before or after any commit makes no difference: {result}");

    let result = harness().double_run(forgotten);
    println!("run again, the code does the same: {result}");
}

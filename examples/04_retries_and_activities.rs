//! Steps that fail are tried again; an activity is a step with a name, options and a signature of its own.
//!
//! Every attempt at the same step has the same idempotency key. Hand it to whoever has the effect, and two attempts
//! have one effect.
//!
//! Output:
//!
//! ```text
//! attempt 1 at charging 20
//! attempt 2 at charging 20
//! attempt 3 at charging 20
//! paid 20, and every attempt had the same key: true
//! attempt 1 at charging 0
//! not paid: `charge` failed: nothing to charge
//! ```

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Mutex;

use everstep::{Attempt, Ctx, Result, Runtime, WorkflowError, activity, critical, ensure, ok, workflow};

/// The keys that the bank has seen.
static KEYS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Takes the money. The bank is down for the first two attempts.
#[activity(retries = 5, delay = "10ms", timeout = "30s")]
async fn charge(attempt: Attempt, amount: u32) -> Result<u32> {
    println!("attempt {} at charging {amount}", attempt.number());
    if amount == 0 {
        // Not worth another attempt.
        return Err(critical(WorkflowError::msg("nothing to charge")));
    }
    if let Ok(mut keys) = KEYS.lock() {
        keys.insert(attempt.idempotency_key().to_string());
    }
    ensure!(attempt.number() > 2, "the bank does not answer");
    ok(amount)
}

#[workflow]
async fn payment(ctx: Ctx<Payment>, amount: u32) -> Result<String> {
    let paid = ctx.run(charge, amount).await?;
    ok(format!("paid {paid}"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder()
        .workflow(payment)
        .activity(charge)
        .open("memory:")
        .await?;

    let paid = runtime.start(payment, 20).await?.result().await?;
    let keys = KEYS.lock().map_or(0, |keys| keys.len());
    println!("{paid}, and every attempt had the same key: {}", keys == 1);

    match runtime.start(payment, 0).await?.result().await {
        Ok(paid) => println!("{paid}"),
        Err(everstep::Error::Failed(failure)) => println!("not paid: {failure}"),
        Err(other) => return Err(other.into()),
    }
    Ok(())
}

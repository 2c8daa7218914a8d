//! The workflow that both benches of the engine run: a chain of steps that do nothing.

use everstep::testing::rig::{End, Plan, Rig};
use everstep::{Ctx, Result, Workflow, ok};

/// Lengths of histories that are compared: what a step costs must not depend on them.
const STEPS: [u32; 3] = [1_000, 10_000, 20_000 - 1];

/// The lengths to measure: those that the command line names, or the usual ones.
pub(crate) fn lengths() -> Vec<u32> {
    let asked: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if asked.is_empty() { STEPS.to_vec() } else { asked }
}

/// A chain of steps that do nothing.
pub(crate) struct Chain;

impl Workflow for Chain {
    const NAME: &'static str = "chain";
    type Input = u32;
    type Output = u64;

    async fn run(ctx: Ctx<Self>, steps: u32) -> Result<u64> {
        let mut sum = 0;
        for number in 0..steps {
            sum += ctx
                .step(&number.to_string(), move || async move { ok(u64::from(number)) })
                .await?;
        }
        super::at_the_end();
        ok(sum)
    }
}

/// A rig with a chain that was started and has not run.
pub(crate) fn started(steps: u32) -> Rig<Chain> {
    let mut rig = Rig::new(Plan::Live, 1);
    rig.start("chain", &steps);
    rig
}

/// What a chain of that length comes to.
pub(crate) fn end(steps: u32) -> End<u64> {
    End::Completed(u64::from(steps) * u64::from(steps - 1) / 2)
}

//! W1, W2 and the first half of W4: one thing after another.

use everstep::Config;
use everstep::storage::record::Status;

use super::super::problem::Outcome;
use super::figure::Figure;
use super::workflows::{self, Go};
use super::{Measuring, one_after_another, round};

/// Commits of a start and of an end.
const START_AND_END: f64 = 2.0;

/// W1.
pub(crate) fn three_steps(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w1", Config::default())?;
    let times = measuring.size.latencies;
    let turns = measuring.in_turns(1, |executor| {
        executor.block_on(one_after_another(times, || async {
            runtime.start(workflows::chain, 3).await?.result().await?;
            Ok(())
        }))
    })?;
    measuring.close("w1", runtime)?;
    Ok(vec![Figure::of(
        "W1",
        "3 steps, start to result",
        3.0 + START_AND_END,
        turns,
    )])
}

/// W2. An operation is a step.
pub(crate) fn chain(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w2", Config::default())?;
    let steps = measuring.size.steps;
    let turns = measuring.in_turns(1, |executor| {
        let chain = || async {
            runtime.start(workflows::chain, steps).await?.result().await?;
            Ok(())
        };
        let mut sample = executor.block_on(one_after_another(1, chain))?;
        sample.ops = u64::from(steps);
        sample.latencies.iter_mut().for_each(|took| *took /= steps);
        Ok(sample)
    })?;
    measuring.close("w2", runtime)?;
    let what = format!("a step of a chain of {steps}");
    Ok(vec![Figure::of("W2", what, 1.0, turns)])
}

/// W4, one message after another. An instance waits for each before the clock starts.
pub(crate) fn messages(measuring: &mut Measuring) -> Outcome<Vec<Figure>> {
    let runtime = measuring.open("w4", Config::default())?;
    let times = measuring.size.latencies;
    let turns = measuring.in_turns(1, |executor| {
        let mut waiting = Vec::new();
        executor.block_on(async {
            for _ in 0..times {
                let instance = runtime.start(workflows::waits, ()).await?.into_handle();
                instance.reached(|status| status == Status::Waiting).await?;
                waiting.push(instance);
            }
            Outcome::Ok(())
        })?;
        round::settle();
        executor.block_on(one_after_another(times, || {
            let instance = waiting.pop();
            async move {
                if let Some(instance) = instance {
                    instance.send(Go).await?;
                    instance.result().await?;
                }
                Ok(())
            }
        }))
    })?;
    measuring.close("w4", runtime)?;
    Ok(vec![Figure::of("W4", "a message to completion", 2.0, turns)])
}

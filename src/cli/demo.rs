//! `everstep demo`: orders that are reserved, approved, left to cool off, paid, packed and shipped, told as it happens.
//!
//! `order.rs` is the workflow, as one would write it; `teller.rs` puts lines on the screen; `before.rs` reads what an
//! earlier start left behind. Here is the program around them: it starts the orders, approves them, follows them.

mod before;
mod order;
mod teller;

use std::time::Duration;

use clap::Args;
use everstep::storage::record::Status;
use everstep::{Handle, Runtime};
use futures_util::future::try_join_all;

use super::problem::{Exit, Outcome, Problem};
use super::{Output, paint};
use before::Before;
use order::{Approval, Order, Request};
use teller::{Mark, tell};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  everstep demo
  everstep demo --instances 20 --seed 7
  everstep demo --fast --json | jq -r .what

Kill it while it runs and start it again: what was done is not done again. When
it is over:
  everstep list ./everstep-demo
  everstep show ./everstep-demo order-3")]
pub(crate) struct Demo {
    /// Where its store is
    #[arg(long, default_value = "./everstep-demo")]
    store: String,
    /// How many orders
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    instances: u32,
    /// Which items, prices and accidents
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Don't take time over anything
    #[arg(long)]
    fast: bool,
}

impl Demo {
    pub(crate) fn run(&self, output: &Output) -> Outcome {
        let before = Before::read(&self.store)?;
        teller::begin(output.json, self.instances);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let told = runtime.block_on(self.tell_it(&before));
        // Whatever is said next does not stand behind a bar.
        teller::end();
        told
    }

    async fn tell_it(&self, before: &Before) -> Outcome {
        let runtime = Runtime::builder().workflow(order::order).open(&self.store).await?;
        self.welcome(before);
        let ended = tokio::select! {
            ended = try_join_all((1..=self.instances).map(|number| self.follow(&runtime, before, number))) => Some(ended?),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                None
            }
        };
        tokio::select! {
            () = runtime.stop() => {}
            // Whoever asks twice does not wait for the grace. Nothing is lost by it.
            again = tokio::signal::ctrl_c() => again?,
        }
        teller::end();
        match ended {
            Some(ended) => {
                self.summary(before, &ended);
                Ok(())
            }
            None => {
                let again = format!("Stopped. Everything that was acknowledged is in {}.", self.store);
                teller::note(&format!(
                    "\n{again}\nStart the same command again: it carries on from here."
                ));
                Err(Problem::Silent(Exit::Interrupted))
            }
        }
    }

    fn welcome(&self, before: &Before) {
        let pid = std::process::id();
        teller::note(&format!(
            "{} orders in {}. Each is reserved, approved by a message, left to cool off, paid, packed and shipped; for \
             some the courier refuses, and what was done is undone.\n",
            self.instances, self.store
        ));
        if self.store.starts_with("memory:") {
            teller::note("A store in memory is gone with the process: without `--store memory:` it carries on.\n");
        } else if before.is_empty() {
            let kill = paint::strong(&format!("kill -9 {pid}"));
            teller::note(&format!(
                "Press Ctrl-C, or `{kill}` in another terminal, and start it again.\n"
            ));
        } else {
            let (orders, operations) = (before.orders(), before.operations());
            let found = format!("An earlier start left {orders} orders here, with {operations} operations done.");
            teller::note(&format!("{}\nThey are not done again.\n", paint::strong(&found)));
        }
    }

    /// Follows one order from its start to its end.
    async fn follow(&self, runtime: &Runtime, before: &Before, number: u32) -> Outcome<Status> {
        let id = format!("order-{number}");
        if before.of(&id).is_none() {
            self.pause(u64::from(number - 1) * 250).await;
        }
        let request = Request::of(number, self.seed, self.fast);
        let order = runtime.start(order::order, request).id(id).await?;
        if !order.existed() {
            tell(number, Mark::Begun, "started");
        } else if let Some(told) = before.of(order.id().as_str()) {
            tell(number, Mark::Before, told);
        }
        if number == 1 && order.input_differs() {
            teller::note(&format!(
                "The orders in {} were started with another --seed or --fast, and stay as they are. Remove it for new ones.\n",
                self.store
            ));
        }
        let mut last = order.reached(|_| true).await?;
        while !last.is_terminal() {
            match last {
                Status::Waiting => {
                    tell(number, Mark::Waits, "waits for an approval");
                    self.pause(600 + u64::from(number % 3) * 500).await;
                    approve(number, &order).await?;
                }
                Status::Sleeping => tell(number, Mark::Waits, "cools off"),
                Status::BackingOff => tell(number, Mark::Waits, "waits for the next attempt"),
                Status::Compensating => tell(number, Mark::Undoes, "undoes what it did"),
                _ => {}
            }
            last = order.reached(|status| status != last).await?;
        }
        teller::finished();
        // What ended in an earlier start was told then.
        if !before.had_ended(order.id().as_str()) {
            match order.result().await {
                Ok(receipt) => tell(number, Mark::Ended, &receipt),
                Err(everstep::Error::Failed(failure)) => tell(number, Mark::Undone, &format!("{last}: {failure}")),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(last)
    }

    fn summary(&self, before: &Before, ended: &[Status]) {
        let count = |status| ended.iter().filter(|end| **end == status).count();
        let (completed, compensated) = (count(Status::Completed), count(Status::Compensated));
        let others = ended.len() - completed - compensated;
        let others = if others > 0 {
            format!(", {others} ended otherwise")
        } else {
            String::new()
        };
        let (done, operations) = (teller::effects(), before.operations());
        let before = match operations {
            0 => String::new(),
            operations => format!("; {operations} operations were done by earlier starts and not again"),
        };
        let all = paint::strong(&format!("All {} orders have ended", ended.len()));
        teller::note(&format!(
            "\n{all}: {completed} completed, {compensated} compensated{others}.\n\
             This start made {done} attempts at steps{before}."
        ));
        if !self.store.starts_with("memory:") {
            // Whoever came through cargo has no program of that name yet.
            let cargo = std::env::var_os("CARGO").is_some();
            let (program, store) = (if cargo { "cargo run --" } else { "everstep" }, &self.store);
            let directory = store.split_once(':').map_or(store.as_str(), |(_, path)| path);
            teller::note(&format!(
                "\nLook around:\n  {program} list {store}\n  {program} show {store} order-{}\n\
                 Remove {directory} to begin anew.",
                ended.len().min(3)
            ));
        }
    }

    async fn pause(&self, millis: u64) {
        if !self.fast {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
    }
}

/// Approves an order, once: the message has an id, so one that was sent by an earlier start is a duplicate.
async fn approve(number: u32, order: &Handle<Order>) -> Outcome {
    let by = ["kim", "ada", "lin"][number as usize % 3];
    let approval = Approval { by: by.to_owned() };
    match order.send(approval).id(format!("approval-{number}")).await {
        Ok(everstep::Sent::Accepted) => tell(number, Mark::Told, &format!("{by} approves")),
        Ok(everstep::Sent::Duplicate) | Err(everstep::Error::Finished { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

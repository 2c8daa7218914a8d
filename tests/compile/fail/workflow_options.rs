//! Options of a workflow that can't be meant.

use everstep::{Ctx, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[workflow(accept(Approval))]
async fn unknown(_ctx: Ctx<Unknown>) -> Result<()> {
    ok(())
}

#[workflow(deadline = "soon")]
async fn no_time(_ctx: Ctx<NoTime>) -> Result<()> {
    ok(())
}

#[workflow(retries = 3)]
async fn retries_as_number(_ctx: Ctx<RetriesAsNumber>) -> Result<()> {
    ok(())
}

#[workflow(retries(times = 3))]
async fn retries_unknown(_ctx: Ctx<RetriesUnknown>) -> Result<()> {
    ok(())
}

#[workflow(strategy = "hope")]
async fn no_strategy(_ctx: Ctx<NoStrategy>) -> Result<()> {
    ok(())
}

#[workflow(name = "a", version = 2, name = "b")]
async fn twice(_ctx: Ctx<Twice>) -> Result<()> {
    ok(())
}

#[workflow(accepts(Approval, Approval))]
async fn accepts_twice(_ctx: Ctx<AcceptsTwice>) -> Result<()> {
    ok(())
}

#[workflow(accepts = Approval)]
async fn accepts_as_value(_ctx: Ctx<AcceptsAsValue>) -> Result<()> {
    ok(())
}

#[workflow(version = "2")]
async fn version_as_text(_ctx: Ctx<VersionAsText>) -> Result<()> {
    ok(())
}

#[workflow(version = 0)]
async fn version_zero(_ctx: Ctx<VersionZero>) -> Result<()> {
    ok(())
}

#[workflow(name = "")]
async fn nameless(_ctx: Ctx<Nameless>) -> Result<()> {
    ok(())
}

fn main() {}

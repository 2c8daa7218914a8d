//! Options of a workflow that can't be meant.

use everstep::{Ctx, Message, Result, ok, workflow};
use serde::{Deserialize, Serialize};

#[derive(Message, Serialize, Deserialize)]
struct Approval;

#[workflow(accept(Approval))]
async fn unknown(_ctx: Ctx<Unknown>) -> Result<()> {
    ok(())
}

#[workflow(deadline = "30d")]
async fn not_yet(_ctx: Ctx<NotYet>) -> Result<()> {
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

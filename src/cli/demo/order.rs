//! The workflow of the demo.

use std::time::Duration;

use everstep::{Attempt, Ctx, Message, Result, activity, ensure, ok, workflow};
use serde::{Deserialize, Serialize};

use super::teller::{Mark, effect, tell};

/// What an order is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    number: u32,
    items: Vec<String>,
    price: u32,
    /// Whether the bank does not answer the first time.
    bank_is_slow: bool,
    /// Whether the courier does not take it.
    courier_refuses: bool,
    /// How long each piece of work takes, and the cooling off.
    work_ms: u64,
    cooling_off_ms: u64,
}

const ITEMS: [&str; 8] = ["lamp", "desk", "chair", "clock", "kettle", "rug", "vase", "mirror"];

impl Request {
    /// What the order with this number asks for: the same for the same seed.
    pub(crate) fn of(number: u32, seed: u64, fast: bool) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(number);
        let mut draw = |below: u64| {
            // One round of splitmix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        let first = draw(8) as usize;
        let items = (0..2 + draw(3) as usize).map(|item| ITEMS[(first + item * 3) % 8].to_owned());
        Self {
            number,
            items: items.collect(),
            price: 20 + draw(180) as u32,
            bank_is_slow: number.is_multiple_of(2),
            courier_refuses: u64::from(number).wrapping_add(seed).is_multiple_of(3),
            work_ms: if fast { 0 } else { 300 + draw(300) },
            cooling_off_ms: if fast { 20 } else { 4_000 },
        }
    }
}

#[derive(Message, Serialize, Deserialize)]
pub(crate) struct Approval {
    pub(crate) by: String,
}

/// An order, from the reservation to the parcel.
#[workflow(name = "demo-order", accepts(Approval))]
pub(crate) async fn order(ctx: Ctx<Order>, request: Request) -> Result<String> {
    let Request {
        number, price, work_ms, ..
    } = request;
    let goods = request.clone();
    ctx.step("reserve", move || reserve(goods.clone()))
        .rollback(put_back)
        .await?;

    let approval = ctx.receive::<Approval>().timeout("7d").await?;
    ctx.sleep("cooling off", Duration::from_millis(request.cooling_off_ms))
        .await?;

    ctx.compensate("refund", request.clone(), refund);
    ctx.run(charge, request.clone()).await?;

    let packed = ctx
        .map(
            "pack",
            request.items.clone(),
            2,
            move |ctx: Ctx<Order>, item| async move {
                ok(ctx.step("wrap", move || wrap(number, item.clone(), work_ms)).await?)
            },
        )
        .await?;
    ctx.step("ship", move || ship(request.clone()))
        .retries(1)
        .delay("200ms")
        .await?;
    ok(format!(
        "{} items for {price} €, approved by {}",
        packed.len(),
        approval.by
    ))
}

/// Stands for a call to somebody else: it takes its time, and leaves a line.
async fn work(number: u32, millis: u64, what: &str) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
    effect();
    tell(number, Mark::Done, what);
}

async fn reserve(request: Request) -> Result<Request> {
    let what = format!("reserved {}", request.items.join(", "));
    work(request.number, request.work_ms, &what).await;
    ok(request)
}

async fn put_back(request: Request) -> Result<()> {
    tell(request.number, Mark::Undoes, "the goods are back on the shelf");
    effect();
    ok(())
}

/// Takes the money. Two attempts have the same idempotency key, so a real bank would take it once.
#[activity(retries = 4, delay = "400ms", timeout = "30s")]
async fn charge(attempt: Attempt, request: Request) -> Result<()> {
    if request.bank_is_slow && attempt.number() == 1 {
        tokio::time::sleep(Duration::from_millis(request.work_ms)).await;
        effect();
        tell(request.number, Mark::Failed, "the bank does not answer (attempt 1)");
        ensure!(false, "the bank does not answer");
    }
    let again = if attempt.number() > 1 {
        format!(" (attempt {})", attempt.number())
    } else {
        String::new()
    };
    work(
        request.number,
        request.work_ms,
        &format!("paid {} €{again}", request.price),
    )
    .await;
    ok(())
}

async fn refund(request: Request) -> Result<()> {
    tell(
        request.number,
        Mark::Undoes,
        &format!("{} € are paid back", request.price),
    );
    effect();
    ok(())
}

async fn wrap(number: u32, item: String, millis: u64) -> Result<String> {
    work(number, millis, &format!("packed the {item}")).await;
    ok(item)
}

async fn ship(request: Request) -> Result<()> {
    if request.courier_refuses {
        effect();
        tell(request.number, Mark::Failed, "the courier refuses the parcel");
        ensure!(false, "the courier refuses the parcel");
    }
    work(request.number, request.work_ms, "handed the parcel over").await;
    ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a user: the largest seeds ended the program, where sums are checked.
    #[test]
    fn every_seed_makes_orders() {
        for seed in [0, 7, u64::MAX - 1, u64::MAX] {
            let (one, again) = (Request::of(3, seed, true), Request::of(3, seed, true));
            assert_eq!((one.items, one.price), (again.items, again.price), "{seed}");
        }
    }
}

//! Three ways between a workflow and the world: a promise that somebody else decides, values that can be read at any
//! time, and a stream of items that can be followed and taken up again.
//!
//! Output:
//!
//! ```text
//! mailed a link with a token
//! progress: 50
//! kim clicked: Accepted
//! clicked again: Duplicate
//! item 0: asked kim
//! item 1: kim said true
//! taken up behind item 0: kim said true
//! signed: true
//! ```

use std::error::Error;
use std::sync::Mutex;

use everstep::{Ctx, Result, Runtime, Status, ok, workflow};

/// The mail box of the person who is asked.
static MAIL: Mutex<Option<String>> = Mutex::new(None);

#[workflow]
async fn signature(ctx: Ctx<Signature>, who: String) -> Result<bool> {
    // The token decides the promise, once. It is durable before anybody can see it.
    let signed = ctx.promise::<bool>("signed")?;
    let token = signed.token();
    ctx.step("mail", move || mail(token.clone())).await?;
    ctx.set("progress", 50)?;
    ctx.emit(format!("asked {who}"))?;

    let signed = signed.timeout("7d").await?;
    ctx.emit(format!("{who} said {signed}"))?;
    ok(signed)
}

async fn mail(token: String) -> Result<()> {
    println!("mailed a link with a token");
    if let Ok(mut mail) = MAIL.lock() {
        *mail = Some(token);
    }
    ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().workflow(signature).open("memory:").await?;
    let asked = runtime.start(signature, "kim".to_owned()).id("contract-1").await?;
    asked.reached(|status| status == Status::Waiting).await?;

    // Read from the store: nobody is woken.
    let progress: Option<u32> = asked.query("progress").await?;
    println!("progress: {}", progress.unwrap_or_default());

    let token = MAIL.lock().ok().and_then(|mail| mail.clone()).ok_or("no mail came")?;
    println!("kim clicked: {:?}", runtime.resolve(&token, &true).await?);
    println!("clicked again: {:?}", runtime.resolve(&token, &true).await?);

    let mut items = asked.stream::<String>();
    while let Some(item) = items.next().await? {
        // What is broadcast has no cursor: it is stored nowhere.
        if let Some(cursor) = item.cursor {
            println!("item {cursor}: {}", item.value);
        }
    }
    let mut later = asked.stream::<String>().after(0);
    while let Some(item) = later.next().await? {
        println!("taken up behind item 0: {}", item.value);
    }
    println!("signed: {}", asked.result().await?);
    Ok(())
}

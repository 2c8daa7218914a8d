//! A web service with workflows inside: they outlive every request, and an order posted twice under one id is one.
//!
//! Output:
//!
//! ```text
//! POST /orders/17 -> 200 started
//! POST /orders/17 -> 200 it was there
//! POST /orders/99/approval -> 404 there is no instance `99`
//! POST /orders/17/approval -> 200 thank you
//! GET /orders/17 -> 200 tea for 4, approved by kim
//! ```

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use everstep::{Ctx, Message, Result, Runtime, ok, workflow};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Message, Serialize, Deserialize)]
struct Approval(String);

#[workflow(accepts(Approval))]
async fn order(ctx: Ctx<Order>, what: String) -> Result<String> {
    let Approval(by) = ctx.receive().timeout("7d").await?;
    ok(format!("{what}, approved by {by}"))
}

type Service = State<Arc<Runtime>>;
type Answer = Result<String, Refusal>;

async fn place(State(runtime): Service, Path(id): Path<String>, what: String) -> Answer {
    let order = runtime.start(order, what).id(id).await.map_err(Refusal)?;
    Ok(if order.existed() { "it was there" } else { "started" }.to_owned())
}

async fn approve(State(runtime): Service, Path(id): Path<String>, by: String) -> Answer {
    let order = runtime.handle(order, &id).map_err(Refusal)?;
    // Under the name of who approves: however often it is posted, it counts once.
    order.send(Approval(by.clone())).id(by).await.map_err(Refusal)?;
    Ok("thank you".to_owned())
}

async fn result(State(runtime): Service, Path(id): Path<String>) -> Answer {
    let order = runtime.handle(order, &id).map_err(Refusal)?;
    order.result().timeout("30s").await.map_err(Refusal)
}

struct Refusal(everstep::Error);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0 {
            everstep::Error::Unknown(_) => StatusCode::NOT_FOUND,
            _ => StatusCode::CONFLICT,
        };
        (status, self.0.to_string()).into_response()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Arc::new(Runtime::builder().workflow(order).open("memory:").await?);
    let orders = Router::new().route("/orders/{id}", post(place).get(result));
    let service = orders.route("/orders/{id}/approval", post(approve));
    let service = service.with_state(Arc::clone(&runtime));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let calls = async {
        call(at, "POST /orders/17", "tea for 4").await?;
        call(at, "POST /orders/17", "tea for 4").await?;
        call(at, "POST /orders/99/approval", "kim").await?;
        call(at, "POST /orders/17/approval", "kim").await?;
        call(at, "GET /orders/17", "").await
    };
    tokio::select! {
        served = axum::serve(listener, service).into_future() => served?,
        called = calls => called?,
    }
    runtime.stop().await;
    Ok(())
}

async fn call(at: SocketAddr, what: &str, body: &str) -> Result<(), Box<dyn Error>> {
    let (mut connection, mut answer) = (TcpStream::connect(at).await?, String::new());
    let request = format!("{what} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).await?;
    connection.read_to_string(&mut answer).await?;
    let (head, text) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    println!("{what} -> {} {text}", head.split(' ').nth(1).unwrap_or_default());
    Ok(())
}

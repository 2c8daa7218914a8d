//! BEHAVIOUR 20: who knows a workflow or a message by its name alone is refused at the door what the types would refuse.

use everstep::storage::record::Status;
use everstep::{Existing, Sent, Untyped};
use serde_json::json;

use crate::kit::{Word, open, waits};

#[tokio::test(start_paused = true)]
async fn what_is_sent_by_name_is_what_is_sent_by_type() {
    let runtime = open().await;
    let typed = runtime.start(waits, 3).id("one").await.unwrap();
    let named = runtime.instance("one").unwrap();
    assert_eq!(
        named.send_named("Word", json!(1)).id("m").await.unwrap(),
        Sent::Accepted
    );
    assert_eq!(
        named.send_named("Word", json!(1)).id("m").await.unwrap(),
        Sent::Duplicate
    );
    typed.send(Word(2)).await.unwrap();
    named.send_named("Word", Untyped::Cbor(vec![3])).await.unwrap();
    assert_eq!(typed.result().await.unwrap(), [1, 2, 3]);
    let late = named.send_named("Word", json!(4)).await.unwrap_err();
    assert_eq!(late.code(), "ES0407");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_name_and_an_undecodable_value_are_refused_and_not_stored() {
    let runtime = open().await;
    let waiting = runtime.start(waits, 1).id("one").await.unwrap();
    waiting.reached(|status| status == Status::Waiting).await.unwrap();
    let before = runtime.store().export_instance(waiting.id(), &mut Vec::new()).unwrap();
    let send = async |name: &str, value: Untyped| {
        let refused = waiting.send_named(name, value).await.unwrap_err();
        (refused.code(), refused.to_string())
    };
    let (code, text) = send("Wrod", json!(1).into()).await;
    assert_eq!(code, "ES0417");
    assert!(text.contains("`Wrod`") && text.contains("it accepts `Word`"), "{text}");
    for value in [json!("one"), json!(null), json!(-1), json!(1.5), json!({ "Word": 1 })] {
        assert_eq!(send("Word", value.clone().into()).await.0, "ES0418", "{value}");
    }
    for bytes in [vec![], vec![0xff], vec![0x61], vec![1, 1], vec![0x9f; 4096]] {
        assert_eq!(
            send("Word", Untyped::Cbor(bytes.clone())).await.0,
            "ES0418",
            "{bytes:?}"
        );
    }
    let after = runtime.store().export_instance(waiting.id(), &mut Vec::new()).unwrap();
    assert_eq!(before, after, "nothing is stored of what was refused");
    let nobody = runtime.instance("nobody").unwrap().send_named("Word", json!(1)).await;
    assert_eq!(nobody.unwrap_err().code(), "ES0401");
}

#[tokio::test(start_paused = true)]
async fn a_start_by_name_is_a_start() {
    let runtime = open().await;
    let started = runtime
        .start_named("echo", json!(7))
        .id("one")
        .tag("by", "name")
        .await
        .unwrap();
    assert!(!started.existed());
    assert_eq!(started.result_as::<u64>().await.unwrap(), 7);
    let status = started.status().await.unwrap();
    assert_eq!((status.workflow.as_str(), status.version), ("echo", 1));
    assert_eq!(status.tags["by"], "name");
    let again = runtime.start_named("echo", json!(8)).id("one").await.unwrap();
    assert!(again.existed() && again.input_differs());
    let renewed = runtime
        .start_named("echo", json!(8))
        .id("one")
        .if_exists(Existing::NewRun);
    assert_eq!(renewed.await.unwrap().result_as::<u64>().await.unwrap(), 8);
    let made = runtime.start_named("echo", Untyped::Cbor(vec![9])).await.unwrap();
    assert!(made.id().as_str().starts_with("echo-"));
    assert_eq!(made.into_handle().result_as::<u64>().await.unwrap(), 9);
}

#[tokio::test(start_paused = true)]
async fn a_start_by_name_that_can_not_run_is_refused_and_not_stored() {
    let runtime = open().await;
    let start =
        async |workflow: &str, input: serde_json::Value| runtime.start_named(workflow, input).await.unwrap_err().code();
    assert_eq!(start("nothing", json!(1)).await, "ES0405");
    assert_eq!(start("__topic", json!(null)).await, "ES0405", "the runtime's own");
    assert_eq!(start("echo", json!("seven")).await, "ES0418");
    assert_eq!(runtime.list().count().await.unwrap(), 0);
}

//! A promise is decided once, by whoever has its token, through the runtime.

use everstep::{Ctx, Error, Result, Runtime, Sent, ok, workflow};

use crate::kit::machine;

/// Publishes the token of a promise, and returns what it is decided with.
#[workflow]
async fn consents(ctx: Ctx<Consents>) -> Result<u64> {
    let consent = ctx.promise::<u64>("consent")?;
    ctx.emit(consent.token().to_string())?;
    ok(consent.timeout("7d").await?)
}

#[tokio::test(start_paused = true)]
async fn the_first_decision_holds_and_a_wrong_token_is_refused() {
    let runtime = Runtime::builder().workflow(consents);
    let runtime = runtime.open_simulated(machine()).await.unwrap();
    let (kept, broken) = (
        runtime.start(consents, ()).await.unwrap(),
        runtime.start(consents, ()).await.unwrap(),
    );
    let token = kept.stream::<String>().next().await.unwrap().unwrap().value;
    let other = broken.stream::<String>().next().await.unwrap().unwrap().value;
    let wrong = other.replace(broken.id().as_str(), kept.id().as_str());
    assert_ne!(wrong, other, "the token names its instance");
    for wrong in [wrong.as_str(), "nothing"] {
        let refused = runtime.resolve(wrong, &1_u64).await;
        assert!(matches!(refused, Err(Error::InvalidToken(_))), "{refused:?}");
    }
    assert_eq!(runtime.resolve(&token, &2_u64).await.unwrap(), Sent::Accepted);
    assert_eq!(runtime.resolve(&token, &3_u64).await.unwrap(), Sent::Duplicate);
    assert_eq!(runtime.reject(&token, "too late").await.unwrap(), Sent::Duplicate);
    assert_eq!(kept.result().await.unwrap(), 2);
    assert_eq!(runtime.reject(&other, "no").await.unwrap(), Sent::Accepted);
    let Err(Error::Failed(failure)) = broken.result().await else {
        panic!("it was rejected");
    };
    assert_eq!(failure.message, "no");
}

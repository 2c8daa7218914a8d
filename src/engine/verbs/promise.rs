//! `ctx.promise`: something that the outside world decides.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use serde::de::DeserializeOwned;

use crate::duration::{IntoDuration, InvalidDuration};
use crate::engine::context::Ctx;
use crate::engine::error::Misuse;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{OutsideRequest, Request, Until};
use crate::engine::token::PromiseToken;
use crate::engine::verbs::within::Within;
use crate::storage::record::{Decided, EntryKind, Failure};

/// Something that the outside world decides. Give its token away, then await it.
#[must_use = "a promise is for waiting: await it"]
pub struct Promise<T> {
    operation: Operation,
    token: PromiseToken,
    until: Result<Option<Until>, InvalidDuration>,
    value: PhantomData<fn() -> T>,
}

impl<W> Ctx<W> {
    /// Makes a promise: a token that can be given to a person, a web hook, another system, and that decides once what
    /// awaiting the promise gives. It can be decided before it is awaited.
    ///
    /// The promise is durable before anything that follows has an effect: nobody can come with a token that a crash
    /// has made unknown.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ok, workflow};
    /// #[workflow]
    /// async fn consents(ctx: Ctx<Consents>) -> Result<bool> {
    ///     let consent = ctx.promise::<bool>("consent")?;
    ///     // Somebody is given the token: by mail in a step, or as here by whoever asks for it.
    ///     ctx.set("token", consent.token())?;
    ///     ok(consent.timeout("7d").await?)
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(consents).open("memory:").await?;
    /// # let consents = runtime.start(consents, ()).await?;
    /// # consents.reached(|status| status == Status::Waiting).await?;
    /// let token: Option<String> = consents.query("token").await?;
    /// runtime.resolve(&token.ok_or("it waits")?, &true).await?;
    /// assert!(consents.result().await?);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn promise<T: DeserializeOwned>(&self, name: &str) -> Result<Promise<T>, Failure> {
        let kind = EntryKind::Promise {
            until_ms: None,
            decided: None,
        };
        let request = Request::Outside(OutsideRequest {
            kind: kind.clone(),
            until: None,
        });
        let mut operation = Operation::new(self.scope().clone(), Place::Named(name.to_owned()));
        let entry = operation.begin(request, kind)?;
        let facts = self.scope().facts();
        // A run that a reset began goes on with the promises of the one before, under the tokens that were given away.
        let token = PromiseToken::new(facts.instance.clone(), facts.secret, facts.drawn_in, entry);
        Ok(Promise {
            operation,
            token,
            until: Ok(None),
            value: PhantomData,
        })
    }
}

impl<T> Promise<T> {
    /// What decides the promise, as text.
    pub fn token(&self) -> String {
        self.token.to_string()
    }

    /// Gives up with an error this long after it is first awaited. A decision that is there wins over a time that is
    /// over.
    pub fn timeout(mut self, timeout: impl IntoDuration) -> Self {
        self.until = timeout.into_duration().map(|timeout| Some(Until::After(timeout)));
        self
    }

    /// Gives up with an error at this time.
    pub fn until(mut self, time: SystemTime) -> Self {
        self.until = Until::time(time, self.operation.scope().now_ms()).map(Some);
        self
    }

    /// Gives none when it gives up, instead of an error.
    pub fn or_none(self) -> Within<Self> {
        Within(self)
    }

    /// Gives none if nobody decided it this long after it is first awaited.
    pub fn within(self, timeout: impl IntoDuration) -> Within<Self> {
        self.timeout(timeout).or_none()
    }
}

impl<T: DeserializeOwned> Promise<T> {
    /// What it came to; none if nobody decided it in time.
    fn poll_decided(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Failure>> {
        let until = std::mem::replace(&mut self.until, Ok(None)).map_err(Misuse::from)?;
        if let Some(until) = until {
            self.operation.limit(until);
        }
        let kind = ready!(self.operation.poll_begun(cx))?;
        let EntryKind::Promise { decided, .. } = kind else {
            unreachable!("a promise is delivered as one");
        };
        let at = |failure: Failure| failure.at(self.operation.path());
        Poll::Ready(match decided {
            Some(Decided::Completed(payload)) => self.operation.read_from_others(&payload).map(Some),
            Some(Decided::Failed(failure)) => Err(at(failure)),
            None => Ok(None),
        })
    }
}

impl<T: DeserializeOwned> Future for Promise<T> {
    type Output = Result<T, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let decided = ready!(self.poll_decided(cx))?;
        let gave_up = || Failure::timed_out("nobody decided it in time").at(self.operation.path());
        Poll::Ready(decided.ok_or_else(gave_up))
    }
}

impl<T: DeserializeOwned> Future for Within<Promise<T>> {
    type Output = Result<Option<T>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_decided(cx)
    }
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promise")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

//! `ctx.child`: another instance that this one starts.

use std::cell::Cell;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::engine::context::Ctx;
use crate::engine::derived;
use crate::engine::error::Misuse;
use crate::engine::message::Message;
use crate::engine::operation::{Operation, Place};
use crate::engine::request::{ChildRequest, Manner, Request};
use crate::engine::scope::Scope;
use crate::engine::undo::{IntoUndo, Undo};
use crate::engine::verbs::send::{Address, SendTo, fits, told};
use crate::engine::witness::CallSite;
use crate::engine::workflow::{Accepts, IntoWorkflow, Workflow};
use crate::ids::{InstanceId, InvalidId};
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::{ChildState, ClosePolicy, Content, Decided, EntryKind, Failure, Flow, Priority, Reach};

/// A child that is not started yet: await it for its result, or [`start`](Child::start) it for a handle.
#[must_use = "a child is started when it is awaited"]
pub struct Child<W> {
    scope: Scope,
    location: Result<Location, Misuse>,
    id: Option<Result<InstanceId, InvalidId>>,
    input: Result<Payload, Failure>,
    close: ClosePolicy,
    flow: Flow,
    /// How it is undone, until it is asked for.
    undo: Cell<Option<Undo>>,
    workflow: PhantomData<fn() -> W>,
    call_site: CallSite,
}

impl<W> Ctx<W> {
    /// Starts another instance and waits for what it returns. Its failure comes as an error that can be caught, of kind
    /// [`FailureKind::Child`](crate::storage::record::FailureKind::Child) with the cause inside, unless the
    /// [strategy](crate::Strategy) of its workflow says otherwise.
    ///
    /// A child belongs to whoever waits for it. If that is dropped before the child has ended (it lost a race, the
    /// parent was cancelled or came to its end), the child is closed as its [policy](Child::close) says: it is
    /// cancelled, unless it was let go with [`Child::detach`].
    ///
    /// Children of a workflow are told apart by their number in their scope and, if they have one, by their
    /// [id](Child::id): another id in the place of a recorded one is divergence, another input is not noticed.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, ok, workflow};
    /// #[workflow]
    /// async fn payment(_ctx: Ctx<Payment>, amount: u32) -> Result<String> {
    ///     ok(format!("paid {amount}"))
    /// }
    ///
    /// #[workflow]
    /// async fn order(ctx: Ctx<Order>) -> Result<String> {
    ///     let later = ctx.child(payment, 43).start().await?;
    ///     let receipt = ctx.child(payment, 42).id("payment-of-order-7").await?;
    ///     ctx.child(payment, 44).detach().await?;
    ///     ok(format!("{receipt}, {}", later.await?))
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).workflow(order).open("memory:").await?;
    /// assert_eq!(runtime.start(order, ()).await?.result().await?, "paid 42, paid 43");
    /// # Ok(()) }
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "what a child is started with is gone")]
    #[track_caller]
    pub fn child<As, V: IntoWorkflow<As>>(
        &self,
        _workflow: V,
        input: <V::Workflow as Workflow>::Input,
    ) -> Child<V::Workflow> {
        let scope = self.scope().clone();
        let name = <V::Workflow as Workflow>::NAME;
        let location = scope.journal().lock().locate_next(scope.location(), name);
        let input = scope.codecs().pack(&input).map_err(Failure::from);
        Child {
            location,
            id: None,
            input: input.and_then(|input| fits(&input).map(|()| input)),
            close: ClosePolicy::default(),
            flow: Flow::default(),
            undo: Cell::new(None),
            workflow: PhantomData,
            call_site: std::panic::Location::caller(),
            scope,
        }
    }
}

impl<W: Workflow> Child<W> {
    /// Under this id instead of one that follows from where it is started. If another instance has it, the child
    /// fails.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(InstanceId::new(id));
        self
    }

    /// What becomes of it when nobody waits for it any more. [`ClosePolicy::Cancel`] unless set.
    pub fn close(mut self, close: ClosePolicy) -> Self {
        self.close = close;
        self
    }

    /// With at most so many instances of this key running at once, whoever starts them: until it is its turn it is pending.
    /// See [`Start::at_most`](crate::Start::at_most).
    ///
    /// A parent that runs with a key itself keeps its place while it waits for a child. So one that waits for a child with
    /// the same key may wait for ever, as two do who each wait for the other's place; where that is certain, with a limit of
    /// one, the child fails instead.
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Workflow, ok};
    /// # #[derive(Clone, Copy)] struct Import; impl Workflow for Import {
    /// #     const NAME: &'static str = "import"; type Input = String; type Output = u64;
    /// #     async fn run(_: Ctx<Self>, _: String) -> Result<u64> { ok(7) } }
    /// # async fn example<W>(ctx: Ctx<W>) -> Result<()> {
    /// let rows = ctx.child(Import, "a.csv".to_owned()).at_most(1, "customer-7").await?;
    /// # ok(()) }
    /// ```
    pub fn at_most(mut self, limit: u32, key: impl Into<String>) -> Self {
        self.flow.at_most(limit, key);
        self
    }

    /// Before or after others that wait for the same place, for all that it does.
    pub fn priority(mut self, priority: Priority) -> Self {
        self.flow.priority = priority;
        self
    }

    /// Says how the child is undone: if it completed and this workflow fails later, `undo` is called with what the child
    /// returned, in its place among all that is undone. See [`Ctx::compensate`] for when and how undoings run.
    ///
    /// A child that has not ended when its parent fails is closed, and when that cancels it, it undoes what it did
    /// itself. One that has completed stays completed, so undoing it is up to whoever wanted it:
    ///
    /// ```
    /// # use everstep::{Ctx, Result, Runtime, Status, ensure, ok, workflow};
    /// # #[workflow] async fn payment(_: Ctx<Payment>, amount: u32) -> Result<String> { ok(format!("receipt for {amount}")) }
    /// async fn refund(receipt: String) -> Result<()> {
    ///     ok(println!("gave back what the {receipt} says"))
    /// }
    ///
    /// #[workflow(strategy = "compensate")]
    /// async fn order(ctx: Ctx<Order>, in_stock: u32) -> Result<()> {
    ///     ctx.child(payment, 42).rollback(refund).await?;
    ///     ensure!(in_stock > 0, "sold out");
    ///     ok(())
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = Runtime::builder().workflow(payment).workflow(order).open("memory:").await?;
    /// runtime.start(order, 0).await?.reached(|status| status == Status::Compensated).await?;
    /// # Ok(()) }
    /// ```
    pub fn rollback<Arguments>(self, undo: impl IntoUndo<W::Output, Arguments>) -> Self {
        self.undo.set(Some(Undo::new(undo, self.scope.shared_facts())));
        self
    }

    /// Starts it and gives a handle, to be awaited later. The child is durably on its way then.
    pub fn start(self) -> StartChild<W> {
        let inside = self.location.clone().and_then(|location| {
            let mut journal = self.scope.journal().lock();
            journal.locate(&location, "start")
        });
        let begun = Operation::new(self.scope.clone(), Place::At(inside)).called_at(self.call_site);
        StartChild {
            begun,
            end: Some(self.operation()),
            child: self,
        }
    }

    /// Starts it and lets it go: whatever becomes of the parent, the child goes on, and nobody is told how it ends.
    pub fn detach(self) -> DetachChild<W> {
        // Nobody hears how it ends, so there is nothing to undo it with.
        self.undo.set(None);
        DetachChild {
            operation: self.operation(),
            child: self,
        }
    }

    fn operation(&self) -> Operation {
        Operation::new(self.scope.clone(), Place::At(self.location.clone())).called_at(self.call_site)
    }

    /// Its id, which is the same whenever the code comes to this place.
    fn instance(&self) -> Result<InstanceId, Misuse> {
        if let Some(id) = &self.id {
            return Ok(id.clone()?);
        }
        let (facts, location) = (self.scope.facts(), self.location.clone()?);
        let id = derived::id(facts.seed(), facts.run, &location, "child");
        Ok(InstanceId::new(id)?)
    }

    fn state(&self, awaited: bool, close: ClosePolicy) -> Result<ChildState, Misuse> {
        Ok(ChildState {
            instance: self.instance()?.into(),
            workflow: W::NAME.to_owned(),
            awaited,
            close,
            closed: false,
            decided: None,
            reach: Reach::Waiting,
        })
    }

    fn request(&self, input: &Payload, awaited: bool) -> Result<Request, Misuse> {
        self.flow.check()?;
        let close = if awaited { self.close } else { ClosePolicy::Abandon };
        Ok(Request::Child(ChildRequest {
            state: self.state(awaited, close)?,
            named: self.id.is_some(),
            version: W::VERSION,
            input: input.clone(),
            manner: Manner {
                deadline: W::policy().deadline,
                flow: Box::new(self.flow.clone()),
                ..Manner::default()
            },
            undo: self.undo.take(),
        }))
    }

    /// Polls the operation that stands for its end.
    fn poll(&self, operation: &mut Operation, awaited: bool, cx: &Context<'_>) -> Poll<Result<EntryKind, Failure>> {
        match &self.input {
            Ok(input) => operation.poll_with(cx, || self.request(input, awaited)),
            Err(failure) => Poll::Ready(Err(failure.clone())),
        }
    }
}

impl<W: Workflow> IntoFuture for Child<W> {
    type Output = Result<W::Output, Failure>;
    type IntoFuture = AwaitChild<W>;

    fn into_future(self) -> AwaitChild<W> {
        AwaitChild {
            operation: self.operation(),
            child: self,
        }
    }
}

/// A child that is started and waited for.
#[must_use = "a child is started when it is awaited"]
pub struct AwaitChild<W> {
    child: Child<W>,
    operation: Operation,
}

impl<W: Workflow> Future for AwaitChild<W> {
    type Output = Result<W::Output, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let kind = ready!(this.child.poll(&mut this.operation, true, cx))?;
        Poll::Ready(output::<W>(&this.operation, kind))
    }
}

/// A child that is being let go; await it.
#[must_use = "a child is started when it is awaited"]
pub struct DetachChild<W> {
    child: Child<W>,
    operation: Operation,
}

impl<W: Workflow> Future for DetachChild<W> {
    type Output = Result<Address<W>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let kind = ready!(this.child.poll(&mut this.operation, false, cx))?;
        Poll::Ready(address(kind).map(Address::new))
    }
}

/// A child that is being started; await it for its handle.
#[must_use = "a child is started when it is awaited"]
pub struct StartChild<W> {
    child: Child<W>,
    begun: Operation,
    end: Option<Operation>,
}

impl<W: Workflow> Future for StartChild<W> {
    type Output = Result<ChildHandle<W>, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Asked for in this order, so that it is on its way when it counts as begun.
        if let Some(end) = &mut this.end
            && !end.is_asked()
            && let Poll::Ready(Err(failure)) = this.child.poll(end, true, cx)
        {
            return Poll::Ready(Err(failure));
        }
        let child = &this.child;
        // After a reset to this very place the child is there already, under the id that the run before gave it.
        let recorded = this.end.as_ref().and_then(Operation::recorded);
        let request = || {
            let state = child.state(false, ClosePolicy::Abandon)?;
            Ok(Request::Begun(EntryKind::Child(match recorded {
                Some(EntryKind::Child(ChildState { instance, .. })) => ChildState { instance, ..state },
                _ => state,
            })))
        };
        let kind = ready!(this.begun.poll_with(cx, request))?;
        let end = this.end.take().expect("a child is started once");
        // One that was closed and is started once more, after its parent was taken back, has another id.
        let instance = match end.child_id() {
            Some(id) => InstanceId::internal(id).expect("a recorded id is one"),
            None => child.instance().or_else(|_| address(kind))?,
        };
        Poll::Ready(Ok(ChildHandle {
            instance,
            end,
            workflow: PhantomData,
        }))
    }
}

/// A child that was started. Await it for what it returns; dropped before that, it closes the child.
#[must_use = "a child that nobody holds is closed: await it, keep it, or let it go with `detach`"]
pub struct ChildHandle<W> {
    instance: InstanceId,
    end: Operation,
    workflow: PhantomData<fn() -> W>,
}

impl<W: Workflow> ChildHandle<W> {
    /// The id of the child.
    pub fn id(&self) -> &InstanceId {
        &self.instance
    }

    /// Where messages to the child go.
    pub fn address(&self) -> Address<W> {
        Address::new(self.instance.clone())
    }

    /// Sends the child a message.
    #[expect(clippy::needless_pass_by_value, reason = "a message that was sent is gone")]
    #[track_caller]
    pub fn send<M: Message>(&self, message: M) -> SendTo
    where
        W: Accepts<M>,
    {
        let scope = self.end.scope().here();
        SendTo::new(&scope, Ok(self.instance.clone()), told(&scope, &message))
    }

    /// Asks the child to end. How it ended is told by awaiting the handle.
    #[track_caller]
    pub fn cancel(&self, reason: &str) -> SendTo {
        let reason = reason.to_owned();
        SendTo::new(
            &self.end.scope().here(),
            Ok(self.instance.clone()),
            Ok(Content::Cancel { reason }),
        )
    }

    /// Lets the child go: it goes on whatever becomes of the parent, and nobody is told how it ends.
    pub fn detach(self) -> Address<W> {
        self.end.let_child_go();
        self.address()
    }
}

impl<W: Workflow> Future for ChildHandle<W> {
    type Output = Result<W::Output, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let kind = ready!(self.end.poll_begun(cx))?;
        Poll::Ready(output::<W>(&self.end, kind))
    }
}

impl<W> std::fmt::Debug for ChildHandle<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ChildHandle").field(&self.instance).finish()
    }
}

/// The id of a child, as it is recorded: after a reset the code may stand in another run than the one that started it.
fn address(kind: EntryKind) -> Result<InstanceId, Failure> {
    let EntryKind::Child(ChildState { instance, decided, .. }) = kind else {
        unreachable!("a child is delivered as one");
    };
    if let Some(Decided::Failed(failure)) = decided {
        return Err(Failure::of_child(&instance, &failure));
    }
    Ok(InstanceId::internal(instance).expect("a recorded id is one"))
}

/// What a child returns whose failure is ignored: `()`, or no value where there could be one. Others have no such value.
fn out_of_nothing<W: Workflow>(operation: &Operation) -> Option<W::Output> {
    let codecs = operation.codecs();
    let nothing = [codecs.pack(&None::<()>).ok()?, codecs.pack(&()).ok()?];
    nothing.iter().find_map(|nothing| codecs.unpack(nothing).ok())
}

fn output<W: Workflow>(operation: &Operation, kind: EntryKind) -> Result<W::Output, Failure> {
    let EntryKind::Child(ChildState {
        instance,
        decided,
        reach,
        ..
    }) = kind
    else {
        unreachable!("a child is delivered as one");
    };
    match decided {
        Some(Decided::Completed(payload)) => operation.read(&payload),
        Some(Decided::Failed(failure)) => {
            let failed = || Failure::of_child(&instance, &failure).at(operation.path());
            let nothing = (reach == Reach::Nobody).then(|| out_of_nothing::<W>(operation));
            nothing.flatten().ok_or_else(failed)
        }
        None => unreachable!("a child that was not decided is not delivered"),
    }
}

//! The workflow behind every batch.

use std::sync::{Arc, OnceLock, Weak};

use futures_util::StreamExt as _;
use serde::{Deserialize, Serialize};

use crate::actor::Shared;
use crate::clock::Millis;
use crate::engine::{Ctx, Definition, Erased, Loop, Policy, Running, Scope, Untyped, ok};
use crate::handle::batch::item::Item;
use crate::handle::batch::plan::{self, BatchProgress, Plan};
use crate::handle::{Error, Result, list, look};
use crate::ids::InstanceId;
use crate::limits::{BATCH_AT_ONCE_MAX, BATCH_PAGE_MAX};
use crate::storage;
use crate::storage::index::Indexed;
use crate::storage::payload::{Codecs, Payload, PayloadError};
use crate::storage::record::Secret;

pub(super) const NAME: &str = "__batch";

/// What it publishes its progress as.
pub(super) const PROGRESS: &str = "progress";

/// How often a page is tried. A store that can't be reached for so long is the end of more than a batch.
const RETRIES: u32 = 10_000;

/// What stands for the workflow in its context.
struct Batches;

/// The runtime, once it is put together: what a batch operates on.
pub(crate) type Late = Arc<OnceLock<Weak<Shared>>>;

/// The definition of the workflow, which is given the runtime when there is one.
pub(crate) fn definition() -> (Definition, Late) {
    let late = Late::default();
    let definition = Definition {
        name: NAME,
        version: 1,
        policy: Policy::new(),
        accepted: Vec::new(),
        erased: Arc::new(Operator(Arc::clone(&late))),
        witness: None,
    };
    (definition, late)
}

struct Operator(Late);

impl Erased for Operator {
    fn call(&self, scope: Scope, input: Payload) -> Running {
        let late = Arc::clone(&self.0);
        Box::pin(async move {
            let facts = scope.shared_facts();
            let plan: Plan = facts.codecs.unpack(&input)?;
            let progress = run(Ctx::new(scope), Arc::new(plan), late).await?;
            Ok(facts.pack(&progress)?)
        })
    }

    fn input(&self, value: &Untyped, codecs: &Codecs) -> Result<Result<Payload, PayloadError>, String> {
        value.pack_as::<Plan>(codecs)
    }
}

/// Where a batch stands.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Place {
    /// The last row that was read.
    after: Option<(Millis, String)>,
    progress: BatchProgress,
}

/// Some instances, and where the next ones are.
#[derive(Debug, Serialize, Deserialize)]
struct Page {
    items: Vec<Item>,
    next: Option<(Millis, String)>,
}

async fn run(ctx: Ctx<Batches>, plan: Arc<Plan>, late: Late) -> crate::engine::Result<BatchProgress> {
    // Whoever was started in the same millisecond may have been there before.
    let before = ctx.scope().now_ms() + 1;
    let secret = ctx.scope().facts().secret;
    let pages = ctx.repeat("pages", Place::default(), move |ctx: Ctx<Batches>, mut place: Place| {
        let (plan, late) = (Arc::clone(&plan), Arc::clone(&late));
        async move {
            let (which, after, runtime) = (Arc::clone(&plan), place.after.take(), Arc::clone(&late));
            let look = move || look_at_page(Arc::clone(&runtime), Arc::clone(&which), after.clone(), before);
            let Page { items, next } = ctx.step("look", look).retries(RETRIES).await?;
            if !items.is_empty() {
                let items = Arc::new(items);
                let operate = move || operate(Arc::clone(&late), Arc::clone(&plan), Arc::clone(&items), secret);
                place.progress.add(ctx.step("operate", operate).retries(RETRIES).await?);
            }
            ctx.set(PROGRESS, &place.progress)?;
            ok(match next {
                None => Loop::Break(place.progress),
                Some(after) => Loop::Continue(Place {
                    after: Some(after),
                    ..place
                }),
            })
        }
    });
    pages.commit_interval(1).history_every(1).history_keep(0).await
}

/// Who is next, and how they are.
async fn look_at_page(late: Late, plan: Arc<Plan>, after: Option<(Millis, String)>, before: Millis) -> Result<Page> {
    let shared = runtime(&late)?;
    let store = shared.store.clone();
    list::blocking(&store, move || {
        let range = plan.range(after, Some(before));
        let (rows, next) = list::rows(&shared, &range, &plan.filter, BATCH_PAGE_MAX)?;
        let mut items = Vec::new();
        for Indexed { instance: id, row, .. } in rows.into_iter().filter(|row| !plan::is_own(&row.instance)) {
            match look::instance(&shared, &InstanceId::internal(id.as_str())?) {
                Ok(Some(seen)) => items.push(Item::new(id, &seen)),
                // It was deleted since.
                Ok(None) => {}
                Err(error) if is_of_the_store(&error) => return Err(error),
                Err(_) => items.push(Item::unreadable(id, row.status)),
            }
        }
        Ok(Page { items, next })
    })
    .await
}

/// Operates on everyone of a page, on a few at a time.
async fn operate(late: Late, plan: Arc<Plan>, items: Arc<Vec<Item>>, secret: Secret) -> Result<BatchProgress> {
    let shared = runtime(&late)?;
    let mut progress = BatchProgress::default();
    let operations = items.iter().cloned().map(|item| {
        let (shared, plan) = (Arc::clone(&shared), Arc::clone(&plan));
        async move {
            let operated = item.operate(&shared, secret, &plan.operation).await;
            (item, operated)
        }
    });
    let mut operations = futures_util::stream::iter(operations).buffered(BATCH_AT_ONCE_MAX);
    while let Some((item, operated)) = operations.next().await {
        match operated {
            Err(error) if is_of_the_store(&error) => return Err(error),
            operated => progress.count(&item.id, operated),
        }
    }
    Ok(progress)
}

/// Whether an error has nothing to do with the instance that it came with: then it would come with all of them.
fn is_of_the_store(error: &Error) -> bool {
    use storage::Error as Stored;
    match error {
        Error::Storage(error) => !matches!(
            error,
            Stored::Corrupt(_)
                | Stored::Decode { .. }
                | Stored::InvalidKey(_)
                | Stored::TooLarge { .. }
                | Stored::Refused(_)
                | Stored::Payload(_)
        ),
        _ => false,
    }
}

fn runtime(late: &Late) -> Result<Arc<Shared>> {
    let shared = late.get().and_then(Weak::upgrade);
    shared.ok_or_else(|| Error::Start("the runtime is not there any more".into()))
}

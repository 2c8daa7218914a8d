//! In which order the tasks of one thread take their turns (feature `testing`).
//!
//! An executor with one thread polls tasks in the order in which they were woken. So a simulation would see only few of
//! the orders that threads can come to, and always the same ones. With turns that are drawn, whoever was woken may have to
//! let others go first, at every wake-up: the order follows from who draws, and from nothing else.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::task::Poll;

type Draw = Box<dyn FnMut() -> u64>;

thread_local! {
    static DRAW: RefCell<Option<Draw>> = const { RefCell::new(None) };
}

/// While it lives, tasks of its thread take their turns as it was told.
pub struct Turns {
    /// It belongs to its thread.
    here: PhantomData<*const ()>,
}

impl Turns {
    /// Asks, whenever a task has been woken, how often it is to stand at the end of the queue again before it goes on.
    pub fn drawn(draw: impl FnMut() -> u64 + 'static) -> Self {
        DRAW.set(Some(Box::new(draw)));
        let here = PhantomData;
        Self { here }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        DRAW.set(None);
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

fn draw() -> u64 {
    DRAW.with_borrow_mut(|draw| draw.as_mut().map_or(0, |draw| draw()))
}

/// The same, in its turn. It is boxed, since a future that is moved into another one takes its place twice.
pub(super) fn in_turn(body: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send {
    let (mut body, mut owed) = (Box::pin(body), None);
    poll_fn(move |context| {
        let left = owed.get_or_insert_with(draw);
        if *left > 0 {
            *left -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        owed = None;
        body.as_mut().poll(context)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::spawn;

    /// Stands at the end of the queue once, as whoever is woken does; what tokio does with who yields is its own business.
    async fn woken_again() {
        let mut woken = false;
        poll_fn(move |context| {
            if std::mem::replace(&mut woken, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Three tasks, each of which is woken twice: what they say, in this order.
    fn said(turns: &[u64]) -> String {
        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let drawn = Rc::new(Cell::new(0));
        let (count, turns) = (Rc::clone(&drawn), turns.to_vec());
        let _turns = Turns::drawn(move || turns.get(drawn.replace(drawn.get() + 1)).copied().unwrap_or(0));
        let said = Arc::new(Mutex::new(String::new()));
        executor.block_on(async {
            let tasks = ["a", "b", "c"].map(|name| {
                let said = Arc::clone(&said);
                spawn::task(async move {
                    said.lock().unwrap().push_str(name);
                    woken_again().await;
                    said.lock().unwrap().push_str(name);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
        });
        assert_eq!(count.get(), 6, "one draw for each time that one of them was woken");
        let said = said.lock().unwrap();
        said.clone()
    }

    /// The simulation varied the order of tasks only where one was made to yield by hand.
    #[test]
    fn tasks_take_the_turns_that_are_drawn() {
        assert_eq!(said(&[]), "abcabc");
        // Whoever is woken first may come last, at the beginning and later on.
        assert_eq!(said(&[1]), "bcabca");
        assert_eq!(said(&[0, 0, 0, 1]), "abcbca");
    }

    #[test]
    fn what_is_over_draws_no_turns_any_more() {
        drop(Turns::drawn(|| panic!("nobody asks any more")));
        assert_eq!(draw(), 0);
    }
}

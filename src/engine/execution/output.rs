//! What the code says to the outside: items, published values, answers.
//!
//! Each is stored once, in the commit of the turn in which it was said. Replay says it all again, and knows by the
//! place in the order of completions what is stored already: between two completions the code is polled to rest, and
//! whatever it said there went into one commit.

use std::borrow::Cow;

use crate::clock::Millis;
use crate::engine::error::unanswered;
use crate::engine::execution::Execution;
use crate::engine::journal::Said;
use crate::ids::MessageId;
use crate::limits::{EMITTED_KEPT_MAX, UNREAD_ANSWERED_MAX};
use crate::storage::Commit;
use crate::storage::key::Local;
use crate::storage::record::{Answer, Content, Decided, Emitted, Published};

impl Execution {
    /// Puts what the code has said since the last commit into this one.
    pub(crate) fn speak(&mut self, commit: &mut Commit, now: Millis) {
        let mut journal = self.journal.lock();
        let said = std::mem::take(&mut journal.said);
        // Also if it has said nothing: that the code was called is what tells this run from one that has not begun.
        if journal.was_polled {
            self.state.said = self.state.said.max(journal.said_up_to());
        }
        drop(journal);
        for said in said {
            match said {
                Said::Emitted(payload) => self.emit(commit, &Emitted { payload, at_ms: now }),
                Said::Published(name, payload) => {
                    commit.set(&self.namespace, &Local::Published(name.into()), &Published(payload));
                }
                Said::Answered(question, decided) => self.answer(commit, &question, decided, now),
            }
        }
    }

    fn emit(&mut self, commit: &mut Commit, item: &Emitted) {
        let number = self.state.emitted;
        self.state.emitted += 1;
        commit.set(&self.namespace, &Local::Emitted(number), item);
        if let Some(old) = number.checked_sub(EMITTED_KEPT_MAX) {
            commit.delete(&self.namespace, &Local::Emitted(old));
        }
    }

    fn answer(&self, commit: &mut Commit, question: &MessageId, decided: Decided, at_ms: Millis) {
        let answer = Answer { decided, at_ms };
        let local = Local::Answer(Cow::Borrowed(question.as_str()));
        commit.set(&self.namespace, &local, &answer);
    }

    /// The run ends: what the code took and did not answer is answered for it.
    pub(crate) fn answer_what_was_taken(&self, commit: &mut Commit, now: Millis) {
        let questions = std::mem::take(&mut self.journal.lock().questions);
        for question in questions {
            self.answer(commit, &question, Decided::Failed(unanswered()), now);
        }
    }

    /// The instance ends: whoever still waits for an answer is told that there is none. What was asked so late that
    /// this does not know of it is noticed by who looks for the answer.
    pub(crate) fn answer_the_rest(&self, commit: &mut Commit, now: Millis) {
        self.answer_what_was_taken(commit, now);
        let unread = self.inbox.iter().map(|(_, message)| message);
        let questions = unread.filter(|message| matches!(message.content, Content::Asked { .. }));
        for message in questions.take(UNREAD_ANSWERED_MAX) {
            self.answer(commit, &message.id, Decided::Failed(unanswered()), now);
        }
    }
}

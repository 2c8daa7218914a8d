//! What the code says to the outside, until it is stored.

use crate::engine::bounds::Exceeded;
use crate::engine::error::Misuse;
use crate::engine::journal::Journal;
use crate::ids::MessageId;
use crate::limits::{PUBLISHED_NAMES_MAX, QUESTIONS_OPEN_MAX, SAID_BYTES_MAX, SAID_ITEM_BYTES_MAX, SAID_ROW_BYTES};
use crate::location::Location;
use crate::storage::payload::Payload;
use crate::storage::record::Decided;

/// Something that the code said.
#[derive(Debug)]
pub(crate) enum Said {
    /// An item.
    Emitted(Payload),
    /// A value under a name.
    Published(String, Payload),
    /// The answer to a question.
    Answered(MessageId, Decided),
}

impl Said {
    fn bytes(&self) -> usize {
        match self {
            Self::Emitted(payload) => payload.bytes.len(),
            Self::Published(name, payload) => name.len() + payload.bytes.len(),
            Self::Answered(_, decided) => decided.bytes(),
        }
    }
}

impl Journal {
    /// Says something, unless it is stored already. The bounds count all of it, so that replay is refused what was
    /// refused before.
    pub(crate) fn say(&mut self, scope: &Location, bytes: usize, said: Said) -> Result<(), Misuse> {
        self.check_use(scope)?;
        if let Said::Published(name, _) = &said
            && !self.published.contains(name)
        {
            if self.published.len() >= PUBLISHED_NAMES_MAX {
                return self.refuse(Exceeded::Published {
                    max: PUBLISHED_NAMES_MAX,
                });
            }
            self.published.insert(name.clone());
        }
        let name = match &said {
            Said::Published(name, _) => name.len(),
            Said::Emitted(_) | Said::Answered(..) => 0,
        };
        self.count_said(bytes + name)?;
        self.say_unchecked(said);
        Ok(())
    }

    /// Up to which place what the code has said will be stored. A run that begins has said nothing.
    pub(crate) fn said_up_to(&self) -> u64 {
        if self.is_over { 0 } else { self.seen + 1 }
    }

    /// Whether so much more can be said at this place.
    fn count_said(&mut self, bytes: usize) -> Result<(), Misuse> {
        let (place, before) = self.said_here;
        let before = if place == self.seen { before } else { 0 };
        let after = before + bytes + SAID_ROW_BYTES;
        if bytes > SAID_ITEM_BYTES_MAX || after > SAID_BYTES_MAX {
            return Err(Misuse::SaidTooMuch { bytes, before });
        }
        self.said_here = (self.seen, after);
        Ok(())
    }

    fn say_unchecked(&mut self, said: Said) {
        if self.is_new() {
            self.gather(said.bytes() + SAID_ROW_BYTES);
            self.said.push(said);
        }
    }

    /// A question was handed to the code, which owes an answer. One too many ends the function.
    pub(crate) fn asked(&mut self, question: MessageId) {
        if self.questions.len() >= QUESTIONS_OPEN_MAX {
            self.within(Err(Exceeded::Questions {
                max: QUESTIONS_OPEN_MAX,
            }));
        }
        self.questions.insert(question);
    }

    /// Answers a question that was handed to the code.
    pub(crate) fn answer(&mut self, question: MessageId, bytes: usize, decided: Decided) -> Result<(), Misuse> {
        if !self.token.is_polled_here() {
            return Err(Misuse::OutsideWorkflow);
        }
        self.count_said(bytes)?;
        self.questions.remove(&question);
        self.say_unchecked(Said::Answered(question, decided));
        Ok(())
    }

    /// Nobody is going to answer a question: what held it is gone. Elsewhere than in its function that says nothing,
    /// because an instance that leaves memory drops everything.
    pub(crate) fn leave_unanswered(&mut self, question: MessageId, decided: Decided) {
        if self.token.is_polled_here() && self.questions.remove(&question) {
            self.say_unchecked(Said::Answered(question, decided));
        }
    }

    /// Tells whoever happens to listen. Replay is silent.
    pub(crate) fn broadcast(&mut self, scope: &Location, item: Payload) -> Result<(), Misuse> {
        self.check_use(scope)?;
        self.count_said(item.bytes.len())?;
        if self.seen >= self.silent_before {
            self.broadcasts.push(item);
        }
        Ok(())
    }
}

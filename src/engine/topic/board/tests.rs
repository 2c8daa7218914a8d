//! A board by itself: who gets what, and what it does when there is too much.

use super::*;
use crate::limits::{EVENT_BYTES_MAX, TOPIC_BOARD_BYTES_MAX, TOPIC_NOTES_MAX};
use crate::storage::payload::Codecs;

const HOUR: Millis = 60 * 60 * 1000;
const MINUTE: Millis = 60 * 1000;

fn waiter(name: &str) -> Waiter {
    let instance = name.to_owned();
    let (run, entry) = (1, 1);
    Waiter { instance, run, entry }
}

fn waits(name: &str) -> Note {
    Note::Waits(waiter(name))
}

fn event(first: u8, bytes: usize, to_one: bool, expires_at_ms: Millis) -> Note {
    let mut payload = Payload::nothing();
    payload.bytes = vec![first; bytes];
    Note::Published(Event {
        payload,
        to_one,
        expires_at_ms,
    })
}

/// An event for one that is small and kept for a day.
fn for_one(first: u8) -> Note {
    event(first, 1, true, 24 * HOUR)
}

/// Who is handed which event, and who is told that there is no room.
fn told(handed: &[Handed]) -> Vec<(&str, Option<u8>)> {
    let first = |what: &What| match what {
        What::ForOne(payload) | What::ForAll(payload) => payload.bytes.first().copied(),
        What::NoRoom => None,
    };
    let told = handed.iter();
    told.map(|handed| (handed.waiter.instance.as_str(), first(&handed.what)))
        .collect()
}

/// The board as the next iteration reads it.
fn stored(board: &Board) -> Board {
    let codecs = Codecs::plain();
    codecs.unpack(&codecs.pack(board).unwrap()).unwrap()
}

#[test]
fn what_is_given_up_goes_to_the_next_and_what_is_taken_to_nobody() {
    let mut board = Board::default();
    let handed = board.take(vec![waits("a"), waits("b"), waits("c"), for_one(1)], 0);
    assert_eq!(told(&handed), [("a", Some(1))]);
    let mut board = stored(&board);
    let handed = board.take(vec![Note::GaveUp(waiter("a"))], 0);
    assert_eq!(told(&handed), [("b", Some(1))]);
    let handed = board.take(vec![Note::Taken(waiter("b")), Note::GaveUp(waiter("b"))], 0);
    assert!(handed.is_empty(), "{handed:?}");
}

/// Found in review: two who were paused had events of 250 KB each, and a healthy third one got none, for ever.
#[test]
fn who_is_paused_holds_up_nobody_for_ever() {
    let mut board = Board::default();
    let large = |first| event(first, 250_000, true, 24 * HOUR);
    let handed = board.take(
        vec![waits("a"), waits("b"), waits("c"), large(1), large(2), large(3)],
        0,
    );
    assert_eq!(told(&handed), [("a", Some(1)), ("b", Some(2))], "no more is kept aside");
    assert_eq!(board.looks_again_in(), Some(TOPIC_LENT_MIN));
    let mut board = stored(&board);
    assert!(board.take(Vec::new(), MINUTE - 1).is_empty(), "they may give it up yet");
    let handed = board.take(Vec::new(), MINUTE);
    assert_eq!(told(&handed), [("c", Some(3))]);
    assert_eq!((board.tally.presumed, board.looks_again_in()), (1, None));
    // What counts as taken is nobody else's, and what is kept aside is.
    let handed = board.take(vec![waits("d"), Note::Returned(waiter("a"))], MINUTE);
    assert!(handed.is_empty(), "{handed:?}");
    let handed = board.take(vec![Note::Returned(waiter("b"))], MINUTE);
    assert_eq!(told(&handed), [("d", Some(2))]);
}

/// Found in review: an event that was kept for a minute came back after ten hours, and the next one got it.
#[test]
fn what_comes_back_too_late_is_delivered_to_nobody() {
    let lent = || {
        let mut board = Board::default();
        let handed = board.take(vec![waits("a"), waits("b"), event(1, 1, true, MINUTE)], 0);
        assert_eq!(told(&handed), [("a", Some(1))]);
        board
    };
    let mut board = lent();
    let handed = board.take(vec![Note::GaveUp(waiter("a")), waits("c")], 10 * HOUR);
    assert!(handed.is_empty(), "{handed:?}");
    let mut board = lent();
    let handed = board.take(vec![Note::GaveUp(waiter("a"))], MINUTE - 1);
    assert_eq!(told(&handed), [("b", Some(1))], "it is in time");
}

/// An event that is not kept at all is for those who wait already: that the first of them has just left is nothing that
/// the next one could know.
#[test]
fn an_event_that_is_not_kept_passes_over_who_has_just_left() {
    let mut board = Board::default();
    let handed = board.take(vec![waits("a"), waits("b"), event(1, 1, true, 5)], 5);
    assert_eq!(told(&handed), [("a", Some(1))]);
    let handed = board.take(vec![waits("c"), Note::Returned(waiter("a"))], 50);
    assert_eq!(told(&handed), [("b", Some(1))]);
    let handed = board.take(vec![Note::Returned(waiter("b"))], 60);
    assert!(handed.is_empty(), "who came later does not get it: {handed:?}");
}

#[test]
fn an_event_for_all_waits_for_nobody() {
    let mut board = Board::default();
    let handed = board.take(vec![waits("a"), waits("b"), event(1, 1, false, HOUR)], 0);
    assert!(handed.is_empty() && board.is_spreading());
    assert_eq!(told(&board.spread()), [("a", Some(1)), ("b", Some(1))]);
    assert!(!board.is_spreading() && board.lent.len() == 0);
    // With nobody there it is kept, and the first who comes has it.
    let handed = board.take(vec![event(2, 1, false, HOUR), waits("c"), waits("d")], 0);
    assert_eq!(told(&handed), [("c", Some(2))]);
}

#[test]
fn an_event_for_all_is_handed_out_in_slices_that_fit_into_a_commit() {
    let mut board = Board::default();
    let names: Vec<_> = (0..20).map(|number| format!("w{number:02}")).collect();
    let mut notes: Vec<_> = names.iter().map(|name| waits(name)).collect();
    notes.push(event(1, EVENT_BYTES_MAX, false, HOUR));
    assert!(board.take(notes, 0).is_empty());
    let (mut heard, slice) = (Vec::new(), OUTGOING_BYTES_MAX / EVENT_BYTES_MAX);
    while board.is_spreading() {
        let handed = board.spread();
        assert!(!handed.is_empty() && handed.len() <= slice);
        heard.extend(handed.into_iter().map(|handed| handed.waiter.instance));
    }
    assert_eq!(heard, names, "each once, in the order in which they came");
}

/// Found in review: what was forgotten for want of room was forgotten without a word.
#[test]
fn the_oldest_are_forgotten_for_more_and_that_is_counted() {
    let mut board = Board::default();
    let many = u64::try_from(TOPIC_EVENTS_MAX).unwrap() + 3;
    let handed = board.take((0..many).map(|number| for_one(number as u8)).collect(), 0);
    assert!(handed.is_empty());
    assert_eq!((board.events.len(), board.tally.forgotten), (TOPIC_EVENTS_MAX, 3));
    assert_eq!(told(&board.take(vec![waits("a")], 0)), [("a", Some(3))]);
    board.tell("t", false);
    assert_eq!(board.tally, Tally::default(), "it is told once");
    let mut board = Board::default();
    let large = TOPIC_EVENT_BYTES_KEPT / 2;
    board.take(vec![event(1, large, true, HOUR), event(2, large, true, HOUR)], 0);
    assert_eq!(
        (board.events.len(), board.tally.forgotten),
        (1, 1),
        "they are bounded in bytes, too"
    );
    assert_eq!(told(&board.take(vec![waits("a")], 0)), [("a", Some(2))]);
    // What is too old is not lost.
    board.take(vec![for_one(4)], 0);
    board.take(Vec::new(), 24 * HOUR);
    assert_eq!((board.events.len(), board.tally.forgotten), (0, 1));
}

#[test]
fn who_is_one_too_many_is_told_so() {
    let mut board = Board::default();
    let names = (0..TOPIC_WAITERS_MAX).map(|number| waits(&number.to_string()));
    assert!(board.take(names.collect(), 0).is_empty());
    assert_eq!(told(&board.take(vec![waits("more")], 0)), [("more", None)]);
    // Those who have something count as well: they may have to be remembered for long.
    assert_eq!(
        told(&board.take(vec![for_one(1), waits("more")], 0)),
        [("0", Some(1)), ("more", None)]
    );
    assert!(board.take(vec![Note::Taken(waiter("0")), waits("more")], 0).is_empty());
    let mut board = Board::default();
    let long = |number: usize| format!("{number:0500}");
    let many = TOPIC_WAITER_BYTES_MAX / waiter(&long(0)).bytes();
    assert!(
        board
            .take((0..many).map(|number| waits(&long(number))).collect(), 0)
            .is_empty()
    );
    let more = long(many);
    assert_eq!(told(&board.take(vec![waits(&more)], 0)), [(more.as_str(), None)]);
    let handed = board.take(vec![Note::GaveUp(waiter(&long(7))), waits(&more)], 0);
    assert!(handed.is_empty(), "there is room again: {handed:?}");
}

#[test]
fn who_waits_already_does_not_wait_twice() {
    let mut board = Board::default();
    let handed = board.take(vec![waits("a"), waits("a"), for_one(1), waits("a"), for_one(2)], 0);
    assert_eq!(told(&handed), [("a", Some(1))]);
    assert_eq!((board.waiters.len(), board.lent.len(), board.events.len()), (0, 1, 1));
}

/// All bounds at once: as many waiters as there may be, what is kept, what is handed out, and events for all that came
/// with the last notes.
#[test]
fn what_it_remembers_at_most_fits_into_one_value() {
    let mut board = Board::default();
    let long = |number: usize| waits(&format!("{number:070}"));
    board.take((0..2).map(long).collect(), 0);
    let lent = TOPIC_EVENT_BYTES_LENT / 2 - 64;
    board.take(vec![event(1, lent, true, HOUR), event(2, lent, true, HOUR)], 0);
    assert_eq!(board.lent.len(), 2);
    let many = TOPIC_WAITERS_MAX.min(TOPIC_WAITER_BYTES_MAX / (70 + 32));
    board.take((2..many).map(long).collect(), 0);
    assert_eq!(board.waiters.len() + board.lent.len(), many);
    let taken = crate::limits::TAKEN_BYTES_MAX;
    let notes = (0..TOPIC_NOTES_MAX).map(|_| event(3, taken / TOPIC_NOTES_MAX, false, HOUR));
    board.take(notes.collect(), 0);
    let kept = TOPIC_EVENT_BYTES_KEPT / 2 - 64;
    board.take(vec![event(1, kept, true, HOUR), event(2, kept, true, HOUR)], 0);
    let bytes = Codecs::plain().pack(&board).unwrap().bytes.len();
    assert!(bytes <= TOPIC_BOARD_BYTES_MAX, "{bytes} bytes");
}

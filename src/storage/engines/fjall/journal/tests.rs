//! What the guard makes of journals that were damaged, cut short, or made to mislead it.

use super::frame::{BEGIN, END, ITEM, MARK};
use xxhash_rust::xxh3::xxh3_64;

use super::*;

fn batch(number: u64) -> Vec<u8> {
    with_value(number, b"123")
}

fn with_value(number: u64, value: &[u8]) -> Vec<u8> {
    let mut item = vec![ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    for _ in 0..2 {
        item.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    item.extend_from_slice(b"ab");
    item.extend_from_slice(value);
    let mut bytes = vec![BEGIN, 1, 0, 0, 0];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&item);
    bytes.push(END);
    bytes.extend_from_slice(&xxh3_64(&item).to_le_bytes());
    bytes.extend_from_slice(&MARK);
    bytes
}

fn batches(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| batch(*number)).collect()
}

/// Checks journals of these contents: where the last one is torn, if it is.
fn outcome(journals: &[(u64, Vec<u8>)]) -> Result<Option<u64>, String> {
    let directory = tempfile::tempdir().unwrap();
    for (id, bytes) in journals {
        std::fs::write(directory.path().join(format!("{id}.jnl")), bytes).unwrap();
    }
    let outcome = check(directory.path());
    for (id, bytes) in journals {
        assert_eq!(
            std::fs::read(directory.path().join(format!("{id}.jnl"))).unwrap(),
            *bytes
        );
    }
    outcome
        .map(|torn| torn.map(|torn| torn.at))
        .map_err(|refused| refused.to_string())
}

fn of_one(bytes: Vec<u8>) -> Result<Option<u64>, String> {
    outcome(&[(1, bytes)])
}

#[test]
fn a_new_database_has_none() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(check(&directory.path().join("none")).unwrap(), None);
}

#[test]
fn numbers_that_do_not_grow_are_found() {
    let with = |journals: &[&[u64]]| outcome(&(1..).zip(journals.iter().map(|it| batches(it))).collect::<Vec<_>>());
    assert_eq!(with(&[&[4, 5, 9], &[10, 12]]), Ok(None));
    assert!(with(&[&[4, 1, 9]]).is_err(), "lower than the one before");
    assert!(with(&[&[4, 13, 9]]).is_err(), "higher than the one behind");
    assert!(with(&[&[4, 4]]).is_err(), "the same twice");
    assert!(with(&[&[4, 5, 9], &[8]]).is_err(), "lower than in the journal before");
}

#[test]
fn a_sealed_journal_that_is_empty_missing_or_cut_off_is_found() {
    let with =
        |journals: &[(u64, &[u64])]| outcome(&journals.iter().map(|(id, it)| (*id, batches(it))).collect::<Vec<_>>());
    assert_eq!(with(&[(3, &[1, 2]), (4, &[3]), (5, &[])]), Ok(None));
    assert!(with(&[(3, &[]), (4, &[3])]).is_err(), "empty");
    assert!(with(&[(3, &[1]), (5, &[3])]).is_err(), "one is missing");
    let mut sealed = [batches(&[1, 2]), vec![0; 100_000]].concat();
    assert_eq!(outcome(&[(9, sealed.clone()), (10, batch(3))]), Ok(None));
    sealed.truncate(batch(1).len() + 20);
    let error = outcome(&[(9, sealed), (10, batch(3))]).unwrap_err();
    assert!(error.contains(&format!("at byte {}", batch(1).len())), "{error}");
}

#[test]
fn any_flipped_byte_is_found_if_a_batch_follows() {
    let length = batch(4).len();
    for at in length..2 * length {
        let mut journal = batches(&[4, 5, 6]);
        journal[at] ^= 0x80;
        assert!(of_one(journal).is_err(), "byte {at}");
    }
}

#[test]
fn what_a_crash_left_of_the_last_batch_is_torn() {
    let good = batches(&[4, 5]);
    let torn = with_value(6, &[1; 3000]);
    let at = Some(good.len() as u64);
    for length in 1..torn.len() {
        // Cut off, with and without zeros behind it; a hole up to the end; a hole in the middle.
        let cut = [&good, &torn[..length], &[0; 512]].concat();
        assert_eq!(of_one(cut), Ok(at), "cut at {length}");
        let missing = [&good, &vec![0; length][..], &torn[length..]].concat();
        assert_eq!(of_one(missing), Ok(at), "without its first {length} bytes");
        let mut hole = [&good[..], &torn].concat();
        let from = good.len() + length;
        let to = hole.len().min(from + 64);
        hole[from..to].fill(0);
        assert_eq!(of_one(hole), Ok(at), "a hole at {length}");
    }
    assert_eq!(of_one([&good[..], &[0; 4096]].concat()), Ok(None), "never written");
    let mut count = [&good[..], &torn].concat();
    count[good.len() + 1] = 2;
    assert_eq!(of_one(count.clone()), Ok(at), "too few items");
    count[good.len() + 1] = 0;
    assert_eq!(of_one(count.clone()), Ok(at), "too many items");
    assert!(of_one([count, batch(7)].concat()).is_err());
}

/// Where batches disagree about which of them is older, everything before the first that may be wrong is to be trusted.
#[test]
fn numbers_that_do_not_grow_say_which_batch_is_not_to_be_trusted() {
    let cut = |journals: &[&[u64]]| {
        let directory = tempfile::tempdir().unwrap();
        for (id, numbers) in journals.iter().enumerate() {
            std::fs::write(directory.path().join(format!("{id}.jnl")), batches(numbers)).unwrap();
        }
        let Err(Refused::Damaged(damage)) = check(directory.path()) else {
            panic!("{journals:?} is not damaged");
        };
        let name = damage.file.file_stem().unwrap().to_str().unwrap().to_owned();
        let behind = damage.behind.len();
        (name, damage.at as usize / batch(1).len(), behind)
    };
    let told = |name: &str, at, behind| (name.to_owned(), at, behind);
    assert_eq!(cut(&[&[4, 5, 1, 7]]), told("0", 2, 0), "it is too low");
    assert_eq!(cut(&[&[4, 13, 6, 7]]), told("0", 1, 0), "the one before it is too high");
    assert_eq!(
        cut(&[&[4, 5, 13], &[6]]),
        told("0", 2, 1),
        "and lies in another journal"
    );
    assert_eq!(cut(&[&[4, 5, 6], &[2, 8], &[9]]), told("1", 0, 1));
    assert_eq!(cut(&[&[4, 4]]), told("0", 0, 0), "it may be either");
}

/// Found in review: a batch that fjall had compressed was cut off as torn, and it was the last that was durable.
#[test]
fn a_compressed_batch_is_refused_and_not_cut() {
    let mut compressed = with_value(5, b"123");
    compressed[15] = 1;
    let (start, end) = (13, compressed.len() - 13);
    compressed[start + 13] = 200;
    let checksum = xxh3_64(&compressed[start..end]);
    compressed[end + 1..end + 9].copy_from_slice(&checksum.to_le_bytes());
    let error = of_one([batch(4), compressed].concat()).unwrap_err();
    assert!(error.contains("compressed"), "{error}");
}

#[test]
fn a_value_that_holds_a_batch_is_no_batch() {
    let mut journal = [batch(4), with_value(5, &[batch(9), vec![7; 2000]].concat())].concat();
    assert_eq!(of_one(journal.clone()), Ok(None));
    let at = journal.len() - 600;
    journal[at..at + 512].fill(0);
    assert_eq!(of_one(journal), Ok(Some(batch(4).len() as u64)));
}

/// Values can be made so that they begin many long chains of items; the search must not follow them all.
#[test]
fn the_search_ends_in_time() {
    let item = |length: u32| {
        let length = length.to_le_bytes();
        let mut item = vec![ITEM, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        item.extend_from_slice(&[length, length].concat());
        item
    };
    let mut journal = batch(4);
    for left in (0..1_000).rev() {
        journal.extend_from_slice(&[BEGIN, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
        journal.extend(item(left * 34));
    }
    journal.extend(std::iter::repeat_n(item(0), 5_000).flatten());
    let error = of_one([journal, vec![9]].concat()).unwrap_err();
    assert!(error.contains("at byte 52"), "{error}");
}

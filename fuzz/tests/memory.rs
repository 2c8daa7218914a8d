//! Reading takes no more memory than what is read is worth. One test, alone in its process: the counters are those
//! of the whole process.

use std::panic::catch_unwind;

use everstep::limits::KEY_BYTES_MAX;
use everstep_fuzz::memory::bounded;
use everstep_fuzz::{envelope, key};

#[test]
fn what_is_allocated_is_bounded_by_what_is_read() {
    // The ruler itself: it lets a fair reader through and stops one that believes a length.
    bounded(100, || vec![0_u8; 200]);
    assert!(catch_unwind(|| bounded(100, || vec![0_u8; 1 << 20])).is_err());

    // Large inputs whose elements are as small as elements get, so that what is in memory is largest beside what is
    // on disk: a list of a hundred thousand empty texts, and keys of nothing but numbers, pairs, or openings.
    let causes = 100_000_usize;
    let failure = [&[0, 0xa0, 0x8d, 0x06], vec![0; causes].as_slice()].concat();
    envelope::check(&[&[7, 1, 0, 0, 0], failure.as_slice()].concat());
    for pattern in [&[0x14][..], &[0x05, 0x14, 0x00], &[0x05, 0x00], &[0x02, 0x00], &[0x00]] {
        let mut bytes = pattern.repeat(KEY_BYTES_MAX / pattern.len());
        key::check(&bytes);
        bytes.splice(0..0, [0x14, 0x15, 0x01, 0x02, 0x61, 0x00, 0x15, 0x02]);
        key::check(&bytes[..KEY_BYTES_MAX]);
    }
    key::check(&vec![0x05; 16 << 20]);
    envelope::check(&vec![0xff; 16 << 20]);
}

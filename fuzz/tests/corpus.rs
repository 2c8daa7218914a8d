//! Every input of the corpus, through its target, every time.

use std::collections::BTreeMap;
use std::path::Path;

use everstep_fuzz::seeds::Seed;
use everstep_fuzz::{envelope, history, import, key, seeds};

fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    std::fs::read_dir(folder)
        .expect("there is a corpus")
        .map(|file| file.expect("the corpus is readable"))
        .map(|file| {
            let name = file.file_name().into_string().expect("file names are UTF-8");
            (name, std::fs::read(file.path()).expect("the corpus is readable"))
        })
        .collect()
}

fn replay(target: &str, check: fn(&[u8]), seeds: Vec<Seed>) {
    let corpus = corpus(target);
    for (name, bytes) in seeds {
        assert_eq!(
            corpus.get(name),
            Some(&bytes),
            "{target}/{name} is out of step; write the seeds again with `cargo run -p everstep-fuzz --bin seeds`"
        );
    }
    for bytes in corpus.values() {
        check(bytes);
        // Cut anywhere, it is another input.
        for end in 0..bytes.len() {
            check(&bytes[..end]);
        }
    }
}

#[test]
fn keys() {
    replay("key", key::check, seeds::keys());
}

#[test]
fn envelopes() {
    replay("envelope", envelope::check, seeds::envelopes());
}

#[test]
fn imports() {
    replay("import", import::check, seeds::imports());
}

#[test]
fn histories() {
    replay("history", history::check, seeds::histories());
}

//! Tests that need a process of their own: the test starts itself again, to play a part.

#![allow(clippy::print_stdout, reason = "a child says how it fares on its standard output")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Says to a child process which part it plays, and where.
const PART: &str = "EVERSTEP_TEST_PART";
const PLACE: &str = "EVERSTEP_TEST_PLACE";

/// Starts this test once more, in a process of its own and behind `wrapper`, to play a part.
pub(crate) fn child(wrapper: &[&str], test: &str, part: &str, place: &Path) -> Child {
    let exe = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(Into::into).chain([exe.into_os_string()]);
    Command::new(words.next().unwrap())
        .args(words)
        .args(["--exact", test, "--nocapture"])
        .env(PART, part)
        .env(PLACE, place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The part that this process plays, if it is a child.
pub(crate) fn part() -> Option<(String, PathBuf)> {
    Some((std::env::var(PART).ok()?, std::env::var(PLACE).unwrap().into()))
}

pub(crate) fn say(line: &str) {
    println!("\nEVERSTEP {line}");
    std::io::stdout().flush().unwrap();
}

pub(crate) fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.filter_map(|line| line.strip_prefix("EVERSTEP ").map(str::to_owned))
}

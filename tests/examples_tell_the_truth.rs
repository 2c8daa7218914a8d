//! Every example prints what its header says, so that none of them can rot.
//!
//! The header has a block `//! Output:`; the example is built, run, and its output compared with it, line by line.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The longest that an example may be: one idea fits.
const LINES_MAX: usize = 100;

struct Example {
    name: String,
    text: String,
}

impl Example {
    /// The lines that the header promises.
    fn promised(&self) -> Vec<&str> {
        let mut header = self.text.lines().map_while(|line| line.strip_prefix("//!"));
        let found = header.any(|line| line.trim() == "Output:");
        assert!(found, "{} does not say what it prints (`//! Output:`)", self.name);
        let block = header.skip_while(|line| line.trim() != "```text").skip(1);
        let lines = block.take_while(|line| line.trim() != "```");
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect()
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// In reading order.
fn examples() -> Vec<Example> {
    let files = std::fs::read_dir(root().join("examples")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| Example {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        text: std::fs::read_to_string(&path).unwrap(),
    };
    paths.into_iter().map(read).collect()
}

/// Builds the examples with the features and the profile of this test, and says where they are.
fn build() -> PathBuf {
    let folder = std::env::current_exe().unwrap();
    let profile = folder.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(root())
        .args(["build", "--quiet", "--package", "everstep", "--examples"]);
    if cfg!(feature = "testing") {
        cargo.arg("--all-features");
    }
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "the examples compile");
    profile.join("examples")
}

#[test]
fn every_example_prints_what_its_header_says() {
    let (folder, mut wrong) = (build(), Vec::new());
    let started = examples().into_iter().filter(|example| {
        // It shows the kit, which this build may not have.
        cfg!(feature = "testing") || !example.text.contains("everstep::testing")
    });
    let started: Vec<_> = started
        .map(|example| {
            let mut program = Command::new(folder.join(&example.name));
            let program = program
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            (program.spawn().unwrap(), example)
        })
        .collect();
    for (child, example) in started {
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || !printed.lines().eq(example.promised()) {
            let promised = example.promised().join("\n");
            wrong.push(format!(
                "{} ({}) promises\n{promised}\nand prints\n{printed}{errors}",
                example.name, output.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn examples_are_short_and_numbered_in_reading_order() {
    let mut last = 0;
    for example in examples() {
        let lines = example.text.lines().count();
        assert!(lines < LINES_MAX, "{} has {lines} lines", example.name);
        let number: u32 = example.name[..2].parse().unwrap();
        assert!(number > last, "{}: there is another {number}", example.name);
        assert!(!example.promised().is_empty(), "{} prints nothing", example.name);
        last = number;
    }
}

//! FAULTS 33: a program whose panics abort does not compile, and is told why.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by unwrapping it")]

use std::path::Path;
use std::process::{Command, Output};

/// Compiles the file that guards against it, alone.
fn compile(panics: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let guard = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/unwinding.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Command::new(rustc)
        .args(["--crate-type=lib", "--emit=metadata", "--edition=2024", "-C"])
        .arg(format!("panic={panics}"))
        .arg("--out-dir")
        .arg(directory.path())
        .arg(guard)
        .output()
        .unwrap()
}

#[test]
fn aborting_is_refused_with_the_reason() {
    let unwinds = compile("unwind");
    assert!(unwinds.status.success(), "{}", String::from_utf8_lossy(&unwinds.stderr));
    let aborts = compile("abort");
    let said = String::from_utf8_lossy(&aborts.stderr);
    assert!(
        !aborts.status.success() && said.contains("everstep needs panics that unwind"),
        "{said}"
    );
}

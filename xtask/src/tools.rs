//! What a fresh machine may lack. Everything here asks first, says what it is
//! about to install, and needs no answer from a person.

use std::process::Command;

use crate::error::{Error, Result};
use crate::shell;

/// A program that comes from Debian.
struct Program {
    name: &'static str,
    packages: &'static [&'static str],
}

/// What the tests need from the system. (`cc` also links this very program, so
/// it is only missing here when another linker is configured; `.ci/run`
/// installs it before the first build.)
const PROGRAMS: &[Program] = &[Program {
    name: "cc",
    packages: &["gcc", "libc6-dev"],
}];

/// Makes sure that every system program the tests use is there.
pub(crate) fn install_programs() -> Result {
    for program in PROGRAMS {
        if has(program.name) {
            println!("{} is there", program.name);
        } else {
            install_packages(program)?;
        }
    }
    Ok(())
}

fn has(name: &str) -> bool {
    shell::succeeds(Command::new("sh").args(["-c", "command -v \"$1\"", "sh", name]))
}

fn install_packages(program: &Program) -> Result {
    let packages = program.packages.join(" ");
    println!("{} is missing; installing the Debian packages {packages}", program.name);
    if !has("apt-get") {
        return Err(Error::NotDebian {
            program: program.name,
            packages,
        });
    }
    if shell::output(Command::new("id").arg("-u"))?.trim_ascii() != b"0" {
        return Err(Error::NotRoot {
            program: program.name,
            packages,
        });
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    shell::run(apt().arg("update"))?;
    shell::run(
        apt()
            .args(["install", "--yes", "--no-install-recommends"])
            .args(program.packages),
    )
}

/// Makes sure that there is a C++ compiler, for libFuzzer.
pub(crate) fn install_cplusplus() -> Result {
    if has("c++") {
        return Ok(());
    }
    install_packages(&Program {
        name: "c++",
        packages: &["g++"],
    })
}

/// Makes sure that `cargo deny` is there.
pub(crate) fn install_deny() -> Result {
    if has_subcommand("deny") {
        return Ok(());
    }
    println!("cargo-deny is missing; installing it from source, which takes some minutes");
    shell::run(shell::cargo().args(["install", "--locked", "cargo-deny"]))
}

/// Makes sure that a part of the toolchain (`fmt`, `clippy`) is there.
pub(crate) fn install_component(subcommand: &str, component: &str) -> Result {
    if has_subcommand(subcommand) {
        return Ok(());
    }
    println!("{component} is missing; adding it to the toolchain");
    shell::run(Command::new("rustup").args(["component", "add", component]))
}

/// Whether `cargo NAME` can be run.
pub(crate) fn has_subcommand(name: &str) -> bool {
    shell::succeeds(shell::cargo().args([name, "-h"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_noticed() {
        assert!(has("sh"));
        assert!(!has("no-such-program-at-all"));
        assert!(has_subcommand("test"));
        assert!(!has_subcommand("no-such-subcommand-at-all"));
    }
}

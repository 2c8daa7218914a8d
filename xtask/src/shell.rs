//! Running other programs: each one is shown before it starts, and a failure
//! names the whole command line, so that it can be pasted and run again.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// The cargo that started us, so that a chosen toolchain stays chosen.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Shows the command, runs it on our own terminal, and fails if it does.
pub(crate) fn run(command: &mut Command) -> Result {
    let line = line(command);
    println!("$ {line}");
    let status = command.status().map_err(|source| Error::Start {
        command: line.clone(),
        source,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Failed { command: line, status })
    }
}

/// Runs a command for what it prints; its complaints still reach the terminal.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let line = line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|source| Error::Start {
            command: line.clone(),
            source,
        })?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(Error::Failed {
            command: line,
            status: output.status,
        })
    }
}

/// Whether a command can be started and succeeds. Silent: this asks, it does not act.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it: the variables it sets, the program's
/// plain name, its arguments, quoted where a shell would split them.
fn line(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.display(), quoted(&value.to_string_lossy()));
        }
    }
    let program = command.get_program().to_string_lossy();
    line.push_str(program.rsplit('/').next().unwrap_or(&program));
    for argument in command.get_args() {
        let _ = write!(line, " {}", quoted(&argument.to_string_lossy()));
    }
    line
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_pasted_into_a_shell() {
        let mut command = Command::new("/usr/bin/cargo");
        command
            .env("RUSTDOCFLAGS", "-D warnings")
            .args(["test", "--", "it's", ""]);
        assert_eq!(line(&command), r"RUSTDOCFLAGS='-D warnings' cargo test -- 'it'\''s' ''");
    }

    #[test]
    fn a_failure_names_the_command() {
        let error = run(Command::new("false").arg("x")).unwrap_err();
        assert!(error.to_string().starts_with("`false x` failed"), "{error}");
        let error = run(&mut Command::new("no-such-program-at-all")).unwrap_err();
        assert!(
            error.to_string().contains("could not start `no-such-program-at-all`"),
            "{error}"
        );
    }

    #[test]
    fn output_is_refused_from_a_failing_command() {
        assert_eq!(output(Command::new("echo").arg("x")).unwrap(), b"x\n");
        assert!(output(&mut Command::new("false")).is_err());
    }
}

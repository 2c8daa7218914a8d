//! Runs a target over files, without libFuzzer: to see again what an input did.

use std::io;
use std::path::PathBuf;

/// Runs `target` over every file named on the command line.
pub fn run(target: fn(&[u8])) -> io::Result<()> {
    for path in std::env::args_os().skip(1).map(PathBuf::from) {
        target(&std::fs::read(path)?);
    }
    Ok(())
}

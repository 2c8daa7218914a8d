//! The one list of commands that this project keeps.

fn main() {}

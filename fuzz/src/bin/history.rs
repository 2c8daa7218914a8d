//! The fuzz target for histories. See `everstep_fuzz::history`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| everstep_fuzz::history::check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    everstep_fuzz::replay::run(everstep_fuzz::history::check)
}

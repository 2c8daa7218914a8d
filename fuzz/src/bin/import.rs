//! The fuzz target for export files. See `everstep_fuzz::import`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| everstep_fuzz::import::check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    everstep_fuzz::replay::run(everstep_fuzz::import::check)
}

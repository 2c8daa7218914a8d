//! The fuzz target for keys. See `everstep_fuzz::key`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| everstep_fuzz::key::check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    everstep_fuzz::replay::run(everstep_fuzz::key::check)
}

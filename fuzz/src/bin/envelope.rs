//! The fuzz target for values. See `everstep_fuzz::envelope`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| everstep_fuzz::envelope::check(data));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    everstep_fuzz::replay::run(everstep_fuzz::envelope::check)
}

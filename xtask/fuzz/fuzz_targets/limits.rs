//! Fuzzes the texts of limits.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::limits(data));

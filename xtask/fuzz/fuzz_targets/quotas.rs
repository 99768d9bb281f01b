//! Fuzzes the texts of quotas and closed times.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::quotas(data));

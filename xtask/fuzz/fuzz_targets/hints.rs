//! Fuzzes the headers in which a service names its limits.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::hints(data));

//! Fuzzes files of messages to plan.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::messages(data));

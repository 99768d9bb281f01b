//! Fuzzes the replies of servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::replies(data));

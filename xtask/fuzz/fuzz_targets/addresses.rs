//! Fuzzes the headers in which proxies name a client's address.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| xtask_fuzz::addresses(data));

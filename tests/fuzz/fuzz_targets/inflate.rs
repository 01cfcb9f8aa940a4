//! Any bytes as compressed messages, to a client.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plugsock_fuzz::inflate(input));

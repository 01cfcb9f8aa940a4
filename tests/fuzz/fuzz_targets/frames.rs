//! Any bytes as frames, to either role.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plugsock_fuzz::frames(input));

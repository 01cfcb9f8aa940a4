//! Any bytes as a response, to the client's side of the handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plugsock_fuzz::response(input));

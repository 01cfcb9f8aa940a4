//! Any bytes as a request, to the server's side of the handshake.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plugsock_fuzz::handshake(input));

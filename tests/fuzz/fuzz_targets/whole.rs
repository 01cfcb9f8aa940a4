//! Any script for a whole connection, against the model of the simulation.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plugsock_fuzz::whole(input));

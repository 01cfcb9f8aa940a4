//! The protocol from outside, through its public API only: bytes in, events and bytes out.

mod closing;
mod framing;
mod handshake;
mod limits;
mod random;
mod support;

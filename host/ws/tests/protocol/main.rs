//! The protocol from outside, through its public API only: bytes in, events and bytes out.

mod bombs;
mod closing;
mod deflate;
mod deflate_random;
mod framing;
mod handshake;
mod limits;
mod negotiation;
mod puff;
mod random;
mod support;

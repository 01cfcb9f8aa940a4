//! Steps 2 and 3: one socket's life.

mod closing;
mod compression;
mod deflate;
mod ending;
mod fragments;
mod framing;
mod handshake;
mod heartbeat;
mod inflating;
mod resets;
mod slow;

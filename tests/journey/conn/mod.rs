//! Steps 2 and 3: one socket's life.

mod closing;
mod framing;
mod handshake;
mod heartbeat;

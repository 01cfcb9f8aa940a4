//! How often a message allocates once its connection and the buffers are warm. The numbers are
//! exact: one that rises is a change to be explained, one that falls a change to be kept.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod counter;
mod host;
mod protocol;

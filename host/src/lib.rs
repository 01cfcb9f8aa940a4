//! Plugsock: a WebSocket server platform. The host owns the sockets; the business logic runs as
//! sandboxed WebAssembly components.
//!
//! The modules in the order in which a message travels:
//!
//! 1. [`listen`]: a client is let in.
//! 2. [`shard`]: one I/O thread and its turns.
//! 3. [`conn`]: one socket's life; bytes become messages (crate `plugsock-ws`).
//! 4. [`inbound`]: bounded queues to the workers.
//! 5. [`worker`]: a handler is called in an instance of the [`plugin`].
//! 6. [`outbound`]: its effects go back to the shards; [`shard`] carries them out, [`conn`] writes.
//!
//! Around them: [`config`] and [`cli`] come from the operator, [`files`] serves plain requests,
//! [`metrics`] counts, [`app`] puts everything together. [`bench`](mod@bench), a load generator, is
//! a program of its own beside the host.

pub mod types;

pub mod clock;
pub mod metrics;
pub mod task;

pub mod listen;

pub mod shard;

pub mod conn;

pub mod inbound;

pub mod worker;

pub mod plugin;

pub mod outbound;

pub mod files;

pub mod app;
pub mod bench;
pub mod cli;
pub mod config;

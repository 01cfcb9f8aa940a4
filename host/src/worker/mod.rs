//! Step 5: handlers run, on threads of their own.
//!
//! A worker thread runs several *lanes*, each of which has one handler in flight at a time. One
//! lane does the work while handlers return at once; where a handler waits, or computes for longer
//! than a tick, its lane waits with it and the next lane takes over. So a slow handler delays its
//! own connection only, and `pool_size` counts handlers in flight, not threads.

mod config;
mod host;
mod lane;
mod pool;

use std::sync::Arc;

pub use config::Config;
pub use pool::Pool;

use crate::inbound::Inbound;
use crate::metrics::Metrics;
use crate::outbound::{Effects, Encoding, Shared};
use crate::plugin::{Engine, Table};

/// What all workers have in common.
#[derive(Debug)]
pub struct Env {
    /// Where work comes from.
    pub inbound: Arc<Inbound>,
    /// Where its effects go.
    pub shared: Arc<Shared>,
    /// Which version serves each plugin.
    pub table: Table<Effects>,
    /// What runs them.
    pub engine: Engine,
    /// What happens to a connection whose handler fails, by plugin.
    pub on_failure: Box<[OnFailure]>,
    /// How the messages leave that handlers send.
    pub encoding: Encoding,
    /// The host's counters. Worker `n` counts as thread `shards + n`.
    pub metrics: Arc<Metrics>,
}

/// What happens to a connection whose handler trapped or ran out of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It lives on; the message is lost, counted and logged.
    #[default]
    Drop,
    /// It is closed with 1011.
    Close,
}

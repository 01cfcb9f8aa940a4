//! Step 5: handlers run, on threads of their own.
//!
//! ```text
//!             ┌► hand ─ plugins that only compute: plain calls
//!  inbound ─► crew        │ one takes longer than a tick: another thread of the crew goes on
//!             │           ▼
//!             └► inbox ─► lanes ─ plugins that can wait: calls that can be suspended
//! ```
//!
//! Each worker is a *crew* of threads of which one at a time takes work from the queues. It runs
//! the handlers of plugins that cannot wait itself; where one computes for longer than a tick,
//! another thread of the crew takes over. What is for plugins that can wait goes to threads with
//! several *lanes*, each of which has one handler in flight at a time; where one waits or computes
//! for longer than a tick, the next lane takes over. So a slow handler delays its own connection
//! only, and `pool_size` counts handlers in flight.
//!
//! A shard is a crew too, whose role has the shard's sockets: where little came, its hand runs the
//! handlers at once, and who stands in for a slow one goes on with the sockets.

mod config;
mod crew;
mod desk;
mod hand;
mod inbox;
mod inline;
mod instances;
mod lane;
mod ledger;
mod pool;

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

pub use config::Config;
pub use desk::Desk;
pub use inline::Io;
pub use pool::Pool;

use inbox::Inbox;
use instances::Singles;

use crate::inbound::Inbound;
use crate::metrics::Metrics;
use crate::outbound::{Encoding, Shared};
use crate::plugin::{Engine, Table};

/// Threads of a shard: one has its sockets, and one can take them over. So many handlers are in
/// flight there at most.
pub const SHARD_THREADS: usize = 2;
/// Events of one connection that are handled before others have their turn.
const QUANTUM: u32 = 16;

/// What all workers have in common with the rest of the host.
#[derive(Debug)]
pub struct Env {
    /// Where work comes from.
    pub inbound: Arc<Inbound>,
    /// Where its effects go.
    pub shared: Arc<Shared>,
    /// Which version serves each plugin.
    pub table: Table<Desk>,
    /// What runs them.
    pub engine: Engine,
    /// What happens to a connection whose handler fails, by plugin.
    pub on_failure: Box<[OnFailure]>,
    /// How the messages leave that handlers send.
    pub encoding: Encoding,
    /// The host's counters. Worker `n` counts as threads `shards + n` and `shards + workers + n`.
    pub metrics: Arc<Metrics>,
}

/// What they have in common among themselves.
#[derive(Debug)]
struct Common {
    env: Arc<Env>,
    crews: usize,
    singles: Arc<Singles>,
    inbox: Inbox,
    /// Runs that are out and not in the hands of a thread that takes work: with a lane, or with a
    /// thread that gave its role away. More may be queued behind them.
    abroad: AtomicUsize,
    /// No more work is submitted.
    closing: AtomicBool,
    /// Nothing is put into the inbox any more.
    crews_are_gone: AtomicBool,
}

impl Common {
    fn new(env: Arc<Env>, crews: usize) -> Self {
        Self {
            crews,
            singles: env.on_failure.iter().map(|_| Mutex::default()).collect(),
            inbox: Inbox::new(crews),
            abroad: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            crews_are_gone: AtomicBool::new(false),
            env,
        }
    }
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

//! Step 3: one socket's life.
//!
//! ```text
//!                            closing handshake complete
//!  accept ─► Handshake ──► Open ──────► Departing ──────► Gone
//!                │  └────► Responding ──────┐             ▲ ▲
//!                └── refusal ───────────────┴► Lingering ─┘ │
//!                    reset, end of stream, deadline ────────┘
//! ```
//!
//! A connection is a plain value in its shard's slab: no task, no lock, no buffer of its own while
//! nothing is incomplete. The shard calls it when its socket is ready ([`Conn::read`],
//! [`Conn::write_out`]), when workers have answered ([`Conn::push`], [`Conn::handled`],
//! [`Conn::close`]) and when its deadline has passed ([`Conn::expire`]). What it wants to send is
//! noted in the turn's [`Pieces`] and leaves at the end of the turn in one write ([`Conn::flush`]).

mod config;
mod deliver;
mod output;
mod phase;
mod route;
mod session;
mod socket;
mod upgrade;

pub use config::{Compression, Config, Heartbeat, SlowConsumer};
pub use deliver::Parcel;
pub use output::{Pieces, Source};
pub use phase::Conn;
pub use route::{PagePermit, Pages, Route, Routes, Target};

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use plugsock_ws::Limits;
use plugsock_ws::deflate::Codec;
use plugsock_ws::handshake::HeadLimits;

use crate::inbound::{Batch, Inbound};
use crate::metrics::{Counter, Metrics};
use crate::outbound::{Shared, Topics};

/// Seconds after which a client may try again where the host is full or stops.
pub const RETRY_AFTER_S: u32 = 5;

/// What all connections of a shard have in common.
#[derive(Debug)]
pub struct Env {
    /// Which shard this is.
    pub shard: usize,
    /// Limits and times.
    pub config: Config,
    /// The protocol's limits.
    pub limits: Limits,
    /// The request head's limits.
    pub head_limits: HeadLimits,
    /// What is served at which path.
    pub routes: Arc<Routes>,
    /// Files for plain requests, where there are any.
    pub pages: Option<Arc<dyn Pages>>,
    /// The way to the workers.
    pub inbound: Arc<Inbound>,
    /// What workers know of the connections.
    pub shared: Arc<Shared>,
    /// The host's counters.
    pub metrics: Arc<Metrics>,
    /// Bytes that the windows of all connections with context takeover may take by now; shared by
    /// all shards.
    pub windows: Arc<AtomicUsize>,
}

/// What a connection may use of its shard during one turn.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Does not change.
    pub env: &'a Env,
    /// What goes to the workers.
    pub batch: &'a mut Batch,
    /// What goes to the sockets.
    pub pieces: &'a mut Pieces,
    /// Inflates and deflates.
    pub codec: &'a mut Codec,
    /// Who is subscribed to what.
    pub topics: &'a mut Topics,
    /// Coarse time.
    pub now: Tick,
}

impl Turn<'_> {
    /// Hands the batch over before the turn ends, if it is full.
    fn submit_if_full(&mut self) {
        if self.batch.is_full() {
            let batch = std::mem::take(self.batch);
            *self.batch = self.env.inbound.submit(self.env.shard, batch);
        }
    }

    fn count(&self, counter: Counter) {
        self.count_many(counter, 1);
    }

    fn count_many(&self, counter: Counter, by: u64) {
        self.env.metrics.add(self.env.shard, counter, by);
    }
}

/// Coarse time: tenths of a second since the shard started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u32);

impl Tick {
    /// Ticks per second.
    pub const PER_SECOND: u32 = 10;
    /// Later than anything.
    pub const NEVER: Self = Self(u32::MAX);

    /// So much later, rounded up to whole ticks.
    #[must_use]
    pub fn after(self, time: std::time::Duration) -> Self {
        let ticks = time.as_millis().div_ceil(1_000 / u128::from(Self::PER_SECOND));
        Self(self.0.saturating_add(u32::try_from(ticks).unwrap_or(u32::MAX)))
    }
}

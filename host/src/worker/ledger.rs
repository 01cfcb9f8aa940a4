//! What a worker has done and nobody has seen yet.

use std::sync::Arc;

use super::{Env, OnFailure};
use crate::inbound::{Ticket, Work};
use crate::metrics::Counter;
use crate::outbound::{Effects, Outgoing};
use crate::plugin::{Failure, Version};
use crate::types::ConnectionId;

use super::desk::Desk;

/// Events whose effects are posted together, at most.
const SETTLE_EVENTS: usize = 512;
/// Failures that one worker logs per second; the rest is counted.
const LOGGED_PER_SECOND: u32 = 10;
/// Ticks of the guests' clock per second.
const TICKS_PER_SECOND: u64 = 1_000;

/// Collects the effects of calls that have returned, and the runs that are over, until they are
/// [settled](Ledger::settle) together.
#[derive(Debug)]
pub(super) struct Ledger {
    env: Arc<Env>,
    /// Counts as this thread.
    counting: usize,
    /// It is a shard's thread, which never waits for a shard.
    of_shard: bool,
    outgoing: Outgoing,
    tickets: Vec<Ticket>,
    events: usize,
    bytes: usize,
    tick: u64,
    log: Log,
}

/// Keeps a plugin that fails on every message from filling the disk.
#[derive(Debug, Default)]
struct Log {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Ledger {
    pub(super) fn new(env: &Arc<Env>, counting: usize) -> Self {
        Self {
            env: Arc::clone(env),
            counting,
            of_shard: counting < env.shared.hub.shards(),
            outgoing: Outgoing::new(Arc::clone(&env.shared)),
            tickets: Vec::new(),
            events: 0,
            bytes: 0,
            tick: 0,
            log: Log::default(),
        }
    }

    /// A call has returned: its effects count.
    pub(super) fn absorb(&mut self, effects: &mut Effects) {
        self.outgoing.absorb(effects);
        if self.outgoing.is_full() {
            self.post();
        }
    }

    /// What was asked for so far leaves, so that nothing that is flushed in mid-call overtakes it.
    pub(super) fn post(&mut self) {
        if self.of_shard {
            self.outgoing.post_now();
        } else {
            self.outgoing.post();
        }
    }

    /// A call has failed: it leaves nothing but a count and a line in the log.
    pub(super) fn fail(&mut self, version: &Version<Desk>, conn: ConnectionId, failure: &Failure) {
        let env = &self.env;
        env.metrics.add(self.counting, Counter::HandlerFailures, 1);
        let policy = env.on_failure.get(usize::from(version.id().0)).copied().unwrap_or_default();
        if policy == OnFailure::Close {
            self.outgoing.close(conn, 1011, "the plugin failed");
        }
        if let Some(suppressed) = self.log.admit(env.engine.ticks() / TICKS_PER_SECOND) {
            let (plugin, digest, reason) = (version.name(), version.digest(), failure.label());
            tracing::warn!(plugin, digest, %conn, reason, suppressed, "message dropped: {failure}");
        }
    }

    /// The connection's end, its last event, has been handled.
    pub(super) fn finished(&mut self, conn: ConnectionId) {
        self.env.shared.notes.end(conn);
        self.outgoing.finished(conn);
    }

    /// So many events of a run have been handled; those behind them come first at the connection's
    /// next turn.
    pub(super) fn enter(&mut self, work: &Work, events: u32, bytes: usize) {
        self.env.inbound.put_back(work, events);
        self.tickets.push(work.ticket());
        self.events += events as usize;
        self.bytes += bytes;
        self.outgoing.handled(work.conn(), events, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Whether others have waited long enough: a tick is over, or there is much.
    pub(super) fn is_due(&mut self) -> bool {
        let tick = self.env.engine.ticks();
        let late = std::mem::replace(&mut self.tick, tick) != tick;
        late || self.events >= SETTLE_EVENTS
    }

    /// Posts the effects of all that is done and lets those connections go on. Returns how many
    /// runs there were.
    pub(super) fn settle(&mut self) -> usize {
        self.post();
        let runs = self.tickets.len();
        if runs > 0 {
            let env = &self.env;
            env.inbound.release(&mut self.tickets);
            if env.inbound.room().give(self.events, self.bytes) {
                env.shared.hub.ring_all();
            }
            (self.events, self.bytes) = (0, 0);
        }
        runs
    }
}

impl Log {
    /// Whether a failure may be logged in this second; if so, how many were not before it.
    fn admit(&mut self, second: u64) -> Option<u64> {
        if second != self.second {
            (self.second, self.written) = (second, 0);
        }
        if self.written >= LOGGED_PER_SECOND {
            self.suppressed += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

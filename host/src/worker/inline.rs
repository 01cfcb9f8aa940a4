//! A shard's thread: its sockets, and what handlers it runs itself.
//!
//! Where a turn brings little, waking a worker and being woken by it costs more than the handlers.
//! So the thread that has read the messages calls the handlers on the spot, as long as they are of
//! plugins that only compute and have been quick so far. One that turns out to compute for longer
//! than a tick does not hold up the sockets: another thread of the crew goes on with them.

use std::fmt::Debug;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::QUANTUM;
use super::crew::Role;
use super::hand::Hand;
use crate::clock;
use crate::inbound::Batch;
use crate::types::PluginId;

/// Events of one turn that its thread handles itself, at most: with more at a time, two threads
/// that each do one thing are faster even on one core.
const LITTLE: usize = 32;
/// Their bytes, at most: to compress an answer takes time that no tick ends.
const LITTLE_BYTES: usize = 16 * 1024;
/// Handlers may keep the sockets waiting for so long in one turn; the rest is for a worker.
const BUDGET: Duration = Duration::from_micros(100);
/// For how long the workers handle what is for a plugin after it has used up the budget alone.
const SHUNNED: Duration = Duration::from_millis(100);
/// The same where it has done so again and again.
const SHUNNED_MOST: Duration = Duration::from_secs(60);

/// The sockets of a shard. All of it is done by whichever thread has the role, in this order.
pub trait Io: Debug + Send {
    /// Waits for sockets or for a handler's effects, and reads what came.
    ///
    /// # Errors
    /// Those of the system; the shard cannot go on.
    fn gather(&mut self) -> io::Result<()>;

    /// What came for handlers and nobody has been told of.
    fn batch(&mut self) -> &mut Batch;

    /// Carries out what handlers have asked for, and writes. False when the last connection has
    /// gone and no other will come.
    fn deliver(&mut self) -> bool;
}

/// How one plugin has behaved on a shard's thread.
#[derive(Debug, Default)]
pub(super) struct Slowness {
    /// Not to be called there before.
    until: Option<Instant>,
    /// For how long that was; shrinks with each run that is quick.
    shunned: Duration,
}

impl Hand<'_> {
    /// Does a shard's work until another thread has the role or all is over.
    pub(super) fn tend(&mut self) {
        while let Some(io) = self.io() {
            if let Err(error) = io.gather() {
                return self.crew.end(Err(error));
            }
            self.dispatch();
            let Some(io) = self.io() else { return };
            let goes_on = io.deliver();
            self.dispatch();
            if !goes_on {
                return self.crew.end(Ok(()));
            }
        }
    }

    fn io(&mut self) -> Option<&mut Box<dyn Io>> {
        self.role()?.io.as_mut()
    }

    /// Sees to it that what came is handled: here, or by a worker.
    fn dispatch(&mut self) {
        let (crew, env) = (self.crew, &self.crew.common.env);
        let Some(batch) = self.io().map(|io| mem::take(io.batch())) else { return };
        if batch.is_empty() {
            return;
        }
        let is_little = batch.messages() <= LITTLE
            && batch.bytes() <= LITTLE_BYTES
            && !env.shared.hub.is_any_full();
        let start = clock::now();
        let here = is_little
            && crew.has_idle()
            && batch.plugins().all(|plugin| self.may_call(plugin, start));
        let spare = env.inbound.put(crew.number, batch);
        if let Some(io) = self.io() {
            *io.batch() = spare;
        }
        if !(here && self.handle_near(start)) {
            env.inbound.tell(crew.number);
        }
    }

    /// Handles what lies near, while it takes little time. False if a worker has to do the rest.
    fn handle_near(&mut self, start: Instant) -> bool {
        let (crew, env) = (self.crew, &self.crew.common.env);
        let _busy = env.engine.busy();
        let mut now = start;
        loop {
            let Some(work) = env.inbound.take_near(crew.number, QUANTUM) else {
                let Some(role) = self.role() else { return true };
                if role.ledger.settle() > 0 {
                    continue;
                }
                return true;
            };
            let plugin = work.plugin();
            if !self.may_call(plugin, now) {
                // Another shard's, which came to lie here.
                let Some(role) = self.role() else { return true };
                role.ledger.enter(&work, 0, 0);
                role.ledger.settle();
                return false;
            }
            let version = self.role().and_then(|role| role.version(&crew.common, plugin).cloned());
            self.handle(work, version.as_ref());
            let before = mem::replace(&mut now, clock::now());
            // Whoever has the role now goes on.
            let Some(role) = self.role() else { return true };
            if let Some(slowness) = role.slowness.get_mut(usize::from(plugin.0)) {
                slowness.note(now - before, now);
            }
            if now - start >= BUDGET || env.shared.hub.is_any_full() {
                role.ledger.settle();
                return false;
            }
        }
    }

    /// Whether a plugin's handlers may keep the sockets waiting.
    fn may_call(&mut self, plugin: PluginId, now: Instant) -> bool {
        let common = Arc::clone(&self.crew.common);
        let Some(role) = self.role() else { return false };
        role.version(&common, plugin).is_some_and(|version| {
            let facts = version.facts();
            // What is flushed in mid-call might have to wait for room in a mailbox.
            !facts.waits && !facts.flushes
        }) && role.is_quick(plugin, now)
    }
}

impl Role {
    fn is_quick(&self, plugin: PluginId, now: Instant) -> bool {
        let slowness = self.slowness.get(usize::from(plugin.0));
        slowness.is_some_and(|slowness| slowness.until.is_none_or(|until| until <= now))
    }
}

impl Slowness {
    /// Handlers of one run have taken so long.
    fn note(&mut self, took: Duration, now: Instant) {
        if took < BUDGET {
            self.shunned -= self.shunned / 256;
        } else {
            self.shunned = (self.shunned * 2).clamp(SHUNNED, SHUNNED_MOST);
            self.until = Some(now + self.shunned);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_slow_again_and_again_is_shunned_for_ever_longer() {
        let mut slowness = Slowness::default();
        let now = clock::now();
        slowness.note(BUDGET / 2, now);
        assert_eq!(slowness.until, None);
        for factor in [1, 2, 4] {
            slowness.note(BUDGET, now);
            assert_eq!(slowness.until, Some(now + SHUNNED * factor));
        }
        for _ in 0..20 {
            slowness.note(Duration::from_secs(1), now);
        }
        assert_eq!(slowness.until, Some(now + SHUNNED_MOST));
    }

    #[test]
    fn who_is_quick_for_long_is_forgiven() {
        let mut slowness = Slowness::default();
        let now = clock::now();
        (0..5).for_each(|_| slowness.note(BUDGET, now));
        for _ in 0..2_000 {
            slowness.note(Duration::from_micros(1), now);
        }
        slowness.note(BUDGET, now);
        assert_eq!(slowness.until, Some(now + SHUNNED));
    }
}

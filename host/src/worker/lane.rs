//! One handler in flight at a time: envelope, lease, call, effects.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::str;
use std::sync::{Arc, Mutex, PoisonError};

use super::OnFailure;
use super::pool::Thread;
use crate::inbound::{self, Happening, Ticket, Work};
use crate::metrics::Counter;
use crate::outbound::{Effects, Outgoing};
use crate::plugin::{Call, Failure, Instance, Version};
use crate::types::{ConnectionId, PluginId};

/// Events of one connection that are handled before others have their turn.
const QUANTUM: u32 = 16;
/// Events whose effects are posted together, at most.
const SETTLE_EVENTS: usize = 512;
/// Failures that one lane logs per second; the rest is counted.
const LOGGED_PER_SECOND: u32 = 10;
/// Ticks of the guests' clock per second.
const TICKS_PER_SECOND: u64 = 1_000;

/// Does one thing after another; several lanes share a thread.
#[derive(Debug)]
pub(super) struct Lane {
    thread: Rc<Thread>,
    instances: Instances,
    /// The current call's, unless an instance has them.
    effects: Option<Box<Effects>>,
    outgoing: Outgoing,
    /// What is done but not settled.
    done: Done,
    /// The last call did not return at once.
    was_slow: bool,
    tick: u64,
    log: Log,
}

#[derive(Debug, Default)]
struct Done {
    tickets: Vec<Ticket>,
    events: usize,
    bytes: usize,
}

/// Keeps a plugin that fails on every message from filling the disk.
#[derive(Debug, Default)]
struct Log {
    second: u64,
    written: u32,
    suppressed: u64,
}

impl Lane {
    pub(super) fn new(thread: Rc<Thread>, instances: Instances) -> Self {
        let shared = Arc::clone(&thread.env.shared);
        let effects = Effects::new(Arc::clone(&shared), thread.env.encoding.clone());
        Self {
            thread,
            instances,
            effects: Some(Box::new(effects)),
            outgoing: Outgoing::new(shared),
            done: Done::default(),
            was_slow: false,
            tick: 0,
            log: Log::default(),
        }
    }

    /// Works until the pool closes.
    pub(super) async fn run(mut self) {
        loop {
            self.thread.activate();
            self.work().await;
            self.thread.deactivate();
            if !self.thread.rest().await {
                return;
            }
        }
    }

    /// Works until there is nothing to do.
    async fn work(&mut self) {
        loop {
            let Some(work) = self.thread.env.inbound.take(self.thread.number, QUANTUM) else {
                if self.settle() {
                    continue;
                }
                return;
            };
            self.handle(&work).await;
            self.done.tickets.push(work.ticket());
            drop(work);
            let tick = self.thread.env.engine.ticks();
            let late = tick != self.tick;
            self.tick = tick;
            if late || self.done.events >= SETTLE_EVENTS {
                self.settle();
            }
            if late && self.thread.is_shared() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Runs the handlers of one connection's events.
    async fn handle(&mut self, work: &Work) {
        let (conn, plugin) = (work.conn(), work.plugin());
        let single = work.sequence() == inbound::Sequence::Plugin;
        let version = self.thread.env.table.active(plugin);
        let mut instance = None;
        let (mut events, mut bytes) = (0, 0);
        for (what, payload) in work.events() {
            if let Some(version) = &version {
                let call = event(conn, what, payload);
                if let Err(failure) = self.call(version, single, &mut instance, call).await {
                    self.fail(version, conn, &failure);
                }
            }
            if let Happening::Close(_) = what {
                self.thread.env.shared.notes.end(conn);
                self.outgoing.finished(conn);
            }
            events += 1;
            bytes += payload.len();
            if std::mem::take(&mut self.was_slow) {
                // One slow call is enough: others have their turn before the next.
                self.thread.env.inbound.put_back(work, events);
                break;
            }
            if self.outgoing.is_full() {
                self.outgoing.post();
            }
        }
        if let Some(mut instance) = instance {
            self.effects = instance.reclaim();
            self.instances.put(plugin, instance, single);
        }
        self.done.events += events as usize;
        self.done.bytes += bytes;
        self.outgoing.handled(conn, events, u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// One call, and its effects if it returns. `instance` is what the run has leased so far; it
    /// has the lane's effects, and a failure leaves none.
    async fn call(
        &mut self,
        version: &Version<Effects>,
        single: bool,
        instance: &mut Option<Instance<Effects>>,
        call: Call<'_>,
    ) -> Result<(), Failure> {
        let leased = match instance {
            Some(leased) => leased,
            None => {
                let mut leased = match self.instances.take(version, single) {
                    Some(leased) => leased,
                    None => self.patiently(version.instantiate()).await?,
                };
                leased.lend(self.effects.take().unwrap_or_else(|| self.new_effects()));
                instance.insert(leased)
            }
        };
        if let Some(effects) = leased.host_mut() {
            effects.begin(version.id());
        }
        if version.facts().flushes {
            // What is flushed in mid-call must not overtake what earlier calls asked for.
            self.outgoing.post();
        }
        let outcome = self.patiently(leased.call(call)).await;
        match (&outcome, leased.host_mut()) {
            (Ok(()), Some(effects)) => self.outgoing.absorb(effects),
            _ => {
                self.effects = leased.reclaim();
                *instance = None;
            }
        }
        outcome
    }

    /// Waits for something that is usually ready at once. If it is not, what other connections
    /// wait for leaves first, and another lane takes over.
    async fn patiently<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let mut engaged = false;
        let ready = poll_fn(|context| {
            let polled = future.as_mut().poll(context);
            if polled.is_pending() && !engaged {
                engaged = true;
                self.settle();
                self.thread.engage();
            }
            polled
        });
        let ready = ready.await;
        if engaged {
            self.thread.disengage();
            self.was_slow = true;
        }
        ready
    }

    /// Posts the effects of all that is done and lets those connections go on. Returns whether
    /// there was anything.
    fn settle(&mut self) -> bool {
        self.outgoing.post();
        if self.done.tickets.is_empty() {
            return false;
        }
        let env = &self.thread.env;
        env.inbound.release(&mut self.done.tickets);
        if env.inbound.room().give(self.done.events, self.done.bytes) {
            env.shared.hub.ring_all();
        }
        (self.done.events, self.done.bytes) = (0, 0);
        true
    }

    fn fail(&mut self, version: &Version<Effects>, conn: ConnectionId, failure: &Failure) {
        let env = &self.thread.env;
        let counting = env.shared.hub.shards() + self.thread.number;
        env.metrics.add(counting, Counter::HandlerFailures, 1);
        let policy = env.on_failure.get(usize::from(version.id().0)).copied().unwrap_or_default();
        if policy == OnFailure::Close {
            self.outgoing.close(conn, 1011, "the plugin failed");
        }
        if let Some(suppressed) = self.log.admit(env.engine.ticks() / TICKS_PER_SECOND) {
            let (plugin, digest, reason) = (version.name(), version.digest(), failure.label());
            tracing::warn!(plugin, digest, %conn, reason, suppressed, "message dropped: {failure}");
        }
    }

    fn new_effects(&self) -> Box<Effects> {
        let env = &self.thread.env;
        Box::new(Effects::new(Arc::clone(&env.shared), env.encoding.clone()))
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

/// The instances of `instances = "single"` plugins, by plugin. The queue lets only one lane have
/// one at a time.
pub(super) type Singles = [Mutex<Option<Instance<Effects>>>];

/// A lane's own instances, by plugin; it makes them when it first needs them.
#[derive(Debug)]
pub(super) struct Instances {
    own: Vec<Option<Instance<Effects>>>,
    singles: Arc<Singles>,
}

impl Instances {
    pub(super) fn new(singles: Arc<Singles>) -> Self {
        Self { own: (0..singles.len()).map(|_| None).collect(), singles }
    }

    fn take(&mut self, version: &Version<Effects>, single: bool) -> Option<Instance<Effects>> {
        let plugin = usize::from(version.id().0);
        let instance = if single {
            self.singles.get(plugin)?.lock().unwrap_or_else(PoisonError::into_inner).take()
        } else {
            self.own.get_mut(plugin)?.take()
        };
        instance.filter(|instance| instance.serial() == version.serial())
    }

    fn put(&mut self, plugin: PluginId, instance: Instance<Effects>, single: bool) {
        // A single instance's memory is the plugin's state: it is not thrown away for its age.
        if instance.dead() || (!single && instance.worn_out()) {
            return;
        }
        let plugin = usize::from(plugin.0);
        if single {
            if let Some(place) = self.singles.get(plugin) {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(instance);
            }
        } else if let Some(place) = self.own.get_mut(plugin) {
            *place = Some(instance);
        }
    }
}

fn event(conn: ConnectionId, what: Happening, payload: &[u8]) -> Call<'_> {
    match what {
        Happening::Open => Call::Open { conn },
        Happening::Message(kind) => Call::Message { conn, kind, payload },
        Happening::Close(code) => {
            Call::Close { conn, code, reason: str::from_utf8(payload).unwrap_or_default() }
        }
    }
}

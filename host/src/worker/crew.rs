//! The threads of one worker or shard, of which one at a time has the role.
//!
//! Calls of plugins that do not wait are plain function calls, which nobody can suspend. So where
//! one computes for longer than a tick, its thread hands the role, with all that lies ready, to
//! another thread of the crew, and finishes the call on its own. What comes of the call goes back
//! to whoever has the role then.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::desk::{Desk, Duty};
use super::hand::Hand;
use super::inline::{Io, Slowness};
use super::instances::Instances;
use super::ledger::Ledger;
use super::{Common, SHARD_THREADS};
use crate::inbound::Work;
use crate::plugin::{Failure, Instance, Version};
use crate::task;
use crate::types::PluginId;

/// How often a worker that is to end looks whether others have.
const LOOK: Duration = Duration::from_millis(5);

/// One worker's threads, or one shard's.
#[derive(Debug)]
pub(super) struct Crew {
    /// Of the worker or the shard.
    pub(super) number: usize,
    pub(super) common: Arc<Common>,
    /// Of a shard: the worker to whom it leaves what takes long.
    worker: Option<Arc<Crew>>,
    /// Threads that it may have, at least 1.
    most: usize,
    stage: Mutex<Stage>,
    called: Condvar,
    /// Whether `stage` has leftovers; spares a lock.
    has_leftovers: AtomicBool,
}

#[derive(Debug, Default)]
struct Stage {
    /// On offer to whichever thread is idle.
    role: Option<Box<Role>>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    leftovers: Vec<Leftover>,
    over: bool,
    failed: Option<io::Error>,
}

/// What whoever works for the crew has at hand.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) ledger: Ledger,
    pub(super) instances: Instances,
    /// By plugin, and as of which generation of the table.
    versions: Vec<Option<(u64, Arc<Version<Desk>>)>>,
    /// A shard's sockets. None in a worker's role.
    pub(super) io: Option<Box<dyn Io>>,
    /// By plugin, as far as a shard has seen it.
    pub(super) slowness: Vec<Slowness>,
}

/// A run whose last call took so long that its thread gave the role away.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) work: Work,
    pub(super) events: u32,
    pub(super) bytes: usize,
    pub(super) version: Arc<Version<Desk>>,
    pub(super) outcome: Result<(), Failure>,
    /// The call was for the connection's end.
    pub(super) closes: bool,
    pub(super) effects: Box<Desk>,
    pub(super) instance: Option<Instance<Desk>>,
}

impl Crew {
    /// A worker's. Starts with one thread, which has the role.
    pub(super) fn start(number: usize, most: usize, common: &Arc<Common>) -> io::Result<Arc<Self>> {
        let role = Role::new(common, common.env.shared.hub.shards() + number, None);
        Self::new(number, None, most.max(1), common).enter(role, 1)
    }

    /// A shard's. Starts with all its threads, of which one has the role.
    pub(super) fn start_shard(
        number: usize,
        io: Box<dyn Io>,
        worker: &Arc<Self>,
    ) -> io::Result<Arc<Self>> {
        let common = &worker.common;
        let role = Role::new(common, number, Some(io));
        Self::new(number, Some(Arc::clone(worker)), SHARD_THREADS, common)
            .enter(role, SHARD_THREADS)
    }

    fn new(number: usize, worker: Option<Arc<Self>>, most: usize, common: &Arc<Common>) -> Self {
        Self {
            number,
            common: Arc::clone(common),
            worker,
            most,
            stage: Mutex::default(),
            called: Condvar::new(),
            has_leftovers: AtomicBool::new(false),
        }
    }

    fn enter(self, role: Box<Role>, threads: usize) -> io::Result<Arc<Self>> {
        let crew = Arc::new(self);
        let mut stage = crew.lock();
        for _ in 0..threads {
            if let Err(error) = crew.spawn(&mut stage) {
                // Those that have been started are not left behind.
                stage.over = true;
                crew.called.notify_all();
                return Err(error);
            }
        }
        stage.role = Some(role);
        crew.called.notify_one();
        drop(stage);
        Ok(crew)
    }

    /// Lets another thread take the role.
    ///
    /// # Errors
    /// The role itself where there is none and can be none.
    pub(super) fn hand_over(self: &Arc<Self>, role: Box<Role>) -> Result<(), Box<Role>> {
        let inbound = &self.common.env.inbound;
        let mut stage = self.lock();
        if self.worker.is_some() {
            // It had kept to itself what lies in the queue.
            inbound.tell(self.number);
        }
        if stage.idle == 0 && (stage.threads.len() >= self.most || self.spawn(&mut stage).is_err())
        {
            // Others that have less to do may help.
            if self.worker.is_none() {
                inbound.bell(self.number).set_crowded(true);
                inbound.ring_another(self.number);
            }
            return Err(role);
        }
        self.relieve();
        self.common.abroad.fetch_add(1, Ordering::SeqCst);
        stage.role = Some(role);
        self.called.notify_one();
        Ok(())
    }

    /// Whoever has the role can take work again.
    pub(super) fn relieve(&self) {
        if self.worker.is_none() {
            self.common.env.inbound.bell(self.number).set_crowded(false);
        }
    }

    /// Whether some thread has nothing to do, so that it can take the role.
    pub(super) fn has_idle(&self) -> bool {
        self.lock().idle > 0
    }

    /// A thread that gave the role away has finished its call.
    pub(super) fn leave(&self, leftover: Leftover) {
        if let Some(worker) = &self.worker {
            return worker.leave(leftover);
        }
        self.lock().leftovers.push(leftover);
        self.has_leftovers.store(true, Ordering::SeqCst);
        self.common.env.inbound.bell(self.number).ring();
    }

    /// Enters what other threads have finished. It leaves at once.
    pub(super) fn enter_leftovers(&self, role: &mut Role) {
        if !self.has_leftovers.load(Ordering::Relaxed) {
            return;
        }
        let leftovers = {
            let mut stage = self.lock();
            self.has_leftovers.store(false, Ordering::SeqCst);
            mem::take(&mut stage.leftovers)
        };
        let many = leftovers.len();
        for leftover in leftovers {
            let Leftover { work, events, bytes, version, outcome, closes, mut effects, instance } =
                leftover;
            match outcome {
                Ok(()) => role.ledger.absorb(&mut effects.effects),
                Err(failure) => role.ledger.fail(&version, work.conn(), &failure),
            }
            if closes {
                role.ledger.finished(work.conn());
            }
            if let Some(instance) = instance {
                role.instances.put(work.plugin(), instance, work.is_single());
            }
            role.ledger.enter(&work, events, bytes);
        }
        role.ledger.settle();
        self.common.abroad.fetch_sub(many, Ordering::SeqCst);
    }

    /// Waits until there may be work for who has the role. False where there will be none any more.
    pub(super) fn rest(&self) -> bool {
        let inbound = &self.common.env.inbound;
        let bell = inbound.bell(self.number);
        bell.set_asleep();
        if inbound.is_idle() && !self.has_leftovers.load(Ordering::SeqCst) {
            if !self.common.closing.load(Ordering::SeqCst) {
                bell.wait(None);
            } else if self.common.abroad.load(Ordering::SeqCst) == 0 {
                self.end(Ok(()));
                return false;
            } else {
                bell.wait(Some(LOOK));
            }
        }
        bell.set_awake();
        true
    }

    /// There will be nothing to do any more.
    pub(super) fn end(&self, outcome: io::Result<()>) {
        let mut stage = self.lock();
        stage.over = true;
        stage.failed = outcome.err();
        self.called.notify_all();
    }

    /// Whether its work has ended.
    pub(super) fn is_over(&self) -> bool {
        let stage = self.lock();
        // A thread that ends before has panicked.
        stage.over || stage.threads.iter().any(JoinHandle::is_finished)
    }

    /// Why its work ended, if something failed.
    pub(super) fn take_failure(&self) -> Option<io::Error> {
        self.lock().failed.take()
    }

    /// All threads that there are by now, to be waited for.
    pub(super) fn take_threads(&self) -> Vec<JoinHandle<()>> {
        mem::take(&mut self.lock().threads)
    }

    fn spawn(self: &Arc<Self>, stage: &mut Stage) -> io::Result<()> {
        let crew = Arc::clone(self);
        let kind = if self.worker.is_some() { "shard" } else { "worker" };
        let name = format!("{kind}-{}", self.number);
        stage.threads.push(task::spawn(&name, move || crew.work())?);
        Ok(())
    }

    /// One thread's life.
    fn work(self: &Arc<Self>) {
        while let Some(role) = self.wait_for_role() {
            let duty = Duty { crew: Arc::clone(self), role: Some(role), overdue: false };
            let mut hand = Hand::new(self, Desk::new(&self.common, Some(duty)));
            if self.worker.is_some() {
                hand.tend();
            } else {
                hand.serve();
            }
        }
    }

    fn wait_for_role(&self) -> Option<Box<Role>> {
        let mut stage = self.lock();
        loop {
            if let Some(role) = stage.role.take() {
                return Some(role);
            }
            if stage.over {
                return None;
            }
            stage.idle += 1;
            stage = self.called.wait(stage).unwrap_or_else(PoisonError::into_inner);
            stage.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Role {
    fn new(common: &Common, counting: usize, io: Option<Box<dyn Io>>) -> Box<Self> {
        Box::new(Self {
            ledger: Ledger::new(&common.env, counting),
            instances: Instances::new(&common.singles),
            versions: common.singles.iter().map(|_| None).collect(),
            io,
            slowness: common.singles.iter().map(|_| Slowness::default()).collect(),
        })
    }

    /// The version that serves a plugin now.
    pub(super) fn version(
        &mut self,
        common: &Common,
        plugin: PluginId,
    ) -> Option<&Arc<Version<Desk>>> {
        let table = &common.env.table;
        let generation = table.generation(plugin)?;
        let known = self.versions.get_mut(usize::from(plugin.0))?;
        if known.as_ref().is_none_or(|(of, _)| *of != generation) {
            *known = Some((generation, table.active(plugin)?));
        }
        known.as_ref().map(|(_, version)| version)
    }
}

//! The threads of one worker, of which one at a time has the role.
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

use super::Common;
use super::desk::{Desk, Duty};
use super::hand::Hand;
use super::instances::Instances;
use super::ledger::Ledger;
use crate::inbound::Work;
use crate::plugin::{Failure, Instance, Version};
use crate::task;
use crate::types::PluginId;

/// How often a worker that is to end looks whether others have.
const LOOK: Duration = Duration::from_millis(5);

/// One worker's threads.
#[derive(Debug)]
pub(super) struct Crew {
    pub(super) number: usize,
    pub(super) common: Arc<Common>,
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
}

/// What whoever works for the crew has at hand.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) ledger: Ledger,
    pub(super) instances: Instances,
    /// By plugin, and as of which generation of the table.
    versions: Vec<Option<(u64, Arc<Version<Desk>>)>>,
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
    /// Starts with one thread, which has the role.
    pub(super) fn start(number: usize, most: usize, common: &Arc<Common>) -> io::Result<Arc<Self>> {
        let role = Box::new(Role {
            ledger: Ledger::new(&common.env, common.env.shared.hub.shards() + number),
            instances: Instances::new(&common.singles),
            versions: common.singles.iter().map(|_| None).collect(),
        });
        let crew = Arc::new(Self {
            number,
            common: Arc::clone(common),
            most: most.max(1),
            stage: Mutex::default(),
            called: Condvar::new(),
            has_leftovers: AtomicBool::new(false),
        });
        let mut stage = crew.lock();
        crew.spawn(&mut stage)?;
        stage.role = Some(role);
        drop(stage);
        Ok(crew)
    }

    /// Lets another thread take the role.
    ///
    /// # Errors
    /// The role itself where there is none and can be none.
    pub(super) fn hand_over(self: &Arc<Self>, role: Box<Role>) -> Result<(), Box<Role>> {
        let bell = self.common.env.inbound.bell(self.number);
        let mut stage = self.lock();
        if stage.idle == 0 && (stage.threads.len() >= self.most || self.spawn(&mut stage).is_err())
        {
            // Others that have less to do may help.
            bell.set_crowded(true);
            self.common.env.inbound.ring_another(self.number);
            return Err(role);
        }
        bell.set_crowded(false);
        self.common.abroad.fetch_add(1, Ordering::SeqCst);
        stage.role = Some(role);
        self.called.notify_one();
        Ok(())
    }

    /// A thread that gave the role away has finished its call.
    pub(super) fn leave(&self, leftover: Leftover) {
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
                self.lock().over = true;
                self.called.notify_all();
                return false;
            } else {
                bell.wait(Some(LOOK));
            }
        }
        bell.set_awake();
        true
    }

    /// All threads that there are by now, to be waited for.
    pub(super) fn take_threads(&self) -> Vec<JoinHandle<()>> {
        mem::take(&mut self.lock().threads)
    }

    fn spawn(self: &Arc<Self>, stage: &mut Stage) -> io::Result<()> {
        let crew = Arc::clone(self);
        let name = format!("worker-{}", self.number);
        stage.threads.push(task::spawn(&name, move || crew.work())?);
        Ok(())
    }

    /// One thread's life.
    fn work(self: &Arc<Self>) {
        while let Some(role) = self.wait_for_role() {
            let duty = Duty { crew: Arc::clone(self), role: Some(role), overdue: false };
            Hand::new(self, Desk::new(&self.common, Some(duty))).serve();
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

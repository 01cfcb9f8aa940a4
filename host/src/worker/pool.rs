//! The worker threads.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::lane::{Instances, Lane, Singles};
use super::{Config, Env};
use crate::plugin::Busy;
use crate::task;

/// All worker threads.
#[derive(Debug)]
pub struct Pool {
    env: Arc<Env>,
    closing: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

/// What the lanes of one thread share.
///
/// Of the lanes that have nothing to do one listens for the thread's bell; the others are idle
/// until a handler does not return at once and its lane needs a stand-in.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) number: usize,
    pub(super) env: Arc<Env>,
    closing: Arc<AtomicBool>,
    /// Keeps the guests' clock ticking while any lane has something to do.
    busy: RefCell<Option<Busy>>,
    /// Lanes that look for work, do it, or are in the middle of a handler.
    active: Cell<usize>,
    /// Of those, the ones whose handler did not return at once.
    engaged: Cell<usize>,
    listening: Cell<bool>,
    idle: Notify,
    idlers: Cell<usize>,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub fn start(config: &Config, env: Arc<Env>) -> io::Result<Self> {
        let closing = Arc::new(AtomicBool::new(false));
        let singles: Arc<Singles> = env.on_failure.iter().map(|_| Mutex::default()).collect();
        let threads = config.threads.max(1);
        let start = |number| {
            let spread = config.pool_size / threads;
            let lanes = (spread + usize::from(number < config.pool_size % threads)).max(1);
            let env = Arc::clone(&env);
            let (closing, singles) = (Arc::clone(&closing), Arc::clone(&singles));
            let body = move || run(number, lanes, env, closing, &singles);
            task::spawn(&format!("worker-{number}"), body)
        };
        let threads = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(Self { env, closing, threads })
    }

    /// Handles what is still queued, then ends the threads. No more may be submitted. False if
    /// that took longer; the threads are left behind then.
    ///
    /// # Errors
    /// Where a thread could not start its runtime, or panicked.
    pub fn close(self, until: impl Fn() -> Instant) -> io::Result<bool> {
        self.closing.store(true, Ordering::SeqCst);
        self.env.inbound.ring_all();
        task::join_all(self.threads, until)
    }
}

/// One worker thread's life.
fn run(
    number: usize,
    lanes: usize,
    env: Arc<Env>,
    closing: Arc<AtomicBool>,
    singles: &Arc<Singles>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let thread = Rc::new(Thread {
        number,
        env,
        closing,
        busy: RefCell::default(),
        active: Cell::new(0),
        engaged: Cell::new(0),
        listening: Cell::new(false),
        idle: Notify::new(),
        idlers: Cell::new(0),
    });
    let set = LocalSet::new();
    for _ in 0..lanes {
        let instances = Instances::new(Arc::clone(singles));
        let lane = Lane::new(Rc::clone(&thread), instances);
        set.spawn_local(lane.run());
    }
    runtime.block_on(set);
    Ok(())
}

impl Thread {
    /// The lane looks for work from now on.
    pub(super) fn activate(&self) {
        self.active.set(self.active.get() + 1);
        self.busy.borrow_mut().get_or_insert_with(|| self.env.engine.busy());
    }

    /// The lane has found none.
    pub(super) fn deactivate(&self) {
        self.active.set(self.active.get() - 1);
        if self.active.get() == 0 {
            *self.busy.borrow_mut() = None;
        }
    }

    /// A lane's handler did not return at once: another lane looks for work now.
    pub(super) fn engage(&self) {
        let inbound = &self.env.inbound;
        self.engaged.set(self.engaged.get() + 1);
        inbound.bell(self.number).set_crowded(true);
        if !inbound.is_idle() {
            inbound.ring_another(self.number);
        }
        if self.listening.get() {
            inbound.bell(self.number).ring();
        } else if self.idlers.get() > 0 {
            self.idle.notify_one();
        }
    }

    /// The handler has returned.
    pub(super) fn disengage(&self) {
        self.engaged.set(self.engaged.get() - 1);
        self.env.inbound.bell(self.number).set_crowded(self.is_shared());
    }

    /// Whether lanes are in the middle of handlers, so that whoever works must give way.
    pub(super) fn is_shared(&self) -> bool {
        self.engaged.get() > 0
    }

    /// Waits until there may be work. False where there will be none any more.
    pub(super) async fn rest(&self) -> bool {
        if self.closing.load(Ordering::SeqCst) {
            // Work that others have out may come back to the queue; they look after it.
            self.idle.notify_waiters();
            return !self.env.inbound.is_idle();
        }
        if self.listening.get() {
            self.idlers.set(self.idlers.get() + 1);
            self.idle.notified().await;
            self.idlers.set(self.idlers.get() - 1);
            return true;
        }
        let bell = self.env.inbound.bell(self.number);
        self.listening.set(true);
        bell.set_asleep();
        if self.env.inbound.is_idle() && !self.closing.load(Ordering::SeqCst) {
            bell.wait().await;
        }
        bell.set_awake();
        self.listening.set(false);
        true
    }
}

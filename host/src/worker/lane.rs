//! Handlers of plugins that wait, one at a time per lane.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::Common;
use super::desk::Desk;
use super::hand::event;
use super::instances::Instances;
use super::ledger::Ledger;
use crate::inbound::{Happening, Work};
use crate::plugin::{Busy, Call, Failure, Instance, Version};

/// What the lanes of one thread share.
///
/// Of the lanes that have nothing to do one listens for the thread's bell; the others are idle
/// until a handler does not return at once and its lane needs a stand-in.
#[derive(Debug)]
pub(super) struct Thread {
    number: usize,
    common: Arc<Common>,
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

/// Does one thing after another; several lanes share a thread.
#[derive(Debug)]
struct Lane {
    thread: Rc<Thread>,
    instances: Instances,
    /// Unless an instance has it.
    desk: Option<Box<Desk>>,
    ledger: Ledger,
    /// The last call did not return at once.
    was_slow: bool,
}

/// One thread's life: so many lanes, until there will be no more work.
pub(super) fn run(number: usize, lanes: usize, common: &Arc<Common>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_time().build()?;
    let thread = Rc::new(Thread {
        number,
        common: Arc::clone(common),
        busy: RefCell::default(),
        active: Cell::new(0),
        engaged: Cell::new(0),
        listening: Cell::new(false),
        idle: Notify::new(),
        idlers: Cell::new(0),
    });
    let set = LocalSet::new();
    for _ in 0..lanes {
        set.spawn_local(Lane::new(Rc::clone(&thread)).run());
    }
    runtime.block_on(set);
    Ok(())
}

impl Lane {
    fn new(thread: Rc<Thread>) -> Self {
        let common = &thread.common;
        let counting = common.env.shared.hub.shards() + common.crews + thread.number;
        Self {
            instances: Instances::new(&common.singles),
            desk: None,
            ledger: Ledger::new(&common.env, counting),
            was_slow: false,
            thread,
        }
    }

    /// Works until there will be no more work.
    async fn run(mut self) {
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
        while let Some(work) = self.thread.common.inbox.take() {
            self.handle(&work).await;
            drop(work);
            if self.ledger.is_due() {
                self.settle();
                if self.thread.is_shared() {
                    tokio::task::yield_now().await;
                }
            }
        }
        self.settle();
    }

    /// Runs the handlers of one connection's events.
    async fn handle(&mut self, work: &Work) {
        let (conn, plugin) = (work.conn(), work.plugin());
        let version = self.thread.common.env.table.active(plugin);
        let mut instance = None;
        let (mut events, mut bytes) = (0, 0);
        for (what, payload) in work.events() {
            events += 1;
            bytes += payload.len();
            if let Some(version) = &version {
                let call = event(conn, what, payload);
                if let Err(failure) = self.call(version, work, &mut instance, call).await {
                    self.ledger.fail(version, conn, &failure);
                }
            }
            if let Happening::Close(_) = what {
                self.ledger.finished(conn);
            }
            if std::mem::take(&mut self.was_slow) {
                // One slow call is enough: others have their turn before the next.
                break;
            }
        }
        if let Some(mut instance) = instance {
            self.desk = instance.reclaim();
            self.instances.put(plugin, instance, work.is_single());
        }
        self.ledger.enter(work, events, bytes);
    }

    /// One call, and its effects if it returns. `instance` is what the run has leased so far; it
    /// has the lane's desk, and a failure leaves none.
    async fn call(
        &mut self,
        version: &Version<Desk>,
        work: &Work,
        instance: &mut Option<Instance<Desk>>,
        call: Call<'_>,
    ) -> Result<(), Failure> {
        let leased = match instance {
            Some(leased) => leased,
            None => {
                let mut leased = match self.instances.take(version, work.is_single()) {
                    Some(leased) => leased,
                    None => self.patiently(version.instantiate()).await?,
                };
                let desk = self.desk.take();
                leased.lend(desk.unwrap_or_else(|| Desk::new(&self.thread.common, None)));
                instance.insert(leased)
            }
        };
        if let Some(desk) = leased.host_mut() {
            desk.effects.begin(version.id());
        }
        if version.facts().flushes {
            // What is flushed in mid-call must not overtake what earlier calls asked for.
            self.ledger.post();
        }
        let outcome = if version.facts().waits {
            self.patiently(leased.call(call)).await
        } else {
            // Replaced while the work was on its way here.
            leased.call_now(call)
        };
        match (&outcome, leased.host_mut()) {
            (Ok(()), Some(desk)) => self.ledger.absorb(&mut desk.effects),
            _ => {
                self.desk = leased.reclaim();
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

    fn settle(&mut self) {
        let runs = self.ledger.settle();
        if runs > 0 {
            let common = &self.thread.common;
            // The crews take what their connections have sent meanwhile.
            common.env.inbound.ring_if_needed();
            common.abroad.fetch_sub(runs, Ordering::SeqCst);
        }
    }
}

impl Thread {
    /// The lane looks for work from now on.
    fn activate(&self) {
        self.active.set(self.active.get() + 1);
        self.busy.borrow_mut().get_or_insert_with(|| self.common.env.engine.busy());
    }

    /// The lane has found none.
    fn deactivate(&self) {
        self.active.set(self.active.get() - 1);
        if self.active.get() == 0 {
            *self.busy.borrow_mut() = None;
        }
    }

    /// A lane's handler did not return at once: another lane looks for work now.
    fn engage(&self) {
        self.engaged.set(self.engaged.get() + 1);
        let inbox = &self.common.inbox;
        if !inbox.is_empty() {
            inbox.ring_another();
        }
        if self.listening.get() {
            inbox.bell(self.number).ring();
        } else if self.idlers.get() > 0 {
            self.idle.notify_one();
        }
    }

    /// The handler has returned.
    fn disengage(&self) {
        self.engaged.set(self.engaged.get() - 1);
    }

    /// Whether lanes are in the middle of handlers, so that whoever works must give way.
    fn is_shared(&self) -> bool {
        self.engaged.get() > 0
    }

    /// Waits until there may be work. False where there will be none any more.
    async fn rest(&self) -> bool {
        let common = &self.common;
        if common.crews_are_gone.load(Ordering::SeqCst) {
            self.idle.notify_waiters();
            return false;
        }
        if self.listening.get() {
            self.idlers.set(self.idlers.get() + 1);
            self.idle.notified().await;
            self.idlers.set(self.idlers.get() - 1);
            return true;
        }
        let bell = common.inbox.bell(self.number);
        self.listening.set(true);
        bell.set_asleep();
        if common.inbox.is_empty() && !common.crews_are_gone.load(Ordering::SeqCst) {
            bell.wait().await;
        }
        bell.set_awake();
        self.listening.set(false);
        true
    }
}

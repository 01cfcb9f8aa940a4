//! One thread of the generator: it opens its share of the connections, waits for the others, and
//! then lets a task have the sockets' events.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use mio::net::TcpStream;
use mio::{Events, Waker};

use super::client::End;
use super::clients::{Clients, Losses};
use super::opener::Opener;
use super::sleeper::{Sleeper, is_connection};
use super::system;
use super::time::{SECOND, Stopwatch, Time, Window};

/// Events taken from the kernel in one call.
const EVENTS: usize = 1024;

/// What a thread does with its connections once all are open.
pub(super) trait Task<S> {
    /// Everybody's connections are open, and this is the window.
    fn start(&mut self, window: Window, clients: &mut Clients<S>, time: &impl Time);

    /// Sends what is due.
    fn advance(&mut self, clients: &mut Clients<S>, time: &impl Time) -> Next;

    /// Receives from a connection; also before the start.
    fn receive(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        time: &impl Time,
    ) -> Result<(), End>;

    /// This connection has ended, and what it has under way with it.
    fn lost(&mut self, index: usize);

    /// Messages received so far: this shows whether anything still comes.
    fn received(&self) -> u64;
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Sockets, or this time.
    Until(u64),
    Done,
}

/// What the threads and the one that started them tell each other.
#[derive(Debug)]
pub(super) struct Shared {
    time: Stopwatch,
    /// Connections that are open.
    opened: AtomicUsize,
    received: AtomicU64,
    /// When the run starts and its window begins and ends; 0 as long as that is not decided.
    start: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
    stopped: AtomicBool,
    wakers: Vec<Waker>,
}

impl Shared {
    pub(super) fn new(time: Stopwatch, wakers: Vec<Waker>) -> Self {
        Self {
            time,
            opened: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            start: AtomicU64::new(0),
            begin: AtomicU64::new(0),
            end: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            wakers,
        }
    }

    pub(super) fn time(&self) -> &Stopwatch {
        &self.time
    }

    pub(super) fn opened(&self) -> usize {
        self.opened.load(Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Lets all threads start.
    pub(super) fn start(&self, window: Window) {
        self.begin.store(window.begin, Relaxed);
        self.end.store(window.end, Relaxed);
        self.start.store(window.start, Release);
        self.wake_all();
    }

    /// Lets all threads end.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        self.wake_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Wakes one thread, by its number.
    pub(super) fn wake(&self, thread: usize) {
        if let Some(waker) = self.wakers.get(thread) {
            // It fails only where the thread's poll is gone, and the thread with it.
            let _ = waker.wake();
        }
    }

    pub(super) fn wake_all(&self) {
        (0..self.wakers.len()).for_each(|thread| self.wake(thread));
    }

    fn window(&self) -> Option<Window> {
        let start = self.start.load(Acquire);
        let (begin, end) = (self.begin.load(Relaxed), self.end.load(Relaxed));
        (start > 0).then_some(Window { start, begin, end })
    }
}

/// A thread before it runs.
#[derive(Debug)]
pub(super) struct Thread<T> {
    pub(super) sleeper: Sleeper,
    pub(super) opener: Opener,
    /// Connections that count.
    pub(super) counted: usize,
    pub(super) task: T,
    pub(super) shared: Arc<Shared>,
    /// The core that it is confined to.
    pub(super) core: Option<usize>,
}

/// A thread after its run.
#[derive(Debug)]
pub(super) struct Ended<T> {
    pub(super) task: T,
    pub(super) losses: Losses,
    /// CPU time from the window's start to its end, in nanoseconds, where it is known.
    pub(super) cpu: Option<u64>,
}

impl<T: Task<TcpStream>> Thread<T> {
    /// The whole life of the thread. Fails where a connection cannot be opened.
    pub(super) fn run(self) -> Result<Ended<T>, String> {
        if let Some(core) = self.core {
            system::pin(core).map_err(|error| format!("cannot pin to core {core}: {error}"))?;
        }
        let clients = Clients::new(self.counted);
        let mut turns = Turns {
            sleeper: self.sleeper,
            events: Events::with_capacity(EVENTS),
            opener: self.opener,
            clients,
            task: self.task,
            shared: self.shared,
            reported: 0,
        };
        turns.open()?;
        let cpu = match turns.wait_for_start()? {
            Some(window) => turns.work(window)?,
            None => None,
        };
        let losses = turns.clients.losses().clone();
        turns.clients.close();
        Ok(Ended { task: turns.task, losses, cpu })
    }
}

/// A thread while it runs.
struct Turns<T> {
    sleeper: Sleeper,
    events: Events,
    opener: Opener,
    clients: Clients,
    task: T,
    shared: Arc<Shared>,
    /// What the others know of `received`.
    reported: u64,
}

impl<T: Task<TcpStream>> Turns<T> {
    /// Opens all connections; those that are open receive meanwhile.
    fn open(&mut self) -> Result<(), String> {
        let begin = self.shared.time().now();
        while !self.opener.is_done() && !self.shared.is_stopped() {
            let now = self.shared.time().now() - begin;
            let registry = self.sleeper.registry();
            let until = self.opener.start(now, registry, &mut self.clients.wire.random)?;
            self.turn(begin + until)?;
        }
        Ok(())
    }

    fn wait_for_start(&mut self) -> Result<Option<Window>, String> {
        while !self.shared.is_stopped() {
            if let Some(window) = self.shared.window() {
                return Ok(Some(window));
            }
            self.turn(self.shared.time().now() + SECOND)?;
        }
        Ok(None)
    }

    /// Lets the task work, and returns the CPU time that took within the window.
    fn work(&mut self, window: Window) -> Result<Option<u64>, String> {
        let time = *self.shared.time();
        let mut cpu = system::thread_cpu();
        let mut used = None;
        let mut begun = false;
        self.task.start(window, &mut self.clients, &time);
        while !self.shared.is_stopped() {
            let Next::Until(until) = self.task.advance(&mut self.clients, &time) else { break };
            self.turn(until)?;
            let now = time.now();
            if !begun && now >= window.begin {
                (begun, cpu) = (true, system::thread_cpu());
            }
            if used.is_none() && now >= window.end {
                used = since(cpu);
            }
        }
        Ok(used.or_else(|| since(cpu)))
    }

    /// Waits for events and carries them out.
    fn turn(&mut self, until: u64) -> Result<(), String> {
        let time = *self.shared.time();
        self.sleeper
            .wait(&mut self.events, time.now(), until)
            .map_err(|error| format!("cannot wait for sockets: {error}"))?;
        for event in &self.events {
            if !is_connection(event.token()) {
                continue;
            }
            let index = event.token().0;
            if self.opener.is_opening(index) {
                let Some(client) = self.opener.ready(index, &mut self.clients.wire)? else {
                    continue;
                };
                self.clients.put(index, client);
                self.shared.opened.fetch_add(1, Relaxed);
            } else if event.is_writable()
                && let Some((client, _)) = self.clients.get(index)
                && let Err(end) = client.flush()
            {
                self.clients.lose(index, &end);
                self.task.lost(index);
                continue;
            }
            if let Err(end) = self.task.receive(index, &mut self.clients, &time) {
                self.clients.lose(index, &end);
                self.task.lost(index);
            }
        }
        let received = self.task.received();
        if received != self.reported {
            self.shared.received.fetch_add(received - self.reported, Relaxed);
            self.reported = received;
        }
        Ok(())
    }
}

fn since(cpu: Option<u64>) -> Option<u64> {
    Some(system::thread_cpu()?.saturating_sub(cpu?))
}

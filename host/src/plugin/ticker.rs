//! The thread that interrupts guests: it moves the engine's epoch on every millisecond.
//!
//! It sleeps while no worker is busy, so an idle host costs nothing. Waking it costs the worker a
//! system call; it therefore lingers for [`LINGER`] ticks after the last work. A host that is half
//! busy never pays, and one with work now and then does not pay for ticks in between.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::task;

/// Between two ticks; the operating system adds about 60 µs.
const TICK: Duration = Duration::from_millis(1);
/// Ticks without any work before the thread sleeps.
const LINGER: u32 = 4;

/// Owns the thread; dropping it stops and joins it.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Guards alive.
    busy: AtomicUsize,
    /// Guards ever made; tells a quiet stretch from one in which they came and went.
    entered: AtomicU64,
    parked: AtomicBool,
    stop: AtomicBool,
    ticks: AtomicU64,
}

/// Keeps the ticker awake while a worker thread may run guests.
#[must_use = "guests are not interrupted while nobody holds one"]
pub struct Busy(Arc<Shared>);

impl Ticker {
    /// Starts the thread, parked. `tick` is called on it.
    pub(super) fn start(tick: impl Fn() + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let on_thread = Arc::clone(&shared);
        let thread = task::spawn("plugin-ticker", move || on_thread.run(tick))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn busy(&self) -> Busy {
        self.shared.busy.fetch_add(1, Ordering::SeqCst);
        self.shared.entered.fetch_add(1, Ordering::Relaxed);
        // Pairs with the ticker, which sets `parked` before it looks at `busy` once more: one of
        // the two sees the other.
        if self.shared.parked.load(Ordering::SeqCst) {
            self.wake();
        }
        Busy(Arc::clone(&self.shared))
    }

    pub(super) fn ticks(&self) -> u64 {
        self.shared.ticks.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook already.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn run(&self, tick: impl Fn()) {
        let (mut seen, mut quiet) = (0, LINGER);
        while !self.stop.load(Ordering::SeqCst) {
            let entered = self.entered.load(Ordering::Relaxed);
            if self.busy.load(Ordering::SeqCst) > 0 || entered != seen {
                (seen, quiet) = (entered, 0);
            } else if quiet < LINGER {
                quiet += 1;
            } else {
                self.park();
                continue;
            }
            task::sleep(TICK);
            self.ticks.fetch_add(1, Ordering::Relaxed);
            tick();
        }
    }

    fn park(&self) {
        self.parked.store(true, Ordering::SeqCst);
        if self.busy.load(Ordering::SeqCst) == 0 && !self.stop.load(Ordering::SeqCst) {
            thread::park();
        }
        self.parked.store(false, Ordering::SeqCst);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Busy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Busy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until `done`; a test that hangs here has failed.
    fn wait(done: impl Fn() -> bool) {
        while !done() {
            thread::yield_now();
        }
    }

    #[test]
    fn it_ticks_while_somebody_is_busy_and_parks_afterwards() {
        let ticker = Ticker::start(|| {}).unwrap();
        wait(|| ticker.shared.parked.load(Ordering::SeqCst));
        assert_eq!(ticker.ticks(), 0);
        for _ in 0..3 {
            let busy = ticker.busy();
            let before = ticker.ticks();
            wait(|| ticker.ticks() > before);
            drop(busy);
            wait(|| ticker.shared.parked.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn dropping_it_stops_the_thread_whether_it_ticks_or_is_parked() {
        let shared = {
            let ticker = Ticker::start(|| {}).unwrap();
            let busy = ticker.busy();
            let shared = Arc::clone(&ticker.shared);
            drop(ticker);
            drop(busy);
            shared
        };
        assert_eq!(Arc::strong_count(&shared), 1);
        let ticker = Ticker::start(|| {}).unwrap();
        wait(|| ticker.shared.parked.load(Ordering::SeqCst));
        let shared = Arc::clone(&ticker.shared);
        drop(ticker);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}

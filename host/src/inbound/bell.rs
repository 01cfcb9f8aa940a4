//! Wakes a worker thread, only if it sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// The bell of one worker, whose threads take turns in listening to it. Usage: set asleep, look for
/// work once more, then wait; whoever brings work rings after. So one of the two sees the other.
#[derive(Debug, Default)]
pub struct Bell {
    asleep: AtomicBool,
    /// The worker has more to do than it can: whatever is brought had better wake another, too.
    crowded: AtomicBool,
    /// Who waits, or waited last.
    listener: Mutex<Option<Thread>>,
}

impl Bell {
    /// Wakes the worker if it is asleep. Returns whether it was.
    pub fn ring(&self) -> bool {
        let slept = self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst);
        if slept {
            let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(thread) = &*listener {
                thread.unpark();
            }
        }
        slept
    }

    /// The worker is about to sleep.
    pub fn set_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The worker looks for work again by itself.
    pub fn set_awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Whether the worker has more to do than it can.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// See [`Bell::is_crowded`].
    pub fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Sleeps until it rings, or has rung since [`Bell::set_asleep`]; at most so long.
    pub fn wait(&self, at_most: Option<Duration>) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        while self.asleep.load(Ordering::SeqCst) {
            match at_most {
                None => thread::park(),
                Some(time) => return thread::park_timeout(time),
            }
        }
    }
}

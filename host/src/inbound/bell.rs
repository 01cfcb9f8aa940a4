//! Wakes a worker thread, only if it sleeps.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// One worker thread's bell. Ringing it costs a system call only where the thread sleeps.
#[derive(Debug, Default)]
pub struct Bell {
    asleep: AtomicBool,
    crowded: AtomicBool,
    notify: Notify,
}

impl Bell {
    /// Wakes the worker; false if it was awake.
    pub fn ring(&self) -> bool {
        let slept = self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst);
        if slept {
            self.notify.notify_one();
        }
        slept
    }

    /// The worker is about to sleep. It must look for work once more before it does.
    pub fn set_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// The worker does not sleep after all, or no longer.
    pub fn set_awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Whether the worker shares its thread with handlers that take long. Whoever has work for it
    /// had better wake another one too.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    /// The worker says so.
    pub fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Sleeps until somebody rings. Returns at once if somebody did since the last call.
    pub async fn wait(&self) {
        self.notify.notified().await;
    }
}

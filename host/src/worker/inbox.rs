//! Work for plugins that wait, on its way from the crews to the lanes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::inbound::Work;

/// One for all lanes, first in, first out. A connection has one run in it at most.
#[derive(Debug)]
pub(super) struct Inbox {
    works: Mutex<VecDeque<Work>>,
    bells: Box<[Bell]>,
}

/// The bell of one thread with lanes, as [`crate::inbound::Bell`].
#[derive(Debug, Default)]
pub(super) struct Bell {
    asleep: AtomicBool,
    notify: Notify,
}

impl Inbox {
    /// For so many threads, at least 1.
    pub(super) fn new(threads: usize) -> Self {
        let bells = (0..threads.max(1)).map(|_| Bell::default()).collect();
        Self { works: Mutex::default(), bells }
    }

    pub(super) fn push(&self, work: Work) {
        self.lock().push_back(work);
        let _ = self.bells.iter().any(Bell::ring);
    }

    pub(super) fn take(&self) -> Option<Work> {
        let mut works = self.lock();
        let work = works.pop_front()?;
        let more = !works.is_empty();
        drop(works);
        if more {
            self.ring_another();
        }
        Some(work)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn bell(&self, thread: usize) -> &Bell {
        &self.bells[thread % self.bells.len()]
    }

    /// Wakes a thread that sleeps, if there is one.
    pub(super) fn ring_another(&self) {
        let _ = self.bells.iter().any(Bell::ring);
    }

    pub(super) fn ring_all(&self) {
        for bell in &self.bells {
            bell.ring();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Work>> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    pub(super) fn ring(&self) -> bool {
        let slept = self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst);
        if slept {
            self.notify.notify_one();
        }
        slept
    }

    pub(super) fn set_asleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    pub(super) fn set_awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    pub(super) async fn wait(&self) {
        self.notify.notified().await;
    }
}

//! The shards' mailboxes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::Commit;

/// Bytes that may wait in a mailbox before those who post must wait for the shard.
const FULL_BYTES: usize = 16 * 1024 * 1024;
/// Emptied commits that wait for their next use.
const SPARES: usize = 64;

/// One mailbox per shard. Anybody posts; only the shard collects.
#[derive(Debug)]
pub struct Hub(Box<[Mailbox]>);

#[derive(Default)]
struct Mailbox {
    state: Mutex<State>,
    emptied: Condvar,
    /// As of `state`; spares a lock.
    full: AtomicBool,
    asleep: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug, Default)]
struct State {
    commits: Vec<Commit>,
    bytes: usize,
    spares: Vec<Commit>,
    /// The shard has ended: what is posted goes nowhere.
    closed: bool,
}

impl Hub {
    pub(super) fn new(shards: usize) -> Self {
        Self((0..shards).map(|_| Mailbox::default()).collect())
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.0.len()
    }

    /// The shard says how to wake it from its sleep. Once.
    pub fn set_waker(&self, shard: usize, waker: impl Fn() + Send + Sync + 'static) {
        let _ = self.0[shard].waker.set(Box::new(waker));
    }

    /// Hands a commit to its shard and returns an empty one to go on with.
    ///
    /// Waits where the mailbox is full: a worker may wait for a shard.
    pub fn post(&self, shard: usize, commit: Commit) -> Commit {
        let mailbox = &self.0[shard];
        let mut state = mailbox.lock();
        while state.bytes >= FULL_BYTES && !state.closed {
            state = mailbox.emptied.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        self.put(shard, state, commit)
    }

    /// Hands over a commit as [`post`](Self::post) does, and never waits: a shard's own thread must
    /// not. It looks whether any mailbox [is full](Self::is_any_full) before it does more.
    pub fn post_now(&self, shard: usize, commit: Commit) -> Commit {
        self.put(shard, self.0[shard].lock(), commit)
    }

    /// Whether those who post to some shard would have to wait.
    #[must_use]
    pub fn is_any_full(&self) -> bool {
        self.0.iter().any(|mailbox| mailbox.full.load(Ordering::Relaxed))
    }

    fn put(&self, shard: usize, mut state: MutexGuard<'_, State>, commit: Commit) -> Commit {
        if state.closed {
            let mut commit = commit;
            commit.clear();
            return commit;
        }
        state.bytes += commit.size();
        if state.bytes >= FULL_BYTES {
            self.0[shard].full.store(true, Ordering::Relaxed);
        }
        state.commits.push(commit);
        let spare = state.spares.pop().unwrap_or_default();
        drop(state);
        self.ring(shard);
        spare
    }

    /// Takes all that was posted, in order, into `into`, which must be empty.
    pub fn collect(&self, shard: usize, into: &mut Vec<Commit>) {
        let mailbox = &self.0[shard];
        let mut state = mailbox.lock();
        std::mem::swap(&mut state.commits, into);
        let was_full = state.bytes >= FULL_BYTES;
        state.bytes = 0;
        if was_full {
            mailbox.full.store(false, Ordering::Relaxed);
        }
        drop(state);
        if was_full {
            mailbox.emptied.notify_all();
        }
    }

    /// Gives carried-out commits back for their next use.
    pub fn give_back(&self, shard: usize, commits: &mut Vec<Commit>) {
        commits.iter_mut().for_each(Commit::clear);
        let mut state = self.0[shard].lock();
        let room = SPARES.saturating_sub(state.spares.len());
        state.spares.extend(commits.drain(..).take(room));
    }

    /// The shard is about to sleep; false if it must not, because something has been posted.
    #[must_use]
    pub fn fall_asleep(&self, shard: usize) -> bool {
        let mailbox = &self.0[shard];
        mailbox.asleep.store(true, Ordering::SeqCst);
        let empty = mailbox.lock().commits.is_empty();
        if !empty {
            mailbox.asleep.store(false, Ordering::SeqCst);
        }
        empty
    }

    /// The shard is awake: nobody needs to wake it.
    pub fn wake_up(&self, shard: usize) {
        self.0[shard].asleep.store(false, Ordering::SeqCst);
    }

    /// Wakes a shard if it sleeps.
    pub fn ring(&self, shard: usize) {
        let mailbox = &self.0[shard];
        if mailbox.asleep.load(Ordering::SeqCst)
            && mailbox.asleep.swap(false, Ordering::SeqCst)
            && let Some(wake) = mailbox.waker.get()
        {
            wake();
        }
    }

    /// Wakes all shards that sleep.
    pub fn ring_all(&self) {
        (0..self.0.len()).for_each(|shard| self.ring(shard));
    }

    /// The shard has ended. Nobody waits for it any more.
    pub fn close(&self, shard: usize) {
        let mailbox = &self.0[shard];
        mailbox.lock().closed = true;
        mailbox.emptied.notify_all();
    }
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").field("asleep", &self.asleep).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_sleeping_shard_is_woken_once_and_an_awake_one_never() {
        let hub = Hub::new(1);
        let rung = Arc::new(AtomicUsize::new(0));
        let bell = Arc::clone(&rung);
        hub.set_waker(0, move || {
            bell.fetch_add(1, Ordering::SeqCst);
        });
        hub.post(0, Commit::default());
        assert_eq!(rung.load(Ordering::SeqCst), 0);
        assert!(!hub.fall_asleep(0), "there is mail");
        let mut mail = Vec::new();
        hub.collect(0, &mut mail);
        assert_eq!(mail.len(), 1);
        assert!(hub.fall_asleep(0));
        hub.post(0, Commit::default());
        hub.post(0, Commit::default());
        assert_eq!(rung.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn who_must_not_wait_can_pass_the_bound_and_see_it() {
        let hub = Hub::new(2);
        assert!(!hub.is_any_full());
        for _ in 0..2 {
            hub.post_now(1, Commit { bytes: vec![0; FULL_BYTES], ..Commit::default() });
            assert!(hub.is_any_full());
        }
        let mut mail = Vec::new();
        hub.collect(1, &mut mail);
        assert_eq!(mail.len(), 2);
        assert!(!hub.is_any_full());
    }

    #[test]
    fn a_full_mailbox_holds_back_those_who_post_until_it_is_emptied() {
        let hub = Arc::new(Hub::new(1));
        let big = || Commit { bytes: vec![0; FULL_BYTES], ..Commit::default() };
        hub.post(0, big());
        let posting = std::thread::scope(|scope| {
            let blocked = scope.spawn(|| hub.post(0, big()));
            let mut mail = Vec::new();
            while mail.len() < 2 {
                let mut more = Vec::new();
                hub.collect(0, &mut more);
                mail.append(&mut more);
            }
            blocked.join().unwrap()
        });
        assert!(posting.is_empty());
    }
}

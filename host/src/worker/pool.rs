//! All worker threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use super::crew::Crew;
use super::{Common, Config, Env, Io, lane};
use crate::task;

/// Threads that one crew may have: of handlers that compute for long so many at most are in flight
/// per worker, and more would not compute faster.
const MOST_THREADS: usize = 64;

/// The crews, and the threads with lanes.
#[derive(Debug)]
pub struct Pool {
    common: Arc<Common>,
    /// Of workers, at least one.
    crews: Vec<Arc<Crew>>,
    shards: Vec<Arc<Crew>>,
    lanes: Vec<JoinHandle<io::Result<()>>>,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub fn start(config: &Config, env: Arc<Env>) -> io::Result<Self> {
        let threads = config.threads.max(1);
        let share = |number: usize| {
            let spread = config.pool_size / threads;
            (spread + usize::from(number < config.pool_size % threads)).max(1)
        };
        let common = Arc::new(Common::new(env, threads));
        let lanes = (0..threads).map(|number| {
            let (lanes, common) = (share(number), Arc::clone(&common));
            task::spawn(&format!("lanes-{number}"), move || lane::run(number, lanes, &common))
        });
        let lanes = lanes.collect::<io::Result<_>>()?;
        let crews = (0..threads)
            .map(|number| Crew::start(number, share(number).min(MOST_THREADS), &common));
        let crews = crews.collect::<io::Result<_>>()?;
        Ok(Self { crews, shards: Vec::new(), lanes, common })
    }

    /// Starts the threads of the next shard.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub fn add_shard(&mut self, io: Box<dyn Io>) -> io::Result<()> {
        let number = self.shards.len();
        let worker = &self.crews[number % self.crews.len()];
        self.shards.push(Crew::start_shard(number, io, worker)?);
        Ok(())
    }

    /// Whether a shard has ended.
    #[must_use]
    pub fn has_lost_a_shard(&self) -> bool {
        self.shards.iter().any(|shard| shard.is_over())
    }

    /// Waits until all shards have ended. False if some have not by then.
    ///
    /// # Errors
    /// The first with which one of them ended.
    pub fn wait_for_shards(&self, until: Instant) -> io::Result<bool> {
        let over = task::wait_until(|| self.shards.iter().all(|shard| shard.is_over()), || until);
        match self.shards.iter().find_map(|shard| shard.take_failure()) {
            Some(failure) => Err(failure),
            None => Ok(over),
        }
    }

    /// Handles what is still queued, then ends the threads. No more may be submitted. False if
    /// that took longer; the threads are left behind then.
    ///
    /// # Errors
    /// Where a thread could not start its runtime, or panicked.
    pub fn close(self, until: impl Fn() -> Instant) -> io::Result<bool> {
        self.common.closing.store(true, Ordering::SeqCst);
        self.common.env.inbound.ring_all();
        for crew in self.crews.iter().chain(&self.shards) {
            // A thread may start another one before it ends.
            loop {
                let threads = crew.take_threads();
                if threads.is_empty() {
                    break;
                }
                if !task::wait_for(&threads, &until) {
                    return Ok(false);
                }
                for thread in threads {
                    thread.join().map_err(|_| io::Error::other("a worker panicked"))?;
                }
            }
        }
        self.common.crews_are_gone.store(true, Ordering::SeqCst);
        self.common.inbox.ring_all();
        task::join_all(self.lanes, until)
    }
}

//! All worker threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use super::crew::Crew;
use super::{Common, Config, Env, lane};
use crate::task;

/// Threads that one crew may have: of handlers that compute for long so many at most are in flight
/// per worker, and more would not compute faster.
const MOST_THREADS: usize = 64;

/// The crews, and the threads with lanes.
#[derive(Debug)]
pub struct Pool {
    common: Arc<Common>,
    crews: Vec<Arc<Crew>>,
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
        Ok(Self { crews: crews.collect::<io::Result<_>>()?, lanes, common })
    }

    /// Handles what is still queued, then ends the threads. No more may be submitted. False if
    /// that took longer; the threads are left behind then.
    ///
    /// # Errors
    /// Where a thread could not start its runtime, or panicked.
    pub fn close(self, until: impl Fn() -> Instant) -> io::Result<bool> {
        self.common.closing.store(true, Ordering::SeqCst);
        self.common.env.inbound.ring_all();
        for crew in &self.crews {
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

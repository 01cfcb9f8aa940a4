//! The only place that starts threads: each has a name.
//!
//! A stop waits for those of shards and workers and leaves behind what does not end in time;
//! `app::run` joins the one that stops, and the engine its ticker. Nobody joins `files`: it ends
//! when nobody is left to ask it.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::clock;

/// Starts a thread. `name` shows in debuggers and profilers; Linux keeps its first 15 bytes.
///
/// # Errors
/// Where the operating system has no thread to give.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(body)
}

/// Lets this thread sleep. Never on an I/O thread.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Waits for threads to end. False if some have not by the time `until`, which may change
/// meanwhile.
#[must_use]
pub fn wait_for<T>(threads: &[JoinHandle<T>], until: impl Fn() -> Instant) -> bool {
    wait_until(|| threads.iter().all(JoinHandle::is_finished), until)
}

/// Waits until something is done. False if it is not by the time `until`, which may change
/// meanwhile.
#[must_use]
pub fn wait_until(done: impl Fn() -> bool, until: impl Fn() -> Instant) -> bool {
    const LOOK: Duration = Duration::from_millis(5);
    while !done() {
        if clock::now() >= until() {
            return false;
        }
        sleep(LOOK);
    }
    true
}

/// Waits for threads to end as [`wait_for`] does, and for what they return.
///
/// # Errors
/// The first error that one of them returned, or that one panicked.
pub fn join_all(
    threads: Vec<JoinHandle<io::Result<()>>>,
    until: impl Fn() -> Instant,
) -> io::Result<bool> {
    if !wait_for(&threads, until) {
        return Ok(false);
    }
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
    }
    Ok(true)
}

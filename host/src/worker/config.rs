//! What an operator may set about the workers.

use std::num::NonZero;
use std::thread;

/// The size of the worker pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Operating-system threads that run handlers, at least 1; by default one per core.
    pub threads: usize,
    /// Handlers in flight, at least [`Self::threads`]; by default four per thread. A handler that
    /// waits for a host function keeps its place but not its thread. Each place can cost one
    /// instance's memory limit per plugin.
    pub pool_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { threads, pool_size: threads * 4 }
    }
}

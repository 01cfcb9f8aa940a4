//! What an operator may set about the queue between the I/O threads and the workers.

/// Limits of the messages that wait for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Messages of the whole host, at least 1; by default 4,096. Above it the host stops reading
    /// from its sockets, so peers see TCP backpressure. Costs about 50 bytes each besides the
    /// payload.
    pub queue_size: usize,
    /// Payload bytes of the whole host, at least one message of the largest size; by default
    /// 64 MiB. This is the memory that the queue may take. Verdict as for [`Self::queue_size`].
    pub queue_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { queue_size: 4096, queue_bytes: 64 << 20 }
    }
}

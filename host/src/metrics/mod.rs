//! What the host counts. Each thread has its own cache lines; whoever asks adds them up.

use std::sync::atomic::{AtomicU64, Ordering};

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Connections whose upgrade was granted.
    Opened,
    /// Of those, the ones that have ended.
    Closed,
    /// Requests answered with an error status, or not at all.
    Refused,
    /// Messages from clients.
    MessagesIn,
    /// Messages whose handler failed, so that nothing came of them.
    HandlerFailures,
    /// Messages of a publish or broadcast that were put on their way to one receiver each. Those
    /// that its outbox has no room for are counted as dropped besides.
    Delivered,
    /// Connections closed because a client did not read.
    ClosedAsSlow,
    /// Messages dropped because a client did not read, and the outbox kept the older ones.
    DroppedNewest,
    /// Messages dropped because a client did not read, and newer ones took their place.
    DroppedOldest,
    /// Times that accepting stopped for want of file descriptors.
    AcceptPauses,
}

impl Counter {
    /// All of them with their names.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Opened, "connections_opened"),
        (Self::Closed, "connections_closed"),
        (Self::Refused, "requests_refused"),
        (Self::MessagesIn, "messages_in"),
        (Self::HandlerFailures, "handler_failures"),
        (Self::Delivered, "publishes_delivered"),
        (Self::ClosedAsSlow, "slow_consumers_closed"),
        (Self::DroppedNewest, "messages_dropped_newest"),
        (Self::DroppedOldest, "messages_dropped_oldest"),
        (Self::AcceptPauses, "accept_pauses"),
    ];
}

/// The counters of all threads.
#[derive(Debug)]
pub struct Metrics(Box<[Cells]>);

/// One thread's counters, alone on their cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cells([AtomicU64; Counter::ALL.len()]);

impl Metrics {
    /// For so many threads that count.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self((0..threads.max(1)).map(|_| Cells::default()).collect())
    }

    /// Adds to a counter of one thread. Only that thread may do so: with one writer, counting
    /// needs no locked instruction.
    pub fn add(&self, thread: usize, counter: Counter, by: u64) {
        let cell = &self.0[thread % self.0.len()].0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    /// The sum over all threads.
    #[must_use]
    pub fn total(&self, counter: Counter) -> u64 {
        self.0.iter().map(|cells| cells.0[counter as usize].load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_are_added_up() {
        let metrics = Metrics::new(2);
        metrics.add(0, Counter::Opened, 2);
        metrics.add(1, Counter::Opened, 3);
        assert_eq!(metrics.total(Counter::Opened), 5);
        assert_eq!(metrics.total(Counter::Closed), 0);
        for (place, (counter, _)) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, place);
        }
    }
}

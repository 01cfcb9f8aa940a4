//! How many messages, and bytes of them, wait for a worker in the whole host.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Config;

/// The bound over all queues. A full one is no error: shards stop reading until there is room.
///
/// A connection with nothing waiting may pass it with one message, so that nobody's turn depends
/// on others. Besides, each shard looks before it parses and adds what it gathered when it hands
/// over, so that the bound is passed by one batch
/// ([`Batch::FULL_EVENTS`](super::Batch::FULL_EVENTS), 64 KiB or one message) per further shard at
/// the most.
#[derive(Debug)]
pub struct Room {
    messages: AtomicUsize,
    bytes: AtomicUsize,
    most_messages: usize,
    most_bytes: usize,
    /// Some shard has stopped reading.
    awaited: AtomicBool,
}

impl Room {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            messages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            most_messages: config.queue_size,
            most_bytes: config.queue_bytes,
            awaited: AtomicBool::new(false),
        }
    }

    /// Whether one more message may be parsed, with so much already gathered in this turn.
    #[must_use]
    pub fn is_full(&self, gathered_messages: usize, gathered_bytes: usize) -> bool {
        self.messages.load(Ordering::Relaxed) + gathered_messages >= self.most_messages
            || self.bytes.load(Ordering::Relaxed) + gathered_bytes >= self.most_bytes
    }

    /// A shard has stopped reading: it wants to be woken when there is some room again. It must
    /// look once more ([`Room::has_some`]) before it sleeps.
    pub fn await_some(&self) {
        self.awaited.store(true, Ordering::SeqCst);
    }

    /// Whether at least an eighth is free: enough that shards are not woken for each message.
    #[must_use]
    pub fn has_some(&self) -> bool {
        let (messages, bytes) = (self.most_messages, self.most_bytes);
        self.messages.load(Ordering::SeqCst) <= messages - messages.div_ceil(8)
            && self.bytes.load(Ordering::SeqCst) <= bytes - bytes.div_ceil(8)
    }

    /// Messages that wait or are being handled.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self, messages: usize, bytes: usize) {
        self.messages.fetch_add(messages, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much has been handled. True where the shards should now be woken to read on.
    #[must_use]
    pub fn give(&self, messages: usize, bytes: usize) -> bool {
        self.messages.fetch_sub(messages, Ordering::SeqCst);
        self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.awaited.load(Ordering::SeqCst)
            && self.has_some()
            && self.awaited.swap(false, Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> Room {
        Room::new(&Config { queue_size: 10, queue_bytes: 1_000 })
    }

    #[test]
    fn the_bound_holds_in_messages_and_in_bytes() {
        let room = room();
        room.take(9, 0);
        assert!(!room.is_full(0, 0), "the tenth still fits");
        assert!(room.is_full(1, 0));
        let _ = room.give(9, 0);
        room.take(1, 999);
        assert!(!room.is_full(0, 0));
        assert!(room.is_full(0, 1));
    }

    #[test]
    fn a_waiting_shard_is_told_once_when_an_eighth_is_free() {
        let room = room();
        room.take(10, 0);
        room.await_some();
        assert!(!room.give(1, 0), "nine of ten still wait");
        assert!(room.give(1, 0));
        assert!(!room.give(1, 0), "told already");
    }
}

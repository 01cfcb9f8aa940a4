//! What one end may refer to in the next message: the sliding window between two messages.

/// The last bytes of the messages of one direction, before compression.
#[derive(Debug, Default)]
pub(crate) struct History(Vec<u8>);

impl History {
    /// Appends a message and forgets what lies further back than `window` bytes.
    ///
    /// The memory grows with what was sent, up to `window` bytes.
    pub(crate) fn push(&mut self, message: &[u8], window: usize) {
        let message = message.get(message.len().saturating_sub(window)..).unwrap_or_default();
        let len = self.0.len() + message.len();
        self.0.drain(..len.saturating_sub(window));
        if len > self.0.capacity() {
            let capacity = len.max(2 * self.0.capacity()).min(window);
            self.0.reserve_exact(capacity - self.0.len());
        }
        self.0.extend_from_slice(message);
    }

    /// The newest byte last.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes on the heap.
    pub(crate) const fn size(&self) -> usize {
        self.0.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_stay_and_memory_ends_at_the_window() {
        let mut history = History::default();
        let mut all = Vec::new();
        for len in [0, 1, 100, 300, 111, 1, 512, 511, 0, 1, 513, 2000, 7] {
            let message: Vec<u8> = (0..=255).cycle().step_by(7).take(len).collect();
            history.push(&message, 512);
            all.extend(message);
            assert_eq!(history.bytes(), &all[all.len().saturating_sub(512)..], "after {len}");
            assert!(history.size() <= 512, "{}", history.size());
        }
    }
}

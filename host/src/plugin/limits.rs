//! What one instance may hold.

use wasmtime::ResourceLimiter;

use super::engine::{CORE_INSTANCES, MEMORIES, TABLES};

/// Bytes of one table element.
const ELEMENT: usize = size_of::<usize>();

/// Counts everything that a guest makes the host keep for it against one limit.
///
/// What was counted for a memory or table stays counted even if growing it fails afterwards: no
/// sequence of failures lets a guest hold more than its limit.
#[derive(Debug)]
pub(super) struct Limits {
    limit: usize,
    used: usize,
    high: usize,
    baseline: usize,
    refused: bool,
}

impl Limits {
    pub(super) fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { limit, used: 0, high: 0, baseline: 0, refused: false }
    }

    /// Whether `bytes` more are within the limit.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used.checked_add(bytes).is_some_and(|used| used <= self.limit)
    }

    /// Counts `bytes`; false, and nothing counted, where that would pass the limit.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        match self.used.checked_add(bytes) {
            Some(used) if used <= self.limit => {
                self.used = used;
                self.high = self.high.max(used);
                true
            }
            _ => {
                self.refused = true;
                false
            }
        }
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Whether something was refused since the last [`Limits::begin_call`].
    pub(super) fn refused(&self) -> bool {
        self.refused
    }

    pub(super) fn begin_call(&mut self) {
        self.refused = false;
    }

    /// What is held now is what the guest needs at rest.
    pub(super) fn settle(&mut self) {
        self.baseline = self.used;
    }

    /// Whether the guest once held more than half of what its limit leaves above its rest.
    /// Linear memory never shrinks, so only a new instance gives it back.
    pub(super) fn passed_high_water(&self) -> bool {
        let room = self.limit.saturating_sub(self.baseline);
        self.high.saturating_sub(self.baseline) > room / 2
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = self.take(desired.saturating_sub(current));
        if allowed && maximum.is_some_and(|maximum| desired > maximum) {
            self.give_back(desired.saturating_sub(current));
            return Ok(false);
        }
        Ok(allowed)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let (current, desired) = (bytes(current), bytes(desired));
        self.memory_growing(current, desired, maximum.map(bytes))
    }

    fn table_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory_grow_failed(error)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

fn bytes(elements: usize) -> usize {
    elements.saturating_mul(ELEMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_tables_and_frames_count_together() {
        let mut limits = Limits::new(1000);
        assert!(limits.memory_growing(0, 400, None).unwrap());
        assert!(limits.table_growing(0, 50, None).unwrap());
        assert!(limits.take(200));
        assert!(!limits.refused());
        assert!(!limits.take(1));
        assert!(limits.refused());
        limits.begin_call();
        limits.give_back(200);
        assert!(!limits.refused());
        assert!(limits.memory_growing(400, 600, None).unwrap());
        assert!(!limits.table_growing(50, 51, None).unwrap());
    }

    #[test]
    fn the_guests_own_maximum_is_no_fault_of_the_limit_and_counts_nothing() {
        let mut limits = Limits::new(1000);
        assert!(!limits.memory_growing(0, 500, Some(499)).unwrap());
        assert!(!limits.refused());
        assert!(limits.memory_growing(0, 1000, None).unwrap());
    }

    #[test]
    fn sizes_that_overflow_are_refused() {
        let mut limits = Limits::new(u64::MAX);
        assert!(limits.take(1));
        assert!(!limits.table_growing(0, usize::MAX, None).unwrap());
    }

    #[test]
    fn failing_to_grow_frees_nothing() {
        let mut limits = Limits::new(1000);
        assert!(limits.memory_growing(0, 1000, None).unwrap());
        limits.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert!(limits.refused());
        assert!(!limits.take(1));
    }

    #[test]
    fn half_of_what_is_left_above_rest_wears_out() {
        let mut limits = Limits::new(1000);
        assert!(limits.take(600));
        limits.settle();
        assert!(limits.take(200));
        assert!(!limits.passed_high_water());
        assert!(limits.take(1));
        limits.give_back(201);
        assert!(limits.passed_high_water());
    }
}

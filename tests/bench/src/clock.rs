//! The only place of this package that reads the time.

use std::time::{Duration, Instant};

/// Nanoseconds since the clock was made.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "a stopwatch has to read the time")]
        let start = Instant::now();
        Self { start }
    }

    pub(crate) fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }
}

/// A duration of up to 584 years in nanoseconds.
pub(crate) const fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000_000 + duration.subsec_nanos() as u64
}

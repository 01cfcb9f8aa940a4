//! Time as the generator counts it: nanoseconds since the run began.

use std::time::{Duration, Instant};

use crate::clock;

/// Where the time comes from. Tests have their own.
pub(super) trait Time {
    /// Nanoseconds since the run began.
    fn now(&self) -> u64;
}

/// The real time; all threads of a run share its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    start: Instant,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { start: clock::now() }
    }
}

impl Time for Stopwatch {
    #[inline]
    fn now(&self) -> u64 {
        nanoseconds(clock::now() - self.start)
    }
}

/// The part of a run in which messages count, and what lies before: `[start, begin)` warms up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Window {
    /// Before the window is known: nothing lies in it.
    pub(super) const NONE: Self = Self { start: u64::MAX, begin: u64::MAX, end: 0 };

    #[inline]
    pub(super) fn contains(&self, at: u64) -> bool {
        (self.begin..self.end).contains(&at)
    }

    pub(super) fn seconds(&self) -> f64 {
        seconds(self.end - self.begin)
    }
}

pub(super) const SECOND: u64 = 1_000_000_000;

/// A duration of up to 584 years.
pub(super) const fn nanoseconds(duration: Duration) -> u64 {
    duration.as_secs() * SECOND + duration.subsec_nanos() as u64
}

pub(super) fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / SECOND as f64
}

//! Latencies in nanoseconds, in High Dynamic Range histograms.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::time::{SECOND, nanoseconds};

/// What counts at most; longer ones count as this: an hour.
const HIGHEST: u64 = 3_600 * SECOND;

/// Latencies, to three significant digits. 270 KiB.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Self {
        Self(histogram(3))
    }

    /// Costs some nanoseconds.
    #[inline]
    pub(super) fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// For several messages at the cost of one.
    #[inline]
    pub(super) fn record_several(&mut self, nanoseconds: u64, count: u32) {
        self.0.saturating_record_n(nanoseconds, u64::from(count));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // All have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What a `share` (0 to 1) of the latencies does not pass, in nanoseconds; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The longest one in nanoseconds; 0 if there are none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }
}

impl fmt::Debug for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99) = (self.quantile(0.5), self.quantile(0.99));
        write!(f, "Latencies {{ count: {}, p50: {p50}, p99: {p99} }}", self.count())
    }
}

/// Latencies by the time at which their messages were sent or due: a histogram to two significant
/// digits, of at most 18 KiB, for each step of the window.
#[derive(Clone, Debug)]
pub struct Series {
    step: u64,
    steps: Vec<Histogram<u32>>,
}

/// The most steps of a series; a longer window has longer ones.
const MAX_STEPS: u64 = 600;

/// What a series says about one of its steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Seconds from the window's beginning to the middle of the step.
    pub at: f64,
    /// Nanoseconds.
    pub p50: u64,
    /// Nanoseconds.
    pub p99: u64,
}

impl Series {
    /// Steps of a second; where that makes few of them shorter ones, but at least 0.1 s.
    pub(super) fn new(window: Duration) -> Self {
        let window = nanoseconds(window).max(1);
        let step = (window / 20).clamp(SECOND / 10, SECOND).max(window.div_ceil(MAX_STEPS));
        let count = usize::try_from(window.div_ceil(step)).unwrap_or(0);
        Self { step, steps: vec![histogram(2); count] }
    }

    /// `at` counts from the window's beginning.
    #[inline]
    pub(super) fn record(&mut self, at: u64, nanoseconds: u64, count: u32) {
        let index = usize::try_from(at / self.step).unwrap_or(usize::MAX);
        if let Some(step) = self.steps.get_mut(index) {
            step.saturating_record_n(nanoseconds, count);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (step, more) in self.steps.iter_mut().zip(&other.steps) {
            // All have the same bounds.
            let _ = step.add(more);
        }
    }

    /// Seconds from one point to the next.
    #[must_use]
    pub fn step_seconds(&self) -> f64 {
        self.step as f64 / SECOND as f64
    }

    /// The steps in which there was any message.
    pub fn points(&self) -> impl Iterator<Item = Point> {
        let filled = self.steps.iter().enumerate().filter(|(_, step)| !step.is_empty());
        filled.map(|(index, step)| Point {
            at: (index as f64 + 0.5) * self.step_seconds(),
            p50: step.value_at_quantile(0.5),
            p99: step.value_at_quantile(0.99),
        })
    }
}

fn histogram<C: hdrhistogram::Counter>(digits: u8) -> Histogram<C> {
    #[expect(clippy::expect_used, reason = "the bounds are constants, and the tests make both")]
    Histogram::new_with_bounds(1, HIGHEST, digits).expect("the bounds fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_latencies() {
        let mut latencies = Latencies::new();
        assert_eq!((latencies.quantile(0.5), latencies.max()), (0, 0));
        for value in 1..=1_000 {
            latencies.record(value);
        }
        assert_eq!(latencies.quantile(0.5), 500);
        assert_eq!(latencies.quantile(0.99), 990);
        assert_eq!(latencies.quantile(1.0), 1_000);
        assert_eq!((latencies.count(), latencies.max()), (1_000, 1_000));
    }

    #[test]
    fn three_digits_are_right() {
        for value in [1_234_567_u64, 59 * SECOND, HIGHEST] {
            let mut latencies = Latencies::new();
            latencies.record(value);
            latencies.record(1);
            assert!(latencies.quantile(1.0).abs_diff(value) * 1_000 <= value, "{value}");
        }
    }

    #[test]
    fn more_than_an_hour_counts_as_an_hour() {
        let mut latencies = Latencies::new();
        latencies.record(HIGHEST * 2);
        assert!(latencies.max().abs_diff(HIGHEST) * 1_000 <= HIGHEST);
        assert_eq!(latencies.count(), 1);
    }

    #[test]
    fn merged_latencies_are_those_of_both() {
        let (mut one, mut other) = (Latencies::new(), Latencies::new());
        one.record(10);
        other.record(1_000);
        one.merge(&other);
        assert_eq!((one.count(), one.quantile(0.5), one.max()), (2, 10, 1_000));
    }

    #[test]
    fn a_series_keeps_each_step_apart() {
        let mut series = Series::new(Duration::from_secs(30));
        assert_eq!(series.steps.len(), 30);
        series.record(SECOND - 1, 10, 1);
        series.record(SECOND, 20, 1);
        series.record(30 * SECOND - 1, 30, 1);
        series.record(30 * SECOND, 40, 1);
        let points: Vec<_> = series.points().map(|point| (point.at, point.p99)).collect();
        assert_eq!(points, [(0.5, 10), (1.5, 20), (29.5, 30)]);
    }

    #[test]
    fn a_series_has_neither_too_few_nor_too_many_steps() {
        for (seconds, steps) in [(1, 10), (5, 20), (20, 20), (600, 600), (601, 600), (86_400, 600)]
        {
            assert_eq!(Series::new(Duration::from_secs(seconds)).steps.len(), steps, "{seconds}");
        }
    }
}

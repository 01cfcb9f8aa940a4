//! Latencies, counted in steps of at most 1.6 %.

/// Steps per power of two, as a power of two.
const BITS: u32 = 6;
const STEPS: usize = 1 << BITS;

/// Counts of values: exact below 64, then 64 steps for each doubling. 30 KiB.
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; index(u64::MAX) + 1], total: 0, max: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, value: u64) {
        self.counts[index(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// The value that a `share` (0 to 1) of all values does not pass; 0 if there are none.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return highest(index).min(self.max);
            }
        }
        self.max
    }
}

/// The step of a value: its power of two and the six bits after the leading one.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits are left")]
fn index(value: u64) -> usize {
    let shift = (u64::BITS - BITS - 1).saturating_sub(value.leading_zeros());
    shift as usize * STEPS + (value >> shift) as usize
}

/// The highest value of a step.
fn highest(index: usize) -> u64 {
    let shift = (index / STEPS).saturating_sub(1);
    let lowest = (index - shift * STEPS) as u64;
    (lowest << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_one_another_and_stay_narrow() {
        for step in 0..index(u64::MAX) {
            assert_eq!(index(highest(step)), step);
            assert_eq!(index(highest(step) + 1), step + 1);
        }
        assert_eq!(highest(index(u64::MAX)), u64::MAX);
        for value in [1_000, 123_456, 1 << 40] {
            let over = highest(index(value)) - value;
            assert!(over * 64 <= value, "{value} {over}");
        }
    }

    #[test]
    fn quantiles_of_known_values() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), 0);
        for value in 1..=100 {
            histogram.record(value);
        }
        assert_eq!(histogram.quantile(0.5), 50);
        assert_eq!(histogram.quantile(0.99), 99);
        assert_eq!(histogram.quantile(1.0), 100);
        histogram.record(1_000_000);
        assert_eq!(histogram.quantile(1.0), 1_000_000);
        assert_eq!(histogram.max(), 1_000_000);
    }
}

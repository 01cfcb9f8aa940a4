//! What is counted.

use std::time::Duration;

use super::latencies::{Latencies, Series};
use super::messages::Fault;
use super::time::Window;

/// What one thread, or in the end all of them, has counted.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Of the messages sent, or due, within the window.
    pub(super) latency: Latencies,
    pub(super) series: Option<Series>,
    /// Messages received since the window began, also after its end.
    pub(super) messages: u64,
    /// Messages received within the window.
    pub(super) in_window: u64,
    pub(super) wrong: Wrong,
    /// Messages that were not answered in time.
    pub(super) unanswered: u64,
}

/// Messages that were not what they should have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrong {
    /// Another length or another kind, text or binary.
    pub shape: u64,
    /// Another message than the next one of its connection: repeated, skipped or never sent.
    pub order: u64,
    /// The right number and other bytes.
    pub altered: u64,
}

impl Tally {
    pub(super) fn new(series: Option<Duration>) -> Self {
        Self {
            latency: Latencies::new(),
            series: series.map(Series::new),
            messages: 0,
            in_window: 0,
            wrong: Wrong::default(),
            unanswered: 0,
        }
    }

    /// `count` messages that were sent, or due, at `at` have taken until `now`.
    #[inline]
    pub(super) fn took(&mut self, window: &Window, at: u64, now: u64, count: u32) {
        if !window.contains(at) {
            return;
        }
        let latency = now.saturating_sub(at);
        self.latency.record_several(latency, count);
        if let Some(series) = &mut self.series {
            series.record(at - window.begin, latency, count);
        }
    }

    /// So many messages have come.
    #[inline]
    pub(super) fn came(&mut self, window: &Window, now: u64, count: u32) {
        if now >= window.begin {
            self.messages += u64::from(count);
            if now < window.end {
                self.in_window += u64::from(count);
            }
        }
    }
}

impl Wrong {
    pub(super) fn add(&mut self, fault: Fault) {
        *match fault {
            Fault::Shape => &mut self.shape,
            Fault::Order => &mut self.order,
            Fault::Altered => &mut self.altered,
        } += 1;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.shape += other.shape;
        self.order += other.order;
        self.altered += other.altered;
    }
}

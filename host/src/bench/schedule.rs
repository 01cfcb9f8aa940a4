//! The open loop: when which connection sends, whatever came back.
//!
//! All send equally often, so they take turns. The latency of a message counts from the time at
//! which it was *due*. A server that stalls for a second delays all messages that are due
//! meanwhile, and all of them show it. Were latency counted from when they were sent, or were
//! nothing sent until the server answers, it would be one slow message among thousands: this is
//! what is called coordinated omission.

use super::time::SECOND;

/// The messages of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    start: u64,
    /// Nanoseconds between two messages of this thread.
    gap: f64,
    clients: usize,
    turn: u64,
}

impl Schedule {
    /// For `clients` (at least one), each of which sends `rate` messages a second from `start` on.
    /// Of several threads each is `shift` (0 to 1) of a gap later.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
    pub(super) fn new(clients: usize, rate: f64, start: u64, shift: f64) -> Self {
        let gap = SECOND as f64 / (rate * clients as f64);
        Self { start: start + (shift * gap) as u64, gap, clients, turn: 0 }
    }

    /// Which connection is next, and when.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
    pub(super) fn next(&self) -> (usize, u64) {
        let client = self.turn % self.clients as u64;
        (client as usize, self.start + (self.turn as f64 * self.gap) as u64)
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_take_turns_and_keep_the_rate() {
        let mut schedule = Schedule::new(4, 10.0, 1_000, 0.0);
        for turn in 0..40 {
            assert_eq!(schedule.next(), (turn % 4, 1_000 + turn as u64 * (SECOND / 40)));
            schedule.advance();
        }
    }

    #[test]
    fn threads_send_between_each_other() {
        let at = |shift| Schedule::new(1, 1_000.0, 0, shift).next().1;
        assert_eq!([at(0.0), at(0.25), at(0.5)], [0, 250_000, 500_000]);
    }

    #[test]
    fn the_rate_does_not_drift() {
        let mut schedule = Schedule::new(3, 1e6 / 3.0, 0, 0.0);
        schedule.turn = 1_000_000 * 3_600;
        assert_eq!(schedule.next().1, 3_600 * SECOND);
    }
}

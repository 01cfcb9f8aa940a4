//! Deadlines of all connections of a shard, to a tenth of a second.

use crate::conn::Tick;
use crate::types::ConnectionId;

/// Ticks that the wheel can look ahead: 102 s. A later deadline is looked at once on the way.
const SPAN: u32 = 1024;

/// Each connection stands in it about once. It is shown when its time comes, and then its true
/// deadline decides: moving a deadline back costs nothing until then.
#[derive(Debug)]
pub(super) struct Wheel {
    buckets: Box<[Vec<ConnectionId>]>,
    /// Everything up to here has been shown.
    shown: Tick,
    len: usize,
}

impl Wheel {
    pub(super) fn new() -> Self {
        Self { buckets: (0..SPAN).map(|_| Vec::new()).collect(), shown: Tick(0), len: 0 }
    }

    /// Shows `conn` at `deadline`, or earlier if that is too far ahead. Returns when.
    pub(super) fn arm(&mut self, conn: ConnectionId, deadline: Tick) -> Tick {
        let earliest = self.shown.0 + 1;
        let at = deadline.0.clamp(earliest, self.shown.0 + SPAN - 1);
        self.buckets[(at % SPAN) as usize].push(conn);
        self.len += 1;
        Tick(at)
    }

    /// Moves everything that is due by `now` into `due`, with the time for which it was armed.
    pub(super) fn advance(&mut self, now: Tick, due: &mut Vec<(ConnectionId, Tick)>) {
        let steps = now.0.saturating_sub(self.shown.0).min(SPAN);
        for step in 1..=steps {
            let at = self.shown.0 + step;
            let bucket = &mut self.buckets[(at % SPAN) as usize];
            self.len -= bucket.len();
            due.extend(bucket.drain(..).map(|conn| (conn, Tick(at))));
            // A crowd that came at once should not hold its memory for ever.
            if bucket.capacity() > 1024 {
                *bucket = Vec::new();
            }
        }
        self.shown = self.shown.max(now);
    }

    /// Whether nobody stands in it.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(slot: u32) -> ConnectionId {
        ConnectionId::new(0, slot, 1)
    }

    #[test]
    fn each_is_shown_at_its_tick_and_once() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.arm(conn(1), Tick(5)), Tick(5));
        assert_eq!(wheel.arm(conn(2), Tick(0)), Tick(1), "never in the past");
        let mut due = Vec::new();
        wheel.advance(Tick(4), &mut due);
        assert_eq!(due, [(conn(2), Tick(1))]);
        wheel.advance(Tick(5), &mut due);
        assert_eq!(due, [(conn(2), Tick(1)), (conn(1), Tick(5))]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn a_far_deadline_is_looked_at_on_the_way() {
        let mut wheel = Wheel::new();
        let mut due = Vec::new();
        wheel.advance(Tick(1_000_000), &mut due);
        assert_eq!(wheel.arm(conn(1), Tick(2_000_000)), Tick(1_000_000 + SPAN - 1));
        wheel.advance(Tick(1_000_000 + SPAN), &mut due);
        assert_eq!(due, [(conn(1), Tick(1_000_000 + SPAN - 1))]);
    }
}

//! Waiting for sockets, and for a time that is meant to the microsecond.
//!
//! The timeout of mio has milliseconds. A message that leaves a millisecond late would count as a
//! millisecond of the server's latency, so on Linux a timer of the kernel wakes the thread.

use std::io::{self, ErrorKind};
use std::time::Duration;

use mio::{Events, Poll, Registry, Token, Waker};

/// A shorter wait is spent awake, in nanoseconds: setting the timer, falling asleep and waking up
/// take some microseconds each, and an open loop may send a hundred thousand messages a second.
const AWAKE: u64 = 50_000;

/// The token of [`Sleeper::waker`].
const WAKER: Token = Token(usize::MAX);

/// A poll and a timer.
#[derive(Debug)]
pub(super) struct Sleeper {
    poll: Poll,
    timer: timer::Timer,
}

impl Sleeper {
    pub(super) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = timer::Timer::new(poll.registry())?;
        Ok(Self { poll, timer })
    }

    pub(super) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// What wakes this thread. There can be one only.
    pub(super) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKER)
    }

    /// Waits for sockets, at most from `now` to `until`, both in nanoseconds of one clock.
    pub(super) fn wait(&mut self, events: &mut Events, now: u64, until: u64) -> io::Result<()> {
        let timeout = match until.saturating_sub(now) {
            ..AWAKE => Some(Duration::ZERO),
            left => self.timer.set(until, Duration::from_nanos(left))?,
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            result => result,
        }
    }
}

/// Whether a token is that of a connection.
pub(super) fn is_connection(token: Token) -> bool {
    token < timer::TIMER
}

#[cfg(target_os = "linux")]
mod timer {
    use std::io;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::time::Duration;

    use mio::unix::SourceFd;
    use mio::{Interest, Registry, Token};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    pub(super) const TIMER: Token = Token(usize::MAX - 1);

    /// A timer that shows as a readable file.
    #[derive(Debug)]
    pub(super) struct Timer {
        file: OwnedFd,
        until: u64,
    }

    impl Timer {
        pub(super) fn new(registry: &Registry) -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            registry.register(&mut SourceFd(&file.as_raw_fd()), TIMER, Interest::READABLE)?;
            Ok(Self { file, until: 0 })
        }

        /// Ends the next wait at `until`, which is `left` from now, and returns what mio needs to
        /// know besides. A system call only where `until` is another one than before.
        pub(super) fn set(&mut self, until: u64, left: Duration) -> io::Result<Option<Duration>> {
            if until != self.until {
                let value = Timespec {
                    tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                    tv_nsec: i64::from(left.subsec_nanos()),
                };
                let once = Timespec { tv_sec: 0, tv_nsec: 0 };
                let time = Itimerspec { it_interval: once, it_value: value };
                timerfd_settime(&self.file, TimerfdTimerFlags::empty(), &time)?;
                self.until = until;
            }
            // Should the two clocks disagree by a little, a millisecond ends the wait.
            Ok(Some(left + Duration::from_millis(1)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use std::io;
    use std::time::Duration;

    use mio::{Registry, Token};

    pub(super) const TIMER: Token = Token(usize::MAX - 1);

    /// No timer: the last millisecond is spent awake.
    #[derive(Debug)]
    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new(_: &Registry) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn set(&mut self, _: u64, left: Duration) -> io::Result<Option<Duration>> {
            Ok(Some(left.saturating_sub(Duration::from_millis(1))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::time::{Stopwatch, Time};
    use super::*;

    #[test]
    fn a_wait_is_never_too_short_and_ends_by_itself() {
        let (clock, mut sleeper) = (Stopwatch::start(), Sleeper::new().unwrap());
        let mut events = Events::with_capacity(8);
        for wait in [0, 1, 999, 250_000, 3_000_000] {
            let until = clock.now() + wait;
            // Woken early it is called again, with the same end.
            while clock.now() < until {
                sleeper.wait(&mut events, clock.now(), until).unwrap();
            }
        }
    }

    #[test]
    fn a_waker_ends_a_wait() {
        let (clock, mut sleeper) = (Stopwatch::start(), Sleeper::new().unwrap());
        let waker = sleeper.waker().unwrap();
        waker.wake().unwrap();
        let mut events = Events::with_capacity(8);
        let hour = 3_600 * super::super::time::SECOND;
        sleeper.wait(&mut events, clock.now(), clock.now() + hour).unwrap();
        let tokens: Vec<_> = events.iter().map(mio::event::Event::token).collect();
        assert_eq!(tokens, [WAKER]);
        assert!(!is_connection(WAKER) && !is_connection(timer::TIMER) && is_connection(Token(0)));
    }
}

//! The closed and the open loop: what is sent must come back.

use std::collections::VecDeque;
use std::io::{Read, Write};

use super::client::End;
use super::clients::Clients;
use super::latencies::Latencies;
use super::messages::{Fault, Messages};
use super::poke::{Poke, PokeOutcome};
use super::schedule::Schedule;
use super::tally::Tally;
use super::thread::{Next, Task};
use super::time::{SECOND, Time, Window};

/// How long answers are waited for after the window.
const PATIENCE: u64 = 5 * SECOND;

/// When messages are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// So many of each connection are under way; as soon as one comes back the next is sent.
    Closed { in_flight: u32 },
    /// So many a second and connection; `shift` as in [`Schedule::new`].
    Open { rate: f64, shift: f64 },
}

/// Sending, receiving, comparing, counting.
#[derive(Debug)]
pub(super) struct Echo {
    pace: Pace,
    /// Messages are encoded one by one, for servers that compress.
    encoded: bool,
    messages: Messages,
    lines: Vec<Line>,
    poke: Option<Poke>,
    window: Window,
    schedule: Option<Schedule>,
    /// Messages of live connections that are not answered.
    under_way: usize,
    received: u64,
    tally: Tally,
    /// Open loop: how much later than due messages were sent.
    late: Latencies,
}

/// A connection's messages.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Messages under way: when so many of them were sent together, or were due.
    sent_at: VecDeque<(u64, u32)>,
    under_way: u32,
    sent: u32,
    answered: u32,
}

/// What one thread found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) tally: Tally,
    pub(super) late: Latencies,
    pub(super) poke: Option<PokeOutcome>,
}

impl Echo {
    /// For so many connections; a poke uses the one after them.
    pub(super) fn new(
        clients: usize,
        pace: Pace,
        messages: Messages,
        encoded: bool,
        tally: Tally,
        poke: Option<Poke>,
    ) -> Self {
        Self {
            pace,
            encoded,
            messages,
            lines: vec![Line::default(); clients],
            poke,
            window: Window::NONE,
            schedule: None,
            under_way: 0,
            received: 0,
            tally,
            late: Latencies::new(),
        }
    }

    pub(super) fn found(mut self) -> Found {
        self.tally.unanswered += self.under_way as u64;
        Found { tally: self.tally, late: self.late, poke: self.poke.map(|poke| poke.outcome()) }
    }

    /// Sends `count` messages that are, or were, due at `at`.
    #[inline]
    fn send<S: Read + Write>(
        &mut self,
        index: usize,
        count: u32,
        at: u64,
        clients: &mut Clients<S>,
    ) {
        let Some((client, wire)) = clients.get(index) else {
            return;
        };
        let line = &mut self.lines[index];
        let sent = if self.encoded {
            for number in 0..count {
                let number = line.sent.wrapping_add(number);
                let (kind, payload) = (self.messages.kind(), self.messages.payload(number));
                client.encode(kind, payload, wire);
            }
            client.flush()
        } else {
            client.send(self.messages.frames(line.sent, count))
        };
        line.sent = line.sent.wrapping_add(count);
        match line.sent_at.back_mut() {
            Some((same, more)) if *same == at => *more += count,
            _ => line.sent_at.push_back((at, count)),
        }
        line.under_way += count;
        self.under_way += count as usize;
        if let Err(end) = sent {
            clients.lose(index, &end);
            self.forget(index);
        }
    }

    /// What a lost connection has under way is never answered.
    fn forget(&mut self, index: usize) {
        if let Some(line) = self.lines.get_mut(index) {
            self.under_way -= line.under_way as usize;
            self.tally.unanswered += u64::from(line.under_way);
            line.under_way = 0;
            line.sent_at.clear();
        }
    }

    /// Sends what the schedule says; returns when the next message is due.
    fn send_due<S: Read + Write>(&mut self, clients: &mut Clients<S>, time: &impl Time) -> u64 {
        let now = time.now();
        while let Some(schedule) = &mut self.schedule {
            let (index, due) = schedule.next();
            if due > now || due >= self.window.end {
                return due;
            }
            schedule.advance();
            if self.window.contains(due) {
                self.late.record(now - due);
            }
            self.send(index, 1, due, clients);
        }
        u64::MAX
    }

    /// Receives from a connection that counts.
    #[inline]
    fn receive_answers<S: Read + Write>(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        time: &impl Time,
    ) -> Result<(), End> {
        let Some((client, wire)) = clients.get(index) else {
            return Ok(());
        };
        let (line, messages) = (&mut self.lines[index], &self.messages);
        let before = line.answered;
        let wrong = &mut self.tally.wrong;
        let ended = client.receive(wire, |kind, payload| {
            if let Some(fault) = messages.judge(kind, payload, line.answered) {
                wrong.add(fault);
            }
            line.answered = line.answered.wrapping_add(1);
        });
        let came = line.answered.wrapping_sub(before);
        if came > 0 {
            self.count(index, came, clients, time.now());
        }
        ended
    }

    /// Counts answers and, in a closed loop, sends as many messages as came.
    #[inline]
    fn count<S: Read + Write>(
        &mut self,
        index: usize,
        came: u32,
        clients: &mut Clients<S>,
        now: u64,
    ) {
        self.received += u64::from(came);
        let line = &mut self.lines[index];
        let answers = came.min(line.under_way);
        // An answer to nothing is a message too many.
        (answers..came).for_each(|_| self.tally.wrong.add(Fault::Order));
        line.under_way -= answers;
        self.under_way -= answers as usize;
        let mut left = answers;
        while left > 0
            && let Some((at, together)) = line.sent_at.front_mut()
        {
            let count = left.min(*together);
            self.tally.took(&self.window, *at, now, count);
            left -= count;
            *together -= count;
            if *together == 0 {
                line.sent_at.pop_front();
            }
        }
        self.tally.came(&self.window, now, came);
        if let Pace::Closed { in_flight } = self.pace
            && now < self.window.end
        {
            let free = in_flight.saturating_sub(line.under_way);
            self.send(index, came.min(free), now, clients);
        }
    }
}

impl<S: Read + Write> Task<S> for Echo {
    fn start(&mut self, window: Window, clients: &mut Clients<S>, time: &impl Time) {
        self.window = window;
        match self.pace {
            Pace::Closed { in_flight } => {
                for index in 0..self.lines.len() {
                    self.send(index, in_flight, time.now(), clients);
                }
            }
            Pace::Open { rate, shift } if !self.lines.is_empty() => {
                let schedule = Schedule::new(self.lines.len(), rate, window.start, shift);
                self.schedule = Some(schedule);
            }
            Pace::Open { .. } => {}
        }
    }

    fn advance(&mut self, clients: &mut Clients<S>, time: &impl Time) -> Next {
        let now = time.now();
        if now >= self.window.begin
            && let Some(poke) = &mut self.poke
        {
            poke.send(self.lines.len(), clients, now);
        }
        if now >= self.window.end {
            let until = self.window.end + PATIENCE;
            let over = self.under_way == 0 || now >= until;
            return if over { Next::Done } else { Next::Until(until) };
        }
        if clients.all_lost() {
            return Next::Done;
        }
        let due = self.send_due(clients, time);
        let stage = if now < self.window.begin { self.window.begin } else { self.window.end };
        Next::Until(due.min(stage))
    }

    #[inline]
    fn receive(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        time: &impl Time,
    ) -> Result<(), End> {
        if index < self.lines.len() {
            return self.receive_answers(index, clients, time);
        }
        match &mut self.poke {
            Some(poke) => poke.receive(index, clients, time.now()),
            None => Ok(()),
        }
    }

    fn lost(&mut self, index: usize) {
        self.forget(index);
    }

    fn received(&self) -> u64 {
        self.received
    }
}

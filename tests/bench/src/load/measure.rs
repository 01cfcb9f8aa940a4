//! Sending, receiving, counting.

use std::io;
use std::time::Duration;

use super::batch::Batch;
use super::client::{Client, Expected, Wrong};
use super::connect::Connector;
use super::histogram::Histogram;
use super::poke::Poke;
use super::{BUFFER, EVENTS, Options, report};
use crate::args::Error;
use crate::clock::{Clock, nanoseconds};
use crate::sys::{Epoll, Event, Events};

/// How long answers are waited for after the window.
const PATIENCE: u64 = 5_000_000_000;

/// The token of the extra connection.
const POKE: u64 = u64::MAX;

/// Connects, sends for as long as asked and reports; returns whether every answer was right.
pub(super) fn run(mut connector: Connector, options: &Options) -> Result<bool, Error> {
    let epoll = Epoll::new()?;
    let mut clients = Vec::with_capacity(options.clients);
    for index in 0..options.clients {
        let (stream, received) = connector.open()?;
        let client = Client::new(stream, received);
        epoll.add_stream(client.stream(), index as u64)?;
        clients.push(Some(client));
    }
    let poke = match &options.poke {
        Some((url, text)) => Some(Poke::open(url.clone(), text.clone())?),
        None => None,
    };
    if let Some(poke) = &poke {
        epoll.add_stream(poke.stream(), POKE)?;
    }
    let mut load = Load::new(options, clients, poke);
    load.run(&epoll)?;
    let result = load.result();
    report::result(options.format, &result)?;
    Ok(result.is_clean())
}

/// Warming up → measuring → draining.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    WarmingUp,
    Measuring,
    /// Nothing more is sent; what is under way may still be answered.
    Draining,
}

struct Load<'o> {
    options: &'o Options,
    clock: Clock,
    stage: Stage,
    /// The window, in the clock's nanoseconds.
    begin: u64,
    end: u64,
    clients: Vec<Option<Client>>,
    poke: Option<Poke>,
    batch: Batch,
    expected: Expected,
    schedule: Option<Schedule>,
    messages: u64,
    in_window: u64,
    /// Messages sent to connections that live, and not answered.
    under_way: usize,
    latency: Histogram,
    wrong: Wrong,
    lost: u64,
    first_loss: Option<String>,
    unanswered: u64,
}

impl<'o> Load<'o> {
    fn new(options: &'o Options, clients: Vec<Option<Client>>, poke: Option<Poke>) -> Self {
        let clock = Clock::new();
        let begin = clock.now() + nanoseconds(options.warmup);
        Self {
            options,
            clock,
            stage: Stage::WarmingUp,
            begin,
            end: begin + nanoseconds(options.window),
            schedule: (options.rate > 0.0).then(|| Schedule::new(options, clock.now())),
            clients,
            poke,
            batch: Batch::new(options.in_flight, options.size, options.text),
            expected: Expected::new(options.size, options.text),
            messages: 0,
            in_window: 0,
            under_way: 0,
            latency: Histogram::new(),
            wrong: Wrong::default(),
            lost: 0,
            first_loss: None,
            unanswered: 0,
        }
    }

    fn run(&mut self, epoll: &Epoll) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; BUFFER];
        if self.schedule.is_none() {
            for index in 0..self.clients.len() {
                self.send(index, self.options.in_flight, self.clock.now());
            }
        }
        while let Some(wait) = self.advance()? {
            for index in 0..epoll.wait(&mut events, Some(wait))? {
                self.handle(events.get(index), &mut buffer);
            }
        }
        Ok(())
    }

    /// Goes on to the next stage when its time has come and sends what is due. Returns how long
    /// nothing is due, or `None` at the end.
    fn advance(&mut self) -> io::Result<Option<Duration>> {
        let now = self.clock.now();
        if self.stage == Stage::WarmingUp && now >= self.begin {
            self.stage = Stage::Measuring;
            report::measuring(self.options.format, self.options)?;
            if let Some(poke) = &mut self.poke {
                poke.send(now)?;
            }
        }
        if self.stage == Stage::Measuring && now >= self.end {
            self.stage = Stage::Draining;
        }
        let mut until = match self.stage {
            Stage::WarmingUp => self.begin,
            Stage::Measuring => self.end,
            Stage::Draining => self.end + PATIENCE,
        };
        if self.stage == Stage::Draining {
            let is_over = self.under_way == 0 || now >= until;
            return Ok((!is_over).then(|| Duration::from_nanos(until - now)));
        }
        if self.lost == self.clients.len() as u64 {
            return Ok(None);
        }
        while let Some(schedule) = &mut self.schedule {
            let (index, due) = schedule.next();
            if due > now {
                until = until.min(due);
                break;
            }
            schedule.advance();
            self.send(index, 1, due);
        }
        Ok(Some(Duration::from_nanos(until.saturating_sub(self.clock.now()))))
    }

    #[inline]
    fn handle(&mut self, event: Event, buffer: &mut [u8]) {
        if event.token == POKE {
            if let Some(poke) = &mut self.poke {
                poke.receive(self.clock.now());
            }
            return;
        }
        let Ok(index) = usize::try_from(event.token) else {
            return;
        };
        let Some(Some(client)) = self.clients.get_mut(index) else {
            return;
        };
        let mut came = Ok(0);
        if event.writable {
            came = client.flush().map(|()| 0);
        }
        if event.readable && came.is_ok() {
            came = client.receive(buffer, self.expected, &mut self.wrong);
        }
        match came {
            Ok(0) => {}
            Ok(answers) => self.count(index, answers),
            Err(error) => self.lose(index, &error),
        }
    }

    /// Counts answers and, in a closed loop, sends as many messages as came.
    #[inline]
    fn count(&mut self, index: usize, answers: usize) {
        let now = self.clock.now();
        let Some(client) = &mut self.clients[index] else {
            return;
        };
        for _ in 0..answers {
            // An answer to nothing is a message too many.
            let Some(sent_at) = client.take_sent_at() else {
                self.wrong.order += 1;
                continue;
            };
            self.under_way -= 1;
            if (self.begin..self.end).contains(&sent_at) {
                self.latency.record(now.saturating_sub(sent_at));
            }
        }
        if self.stage != Stage::WarmingUp {
            self.messages += answers as u64;
            if now < self.end {
                self.in_window += answers as u64;
            }
        }
        if self.schedule.is_none() && self.stage != Stage::Draining {
            let free = self.options.in_flight.saturating_sub(client.under_way());
            self.send(index, answers.min(free), now);
        }
    }

    /// Sends `count` messages that are, or were, due at `at`.
    #[inline]
    fn send(&mut self, index: usize, count: usize, at: u64) {
        let Some(Some(client)) = self.clients.get_mut(index) else {
            return;
        };
        let outcome = client.send(&mut self.batch, count, at);
        self.under_way += count;
        if let Err(error) = outcome {
            self.lose(index, &error);
        }
    }

    fn lose(&mut self, index: usize, error: &io::Error) {
        if let Some(client) = self.clients[index].take() {
            self.under_way -= client.under_way();
            self.unanswered += client.under_way() as u64;
            self.lost += 1;
            self.first_loss.get_or_insert_with(|| error.to_string());
        }
    }

    fn result(self) -> report::Result {
        report::Result {
            messages: self.messages,
            in_window: self.in_window,
            seconds: (self.end - self.begin) as f64 / 1e9,
            latency: self.latency,
            wrong: self.wrong,
            lost: self.lost,
            first_loss: self.first_loss,
            unanswered: self.unanswered + self.under_way as u64,
            poke: self.poke.map(|poke| poke.outcome()),
        }
    }
}

/// The open loop: when which connection sends, whatever came back. All send equally often, so they
/// take turns. Latency counts from the time a message was due: a server that stalls delays all of
/// the messages due meanwhile, not only those that a waiting client happened to send.
struct Schedule {
    start: u64,
    /// Nanoseconds between two messages of any connection.
    gap: f64,
    clients: usize,
    turn: u64,
}

impl Schedule {
    fn new(options: &Options, start: u64) -> Self {
        let gap = 1e9 / (options.rate * options.clients as f64);
        Self { start, gap, clients: options.clients, turn: 0 }
    }

    /// Which connection is next, and when.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
    fn next(&self) -> (usize, u64) {
        let client = self.turn % self.clients as u64;
        (client as usize, self.start + (self.turn as f64 * self.gap) as u64)
    }

    fn advance(&mut self) {
        self.turn += 1;
    }
}

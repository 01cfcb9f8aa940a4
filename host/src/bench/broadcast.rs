//! One sends, all receive: how long until the last of them has it.
//!
//! Rounds follow one another. In each the publisher sends so many messages in one write, and the
//! round ends when every receiver has every one of them.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use super::client::End;
use super::clients::Clients;
use super::latencies::Latencies;
use super::messages::{Delivery, Fault, Messages};
use super::random::Random;
use super::tally::Tally;
use super::thread::{Next, Shared, Task};
use super::time::{SECOND, Time, Window};

/// How long a round may take.
const PATIENCE: u64 = 10 * SECOND;

/// Bytes of the tag that published messages begin with.
const TAG: usize = 16;

/// The shortest message: a tag and a number.
pub(super) const MIN_SIZE: usize = TAG + 4;

/// The thread of the publisher.
const PUBLISHER: usize = 0;

/// The round that is under way; all threads work on it.
#[derive(Debug)]
pub(super) struct Round {
    /// Receivers of all threads.
    receivers: i64,
    shared: Arc<Shared>,
    /// When it began.
    at: AtomicU64,
    /// Messages still to be received; below zero if there are more than were sent.
    left: AtomicI64,
    /// When the latest of them was.
    last: AtomicU64,
    /// A receiver or the publisher is lost: no round can be complete any more.
    broken: AtomicBool,
    /// There is no further round.
    over: AtomicBool,
}

/// One thread's receivers, and perhaps the publisher.
#[derive(Debug)]
pub(super) struct Broadcast {
    round: Arc<Round>,
    messages: Messages,
    encoded: bool,
    in_flight: u32,
    /// By receiver, the number of the message that is to come next.
    next: Vec<u32>,
    /// Where in what came the last message began.
    hint: usize,
    publisher: Option<Publisher>,
    window: Window,
    received: u64,
    deliveries: Latencies,
    tally: Tally,
}

#[derive(Debug)]
struct Publisher {
    sent: u32,
    stage: Stage,
    /// Rounds that ended within the window.
    rounds: u64,
    /// Why its connection ended.
    lost: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between two rounds.
    Ready,
    /// In a round that began then.
    Waiting { at: u64 },
}

/// What one thread found.
#[derive(Debug)]
pub(super) struct Found {
    /// Latencies are those of rounds, messages those that were delivered.
    pub(super) tally: Tally,
    pub(super) deliveries: Latencies,
    pub(super) rounds: u64,
    pub(super) publisher_lost: Option<String>,
}

impl Round {
    pub(super) fn new(receivers: usize, shared: Arc<Shared>) -> Self {
        Self {
            receivers: i64::try_from(receivers).unwrap_or(i64::MAX),
            shared,
            at: AtomicU64::new(0),
            left: AtomicI64::new(0),
            last: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn begin(&self, now: u64, messages: i64) {
        self.at.store(now, Relaxed);
        self.last.store(now, Relaxed);
        // Released before anything is sent, and so before anything of it can come.
        self.left.store(messages * self.receivers, Release);
    }

    fn received(&self, count: i64, now: u64) {
        self.last.fetch_max(now, Relaxed);
        if self.left.fetch_sub(count, AcqRel) <= count {
            self.shared.wake(PUBLISHER);
        }
    }

    fn break_off(&self) {
        self.broken.store(true, Relaxed);
        self.shared.wake(PUBLISHER);
    }

    fn end(&self) {
        self.over.store(true, Relaxed);
        self.shared.wake_all();
    }
}

/// What this run's messages begin with.
pub(super) fn tag() -> [u8; TAG] {
    let mut tag = *b"plugsock:------:";
    let number = Random::new().next();
    for (at, byte) in tag[9..15].iter_mut().enumerate() {
        *byte = b"0123456789abcdef"[(number >> (8 + 4 * at) & 0xf) as usize];
    }
    tag
}

impl Broadcast {
    /// `receivers` of this thread; the publisher, if it is here, is the connection after them.
    pub(super) fn new(
        receivers: usize,
        round: Arc<Round>,
        messages: Messages,
        encoded: bool,
        in_flight: u32,
        tally: Tally,
        publishes: bool,
    ) -> Self {
        let publisher = Publisher { sent: 0, stage: Stage::Ready, rounds: 0, lost: None };
        Self {
            round,
            messages,
            encoded,
            in_flight,
            next: vec![0; receivers],
            hint: 0,
            publisher: publishes.then_some(publisher),
            window: Window::NONE,
            received: 0,
            deliveries: Latencies::new(),
            tally,
        }
    }

    pub(super) fn found(self) -> Found {
        let (rounds, publisher_lost) = match self.publisher {
            Some(publisher) => (publisher.rounds, publisher.lost),
            None => (0, None),
        };
        Found { tally: self.tally, deliveries: self.deliveries, rounds, publisher_lost }
    }

    /// Goes from round to round.
    fn publish<S: Read + Write>(&mut self, clients: &mut Clients<S>, time: &impl Time) -> Next {
        let now = time.now();
        let broken = self.round.broken.load(Relaxed);
        let Some(publisher) = &mut self.publisher else {
            return Next::Done;
        };
        if let Stage::Waiting { at } = publisher.stage {
            let left = self.round.left.load(Acquire);
            if left > 0 && !broken && now < at + PATIENCE {
                return Next::Until(at + PATIENCE);
            }
            if left > 0 {
                self.tally.unanswered += left.unsigned_abs();
                self.round.end();
                return Next::Done;
            }
            publisher.stage = Stage::Ready;
            publisher.rounds += u64::from(self.window.contains(at));
            self.tally.took(&self.window, at, self.round.last.load(Relaxed), 1);
        }
        if broken || now >= self.window.end {
            self.round.end();
            return Next::Done;
        }
        self.send(clients, time.now());
        Next::Until(now + PATIENCE)
    }

    fn send<S: Read + Write>(&mut self, clients: &mut Clients<S>, now: u64) {
        let index = self.next.len();
        let (Some(publisher), Some((client, wire))) = (&mut self.publisher, clients.get(index))
        else {
            return self.round.break_off();
        };
        let first = publisher.sent;
        publisher.sent = first.wrapping_add(self.in_flight);
        publisher.stage = Stage::Waiting { at: now };
        self.round.begin(now, i64::from(self.in_flight));
        let sent = if self.encoded {
            for number in 0..self.in_flight {
                let number = first.wrapping_add(number);
                let (kind, payload) = (self.messages.kind(), self.messages.payload(number));
                client.encode(kind, payload, wire);
            }
            client.flush()
        } else {
            client.send(self.messages.frames(first, self.in_flight))
        };
        if let Err(end) = sent {
            publisher.lost = Some(end.to_string());
            clients.lose(index, &end);
            self.round.break_off();
        }
    }

    #[inline]
    fn receive_deliveries<S: Read + Write>(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        time: &impl Time,
    ) -> Result<(), End> {
        let Some((client, wire)) = clients.get(index) else {
            return Ok(());
        };
        let (messages, wrong) = (&self.messages, &mut self.tally.wrong);
        let (next, hint, received) = (&mut self.next[index], &mut self.hint, &mut self.received);
        let mut count = 0_u32;
        let ended = client.receive(wire, |kind, payload| {
            *received += 1;
            match messages.delivery(kind, payload, *next, hint) {
                Delivery::Other => return,
                Delivery::Right => *next = next.wrapping_add(1),
                Delivery::Wrong(fault) => {
                    wrong.add(fault);
                    *next = next.wrapping_add(1);
                }
                Delivery::Later(number) => {
                    wrong.add(Fault::Order);
                    *next = number.wrapping_add(1);
                }
                Delivery::Repeated => return wrong.add(Fault::Order),
            }
            count += 1;
        });
        if count > 0 {
            let (now, at) = (time.now(), self.round.at.load(Relaxed));
            if self.window.contains(at) {
                self.deliveries.record_several(now.saturating_sub(at), count);
            }
            self.tally.came(&self.window, now, count);
            self.round.received(i64::from(count), now);
        }
        ended
    }
}

impl<S: Read + Write> Task<S> for Broadcast {
    fn start(&mut self, window: Window, _: &mut Clients<S>, _: &impl Time) {
        self.window = window;
    }

    fn advance(&mut self, clients: &mut Clients<S>, time: &impl Time) -> Next {
        if clients.losses().count > 0 {
            self.round.break_off();
        }
        if self.publisher.is_some() {
            return self.publish(clients, time);
        }
        match self.round.over.load(Relaxed) {
            true => Next::Done,
            false => Next::Until(time.now() + SECOND),
        }
    }

    #[inline]
    fn receive(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        time: &impl Time,
    ) -> Result<(), End> {
        if index < self.next.len() {
            return self.receive_deliveries(index, clients, time);
        }
        // Many servers send a message to its publisher, too.
        let Some((client, wire)) = clients.get(index) else {
            return Ok(());
        };
        client.receive(wire, |_, _| self.received += 1).inspect_err(|end| {
            if let Some(publisher) = &mut self.publisher {
                publisher.lost = Some(end.to_string());
            }
        })
    }

    fn lost(&mut self, _: usize) {
        self.round.break_off();
    }

    fn received(&self) -> u64 {
        self.received
    }
}

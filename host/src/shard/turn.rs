//! One turn after the other.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Token};
use plugsock_ws::deflate::Codec;
use plugsock_ws::handshake::Refusal;

use super::accept::{Arrival, Door, Shortage};
use super::slab::Slab;
use super::wheel::Wheel;
use super::{BUFFER, Control, EVENTS, WAKER};
use crate::clock;
use crate::conn::{Conn, Env, Parcel, Pieces, RETRY_AFTER_S, Tick, Turn};
use crate::inbound::Batch;
use crate::listen::Rejected;
use crate::metrics::Counter;
use crate::outbound::{Commit, Entry, Topics};
use crate::types::ConnectionId;

/// Connections that are resumed per turn when the host has room again.
const RESUMED: usize = 64;
/// Sockets that are written to per turn, about 2 ms of it: a message for many thousands does not
/// keep the shard from reading and answering pings.
const WRITTEN: usize = 512;

/// Everything of one I/O thread.
#[derive(Debug)]
pub struct Shard {
    env: Env,
    poll: Poll,
    events: Events,
    door: Door,
    control: Arc<Control>,
    conns: Slab,
    wheel: Wheel,
    topics: Topics,
    buffer: Box<[u8]>,
    batch: Batch,
    pieces: Pieces,
    codec: Codec,
    /// Slots that have something to write, longest first.
    flush: VecDeque<u32>,
    /// Slots whose socket may have more than one receive took.
    again: Vec<u32>,
    /// Connections that wait for room in the host's queues, longest first.
    stalled: VecDeque<ConnectionId>,
    gone: Vec<u32>,
    /// What the workers have posted, until all of it is carried out.
    commits: Vec<Commit>,
    /// How far that has come: a commit, and an entry in it.
    carried: (usize, usize),
    started: Instant,
    now: Tick,
    stopping: bool,
}

impl Shard {
    pub(super) fn new(env: Env, poll: Poll, door: Door, control: Arc<Control>) -> Self {
        let shard = u8::try_from(env.shard).unwrap_or(u8::MAX);
        let settings = env.config.compression.as_ref().map(|compression| compression.settings);
        Self {
            env,
            poll,
            events: Events::with_capacity(EVENTS),
            door,
            control,
            conns: Slab::new(shard),
            wheel: Wheel::new(),
            topics: Topics::default(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            batch: Batch::default(),
            pieces: Pieces::default(),
            codec: settings.map_or_else(Codec::default, Codec::new),
            flush: VecDeque::new(),
            again: Vec::new(),
            stalled: VecDeque::new(),
            gone: Vec::new(),
            commits: Vec::new(),
            carried: (0, 0),
            started: clock::now(),
            now: Tick(0),
            stopping: false,
        }
    }

    /// The first half of a turn: waits until there is something to do, and reads what came.
    ///
    /// # Errors
    /// Those of the system; the shard cannot go on.
    pub fn gather(&mut self) -> io::Result<()> {
        self.wait()?;
        self.now = tick(self.started);
        let events = mem::replace(&mut self.events, Events::with_capacity(0));
        let commits = mem::take(&mut self.commits);
        self.read(&events, &commits);
        (self.events, self.commits) = (events, commits);
        Ok(())
    }

    /// What came for handlers and has to be handed to them.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The second half of a turn: carries out what handlers have asked for, does what is due, and
    /// writes. False when the host stops and the last connection has gone.
    pub fn deliver(&mut self) -> bool {
        let mut commits = mem::take(&mut self.commits);
        if commits.is_empty() {
            self.env.shared.hub.collect(self.env.shard, &mut commits);
        }
        let carried_out = self.carry_out(&commits);
        self.expire();
        self.resume_stalled();
        let over = self.obey();
        let written = self.write(&commits, WRITTEN);
        if carried_out && written {
            self.env.shared.hub.give_back(self.env.shard, &mut commits);
            self.carried = (0, 0);
        }
        self.commits = commits;
        self.bury();
        let drained = self.stopping && self.conns.is_empty();
        !(over || drained)
    }

    /// Sleeps until a socket is ready, a mailbox has something, or a tick is over.
    fn wait(&mut self) -> io::Result<()> {
        // First the flag that says "asleep", then every reason not to: whoever gives a reason looks
        // at the flag after.
        let mail = !self.env.shared.hub.fall_asleep(self.env.shard);
        let busy = mail
            || !self.commits.is_empty()
            || !self.flush.is_empty()
            || !self.again.is_empty()
            || self.door.has_more(self.now)
            || self.may_resume()
            || (self.control.stops() && !self.stopping)
            || self.control.is_abandoned();
        let tick = Duration::from_millis(1_000 / u64::from(Tick::PER_SECOND));
        let idle = self.wheel.is_empty() && !self.door.rests();
        let timeout = match (busy, idle) {
            (true, _) => Some(Duration::ZERO),
            (false, false) => Some(tick),
            (false, true) => None,
        };
        let polled = self.poll.poll(&mut self.events, timeout);
        self.env.shared.hub.wake_up(self.env.shard);
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    /// Whether connections wait for room and there is some. If there is none yet, the shard will
    /// be woken when there is.
    fn may_resume(&self) -> bool {
        let room = self.env.inbound.room();
        !self.stalled.is_empty() && {
            room.await_some();
            room.has_some()
        }
    }

    /// Reads every socket that is ready, once.
    fn read(&mut self, events: &Events, commits: &[Commit]) {
        for slot in mem::take(&mut self.again) {
            if let Some(slot) = self.conns.slot(slot) {
                slot.listed.again = false;
            }
            self.visit(slot, |conn, buffer, turn| conn.read(false, buffer, turn));
        }
        for event in events {
            let Token(token) = event.token();
            if event.token() == WAKER || self.door.knock(event.token()) {
                continue;
            }
            let Ok(slot) = u32::try_from(token) else { continue };
            let ended = event.is_read_closed();
            let (readable, writable) = (event.is_readable() || ended, event.is_writable());
            let failed = event.is_error();
            self.visit(slot, |conn, buffer, turn| {
                if failed {
                    return conn.fail(turn);
                }
                // A ping that is read first is answered before the rest of a large message.
                if readable {
                    conn.read(ended, buffer, turn);
                }
                if writable {
                    conn.write_out(turn);
                }
            });
            if self.pieces.is_full() {
                self.write(commits, usize::MAX);
            }
        }
        self.accept();
    }

    fn accept(&mut self) {
        for nth in 0.. {
            match self.door.next(nth, self.now) {
                Ok(Some(arrival)) => self.welcome(arrival),
                Ok(None) => return,
                Err(Shortage(error)) => return self.report(&error),
            }
        }
    }

    /// Descriptors or memory are short.
    fn report(&mut self, error: &io::Error) {
        self.env.metrics.add(self.env.shard, Counter::AcceptPauses, 1);
        if self.door.may_log(self.now) {
            tracing::error!(%error, "no new connections: raise the open-file limit");
        }
    }

    fn welcome(&mut self, arrival: Arrival) {
        let Some(id) = self.conns.vacant() else { return };
        let Arrival { mut socket, client, permit, rejected } = arrival;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(id.slot() as usize);
        if let Err(error) = self.poll.registry().register(&mut socket, token, interest) {
            return self.report(&error);
        }
        let until = self.now.after(self.env.config.handshake_timeout);
        self.conns.insert(Conn::new(socket, client, id, permit, self.now, until));
        self.visit(id.slot(), |conn, _, turn| match rejected {
            Some(Rejected::Full) => {
                conn.refuse(&Refusal::unavailable("The host is full.", RETRY_AFTER_S), turn);
            }
            Some(Rejected::TooManyFromAddress) => {
                conn.refuse(&Refusal::too_many_requests(RETRY_AFTER_S), turn);
            }
            None => {}
        });
    }

    /// What the workers' handlers have asked for. False if there was so much that the rest has to
    /// wait for the next turn, so that sockets are read in between.
    fn carry_out(&mut self, commits: &[Commit]) -> bool {
        let (first, mut next) = self.carried;
        for (number, commit) in (0..).zip(commits).skip(first) {
            while let Some(entry) = commit.entries.get(next) {
                if self.pieces.is_full() {
                    self.carried = (number as usize, next);
                    return false;
                }
                self.carry_out_one(number, commit, *entry);
                next += 1;
            }
            next = 0;
        }
        self.carried = (commits.len(), 0);
        true
    }

    fn carry_out_one(&mut self, number: u32, commit: &Commit, entry: Entry) {
        let parcel =
            |message: u32| Parcel { number, commit, forms: commit.messages[message as usize] };
        match entry {
            Entry::Send { conn, at, len } => self.visit_tenant(conn, |conn, turn| {
                conn.push(number, at, len, turn.pieces);
            }),
            Entry::Message { conn, message } => {
                let message = parcel(message);
                self.visit_tenant(conn, |conn, turn| {
                    let size = turn.env.config.fragment_size;
                    conn.push_own(message, size, turn.pieces, turn.codec);
                });
            }
            Entry::Handled { conn, events, bytes } => self.visit_tenant(conn, |conn, turn| {
                conn.handled(events, bytes, turn);
            }),
            Entry::Finished { conn } => self.conns.finish(conn),
            Entry::Close { conn, code, reason } => self.visit_tenant(conn, |conn, turn| {
                conn.close(code, commit.name(reason), turn);
            }),
            Entry::Respond { conn, at, len } => self.visit_tenant(conn, |conn, turn| {
                conn.respond(number, at, len, turn);
            }),
            Entry::Subscribe { conn, channel } => self.visit_tenant(conn, |conn, turn| {
                conn.subscribe(commit.name(channel), turn);
            }),
            Entry::Unsubscribe { conn, channel } => self.visit_tenant(conn, |conn, turn| {
                conn.unsubscribe(commit.name(channel), turn);
            }),
            Entry::Publish { except, plugin, channel, message } => {
                let (channel, message) = (commit.name(channel), parcel(message));
                let mut delivered = 0;
                for slot in self.topics.subscribers(plugin, channel) {
                    let Some(slot_of) = self.conns.slot(slot) else { continue };
                    let Some(conn) = &mut slot_of.conn else { continue };
                    if except != conn.id() && conn.push_shared(message, &mut self.pieces) {
                        delivered += 1;
                        list(&mut slot_of.listed.flush, &mut self.flush, slot);
                    }
                }
                self.env.metrics.add(self.env.shard, Counter::Delivered, delivered);
            }
            Entry::Broadcast { plugin, message } => {
                let message = parcel(message);
                let mut delivered = 0;
                for (slot, slot_of) in self.conns.tenants() {
                    if let Some(conn) = &mut slot_of.conn
                        && conn.serves(plugin)
                        && conn.push_shared(message, &mut self.pieces)
                    {
                        delivered += 1;
                        list(&mut slot_of.listed.flush, &mut self.flush, slot);
                    }
                }
                self.env.metrics.add(self.env.shard, Counter::Delivered, delivered);
            }
        }
    }

    /// Connections whose deadline has come.
    fn expire(&mut self) {
        let mut due = Vec::new();
        self.wheel.advance(self.now, &mut due);
        for (id, at) in due {
            // Of a connection that was armed anew for an earlier time, the old entry is void.
            let Some(slot) = self.conns.tenant(id).filter(|slot| slot.armed == at) else {
                continue;
            };
            slot.armed = Tick::NEVER;
            let expired = slot.conn.as_ref().is_some_and(|conn| conn.deadline() <= self.now);
            self.visit(id.slot(), |conn, _, turn| {
                if expired {
                    conn.expire(turn);
                }
            });
        }
    }

    /// Lets connections read on that the host's full queues had stopped.
    fn resume_stalled(&mut self) {
        if self.stalled.is_empty() || !self.env.inbound.room().has_some() {
            return;
        }
        for _ in 0..RESUMED {
            let Some(id) = self.stalled.pop_front() else { return };
            let Some(slot) = self.conns.tenant(id) else { continue };
            slot.listed.stalled = false;
            self.visit_tenant(id, Conn::resume);
        }
    }

    /// Does what the main thread has said. True if the shard must end now.
    fn obey(&mut self) -> bool {
        if self.control.stops() && !self.stopping {
            self.stopping = true;
            self.door.close();
            let slots: Vec<u32> = self.conns.tenants().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.visit(slot, |conn, _, turn| conn.stop(turn));
            }
        }
        let abandoned = self.control.is_abandoned();
        if abandoned {
            let slots: Vec<u32> = self.conns.tenants().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.visit(slot, |conn, _, turn| conn.fail(turn));
            }
        }
        abandoned
    }

    /// Writes to connections that have something, to so many at most. False if there are more: what
    /// they are to be sent still lies in the pieces and the commits.
    fn write(&mut self, commits: &[Commit], most: usize) -> bool {
        for _ in 0..most {
            let Some(slot) = self.flush.pop_front() else { break };
            if let Some(slot) = self.conns.slot(slot) {
                slot.listed.flush = false;
            }
            self.visit(slot, |conn, _, turn| conn.flush(commits, turn));
        }
        let all = self.flush.is_empty();
        if all {
            self.pieces.clear();
        }
        all
    }

    /// Drops those that have gone.
    fn bury(&mut self) {
        for slot in self.gone.drain(..) {
            self.conns.remove(slot);
        }
    }

    fn visit_tenant(&mut self, id: ConnectionId, call: impl FnOnce(&mut Conn, &mut Turn<'_>)) {
        if self.conns.tenant(id).is_some() {
            self.visit(id.slot(), |conn, _, turn| call(conn, turn));
        }
    }

    /// Calls a connection and notes what it wants next.
    fn visit(&mut self, slot: u32, call: impl FnOnce(&mut Conn, &mut [u8], &mut Turn<'_>)) {
        let Some(slot_of) = self.conns.slot(slot) else { return };
        let Some(conn) = &mut slot_of.conn else { return };
        let mut turn = Turn {
            env: &self.env,
            batch: &mut self.batch,
            pieces: &mut self.pieces,
            codec: &mut self.codec,
            topics: &mut self.topics,
            now: self.now,
        };
        call(conn, &mut self.buffer, &mut turn);
        slot_of.awaited |= conn.take_announcement();
        let listed = &mut slot_of.listed;
        if conn.is_gone() {
            list(&mut listed.gone, &mut self.gone, slot);
            return;
        }
        if conn.wants_to_flush() {
            list(&mut listed.flush, &mut self.flush, slot);
        }
        if conn.wants_to_read() {
            list(&mut listed.again, &mut self.again, slot);
        }
        if conn.waits_for_room() && !listed.stalled {
            listed.stalled = true;
            self.stalled.push_back(conn.id());
        }
        let deadline = conn.deadline();
        if deadline < slot_of.armed && deadline != Tick::NEVER {
            slot_of.armed = self.wheel.arm(conn.id(), deadline);
        }
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.env.shared.hub.close(self.env.shard);
    }
}

/// Puts a slot on a list, unless it stands there.
fn list(listed: &mut bool, list: &mut impl Extend<u32>, slot: u32) {
    if !mem::replace(listed, true) {
        list.extend([slot]);
    }
}

fn tick(since: Instant) -> Tick {
    let ticks =
        clock::now().duration_since(since).as_millis() / (1_000 / u128::from(Tick::PER_SECOND));
    Tick(u32::try_from(ticks).unwrap_or(u32::MAX))
}

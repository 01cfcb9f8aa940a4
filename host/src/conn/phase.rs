//! The connection and its phases.

use std::net::{IpAddr, Shutdown};

use mio::net::TcpStream;
use plugsock_ws::State;
use plugsock_ws::handshake::{HeadBuffer, Refusal};

use super::output::{Flushed, Pieces, Queue, Source};
use super::route::PagePermit;
use super::session::Session;
use super::socket::{Received, receive};
use super::{SlowConsumer, Tick, Turn};
use crate::listen::Permit;
use crate::metrics::Counter;
use crate::outbound::{Commit, Outbox};
use crate::types::ConnectionId;

/// Messages of the largest size that are read and thrown away after the end of a conversation, at
/// most: a peer whose message is too large sends it to its end before it looks for an answer.
const DISCARDED_MESSAGES: u64 = 4;

/// One socket's life. About 150 bytes while idle.
#[derive(Debug)]
pub struct Conn {
    pub(super) id: ConnectionId,
    pub(super) socket: TcpStream,
    _permit: Permit,
    /// Its place among those that are sent a page.
    pub(super) page: Option<PagePermit>,
    pub(super) phase: Phase,
    /// What leaves at the end of this turn.
    pub(super) queue: Queue,
    /// What the socket did not take.
    pub(super) outbox: Option<Box<Outbox>>,
    /// Received but not parsed: the connection's own queue or the host's was full.
    pub(super) unread: Option<Box<Unread>>,
    pub(super) deadline: Tick,
    /// When the peer last sent something or took something that had waited.
    pub(super) last_seen: Tick,
    /// The socket may have more to read.
    pub(super) readable: bool,
    /// The peer will send no more than is there to read.
    ended: bool,
    /// The workers have just been told of it.
    pub(super) announced: bool,
    /// A message is inflated in steps.
    pub(super) inflating: bool,
    /// Why it is not read, if it is not.
    pub(super) stalled: Stalled,
}

/// Where a connection is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    /// The head of the request is on its way.
    Handshake(Box<Opening>),
    /// A plain request waits for its response.
    Responding,
    /// Messages go both ways, or the closing handshake is under way.
    Open(Session),
    /// Both sides have said goodbye: the socket goes as soon as what waits is written. The server
    /// is the one to close it (RFC 6455 §7.1.1), and nothing that it loses was legal to send.
    Departing,
    /// All is said. What waits is still written, then our side of the TCP connection is closed,
    /// and what the peer still sends is read and thrown away, so that no reset overtakes our last
    /// words.
    Lingering {
        /// Whether our side is closed.
        half_closed: bool,
        /// Bytes that may still be thrown away.
        discard: u32,
    },
    /// The socket can go.
    Gone,
}

/// Why a connection is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stalled {
    No,
    /// It has enough messages waiting, or does not read what it is sent.
    ByItself,
    /// The whole host has enough.
    ByHost,
}

/// What is known of a connection before it is open.
#[derive(Debug)]
pub(super) struct Opening {
    /// Where its packets come from.
    pub(super) client: IpAddr,
    pub(super) head: HeadBuffer,
}

/// Bytes that wait to be parsed, from `at` on.
#[derive(Debug)]
pub(super) struct Unread {
    bytes: Vec<u8>,
    at: usize,
}

impl Unread {
    fn keep(bytes: &[u8]) -> Option<Box<Self>> {
        (!bytes.is_empty()).then(|| Box::new(Self { bytes: bytes.to_vec(), at: 0 }))
    }
}

impl Conn {
    /// A client's connection that was just accepted, and until when its handshake must be done.
    #[must_use]
    pub fn new(
        socket: TcpStream,
        client: IpAddr,
        id: ConnectionId,
        permit: Permit,
        now: Tick,
        deadline: Tick,
    ) -> Self {
        Self {
            id,
            socket,
            _permit: permit,
            page: None,
            phase: Phase::Handshake(Box::new(Opening { client, head: HeadBuffer::default() })),
            queue: Queue::EMPTY,
            outbox: None,
            unread: None,
            deadline,
            last_seen: now,
            readable: false,
            ended: false,
            announced: false,
            inflating: false,
            stalled: Stalled::No,
        }
    }

    /// A connection that gets a refusal whatever it asks for.
    pub fn refuse(&mut self, refusal: &Refusal, turn: &mut Turn<'_>) {
        turn.count(Counter::Refused);
        turn.pieces.put(&mut self.queue, Source::Control, |out| refusal.write(out));
        self.linger(turn);
    }

    /// The socket may have something to read: one receive into the shard's buffer. `ended` says
    /// that the peer will send no more, so that the end is read even behind a short read.
    pub fn read(&mut self, ended: bool, buffer: &mut [u8], turn: &mut Turn<'_>) {
        self.readable = true;
        self.ended |= ended;
        if !self.wants_to_read() {
            return;
        }
        if self.unread.is_some() || self.inflating {
            return self.resume(turn);
        }
        match receive(&mut self.socket, buffer) {
            Ok(Received::Bytes(n, more)) => {
                self.readable = more || self.ended;
                self.last_seen = turn.now;
                let left = self.receive(&mut buffer[..n], turn);
                self.unread = Unread::keep(&buffer[n - left..n]);
            }
            Ok(Received::Nothing) => self.readable = false,
            Ok(Received::End) => self.end(turn),
            Err(error) => {
                tracing::debug!(conn = %self.id, %error, "connection lost");
                self.lose(turn);
            }
        }
    }

    /// Bytes from the peer. Returns how many of them, the last ones, have to wait.
    fn receive(&mut self, bytes: &mut [u8], turn: &mut Turn<'_>) -> usize {
        match &mut self.phase {
            Phase::Handshake(_) => self.shake_hands(bytes, turn),
            Phase::Open(_) => self.receive_frames(bytes, turn),
            Phase::Lingering { discard, .. } => {
                let n = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                *discard = discard.saturating_sub(n);
                if *discard == 0 {
                    self.phase = Phase::Gone;
                }
                0
            }
            // A second request behind the first is not served: the connection ends with the
            // first response, which says so.
            Phase::Responding | Phase::Departing | Phase::Gone => 0,
        }
    }

    /// Something that stood in the way of reading may have gone: goes on with what is unread.
    pub fn resume(&mut self, turn: &mut Turn<'_>) {
        self.stalled = self.find_stall(turn);
        if self.stalled != Stalled::No {
            return;
        }
        if let Some(mut unread) = self.unread.take() {
            self.inflating = false;
            let left = self.receive(&mut unread.bytes[unread.at..], turn);
            if left > 0 {
                unread.at = unread.bytes.len() - left;
                self.unread = Some(unread);
            }
        } else if std::mem::take(&mut self.inflating) {
            self.receive(&mut [], turn);
        }
    }

    /// Whether the shard should call [`Conn::read`] again without an event.
    #[must_use]
    pub fn wants_to_read(&self) -> bool {
        // While it is stalled it is read until a message comes, for the control frames before it.
        let may = self.stalled == Stalled::No || (self.unread.is_none() && !self.inflating);
        may && (self.readable || self.inflating) && !matches!(self.phase, Phase::Gone)
    }

    /// Whether it waits for room in the host's queues.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.stalled == Stalled::ByHost
    }

    /// The socket takes bytes again.
    pub fn write_out(&mut self, turn: &mut Turn<'_>) {
        let Some(outbox) = &mut self.outbox else { return };
        match outbox.write_to(&mut self.socket) {
            Ok(0) => {}
            Ok(_) => {
                self.last_seen = turn.now;
                outbox.gets_on(turn.now.0);
                if self.ends() {
                    // Last words that a slow peer still takes. How much waits is bounded, and so
                    // is how long this can go on.
                    self.deadline = turn.now.after(turn.env.config.close_timeout);
                }
                self.note_outbox(turn);
            }
            Err(error) => {
                tracing::debug!(conn = %self.id, %error, "connection lost");
                self.lose(turn);
            }
        }
    }

    /// Whether something waits to leave at the end of the turn.
    #[must_use]
    pub fn wants_to_flush(&self) -> bool {
        !self.queue.is_empty() || self.has_said_all()
    }

    /// Notes messages for the end of the turn: whole frames in the turn's commit.
    pub fn push(&mut self, commit: u32, at: u32, len: u32, pieces: &mut Pieces) {
        if self.may_send() {
            self.queue.push(pieces, Source::Commit(commit), at, len);
        }
    }

    /// Writes what was noted in this turn, in one call if the socket takes it.
    pub fn flush(&mut self, commits: &[Commit], turn: &mut Turn<'_>) {
        let queue = std::mem::replace(&mut self.queue, Queue::EMPTY);
        if !queue.is_empty() && !matches!(self.phase, Phase::Gone) {
            let rest = if self.outbox.is_some() {
                Some((Pieces::first(queue), 0))
            } else {
                match turn.pieces.write(queue, commits, &mut self.socket) {
                    Ok(rest) => rest,
                    Err(error) => {
                        tracing::debug!(conn = %self.id, %error, "connection lost");
                        return self.lose(turn);
                    }
                }
            };
            if let Some((from, skip)) = rest {
                self.keep(from, skip, commits, turn);
            }
        }
        if self.has_said_all() {
            self.shut();
        }
    }

    /// The socket reports an error; nothing can be read or written any more.
    pub fn fail(&mut self, turn: &mut Turn<'_>) {
        if let Ok(Some(error)) = self.socket.take_error() {
            tracing::debug!(conn = %self.id, %error, "connection lost");
        }
        self.lose(turn);
    }

    /// The deadline has passed.
    pub fn expire(&mut self, turn: &mut Turn<'_>) {
        match &self.phase {
            Phase::Handshake(_) => {
                turn.count(Counter::Refused);
                tracing::debug!(conn = %self.id, "handshake timed out");
                self.phase = Phase::Gone;
            }
            Phase::Open(_) => self.check_health(turn),
            Phase::Responding | Phase::Departing | Phase::Lingering { .. } => {
                self.phase = Phase::Gone;
            }
            Phase::Gone => {}
        }
    }

    /// A plain response; the connection ends behind it.
    pub fn respond(&mut self, commit: u32, at: u32, len: u32, turn: &mut Turn<'_>) {
        if matches!(self.phase, Phase::Responding) {
            self.queue.push(turn.pieces, Source::Commit(commit), at, len);
            self.linger(turn);
        }
    }

    /// When the shard should call [`Conn::expire`].
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Whether the workers have been told of it since the last call: they will say when they have
    /// handled its end.
    pub fn take_announcement(&mut self) -> bool {
        std::mem::take(&mut self.announced)
    }

    /// Whether the shard can drop it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// For the shard's poll.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// All is said: what is noted still leaves.
    pub(super) fn linger(&mut self, turn: &Turn<'_>) {
        self.deadline = turn.now.after(turn.env.config.close_timeout);
        let most = turn.env.config.max_message_size.saturating_mul(DISCARDED_MESSAGES).max(1 << 20);
        let discard = u32::try_from(most).unwrap_or(u32::MAX);
        self.phase = Phase::Lingering { half_closed: false, discard };
        self.stalled = Stalled::No;
        self.inflating = false;
        self.unread = None;
    }

    /// All is said on both sides: what is noted still leaves.
    pub(super) fn depart(&mut self, turn: &Turn<'_>) {
        self.linger(turn);
        self.phase = Phase::Departing;
    }

    /// The peer will send no more. A plain response that it still waits for leaves first.
    fn end(&mut self, turn: &mut Turn<'_>) {
        let waits = match &self.phase {
            Phase::Responding => true,
            Phase::Departing | Phase::Lingering { .. } => {
                self.outbox.is_some() || !self.queue.is_empty()
            }
            // Its close frame came before, and is answered behind what its messages lead to.
            Phase::Open(session) => session.is_answering(),
            Phase::Handshake(_) | Phase::Gone => false,
        };
        if waits {
            self.readable = false;
        } else {
            self.lose(turn);
        }
    }

    /// The TCP connection has failed, or the peer has ended it.
    pub(super) fn lose(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.phase, Phase::Open(_)) {
            self.end_session(turn);
        }
        self.outbox = None;
        self.unread = None;
        self.phase = Phase::Gone;
    }

    /// Keeps what the socket did not take, within bounds.
    fn keep(&mut self, from: u32, skip: usize, commits: &[Commit], turn: &mut Turn<'_>) {
        let (limit, mut policy) = (turn.env.config.outbox_size, turn.env.config.slow_consumer);
        if matches!(&self.phase, Phase::Open(session) if session.keeps_context()) {
            // What is left out would be missed by everything that refers to it.
            policy = SlowConsumer::Close;
        }
        let now = turn.now.0;
        let outbox = self.outbox.get_or_insert_with(|| Box::new(Outbox::new(now)));
        let (mut from, mut skip) = (from, skip);
        while let Flushed::Full(first) = turn.pieces.keep(from, skip, commits, outbox, limit) {
            (from, skip) = (first, 0);
            if policy == SlowConsumer::DropOldest {
                let dropped = outbox.drop_oldest(limit);
                turn.count_many(Counter::DroppedOldest, dropped);
                if dropped > 0 {
                    continue;
                }
            }
            let dropped = turn.pieces.keep_control(from, commits, outbox);
            if policy == SlowConsumer::Close {
                outbox.drop_oldest(0);
                turn.count(Counter::ClosedAsSlow);
                self.fail_slow(turn);
            } else {
                turn.count_many(Counter::DroppedNewest, dropped);
            }
            break;
        }
        self.note_outbox(turn);
    }

    /// Says what waits, and reads on if little does.
    fn note_outbox(&mut self, turn: &mut Turn<'_>) {
        let waiting = self.outbox.as_ref().map_or(0, |outbox| outbox.len());
        if waiting == 0 {
            self.outbox = None;
        }
        turn.env.shared.directory.set_buffered(self.id, waiting);
        if self.stalled == Stalled::ByItself && waiting <= turn.env.config.outbox_size / 4 {
            self.resume(turn);
        }
    }

    /// Nothing more is said than what waits: our close frame or a response.
    fn ends(&self) -> bool {
        match &self.phase {
            Phase::Open(session) => session.machine.state() == State::CloseSent,
            Phase::Departing | Phase::Lingering { half_closed: false, .. } => true,
            Phase::Handshake(_) | Phase::Responding | Phase::Lingering { .. } | Phase::Gone => {
                false
            }
        }
    }

    /// Nothing waits to be written, and nothing more will.
    fn has_said_all(&self) -> bool {
        let ends =
            matches!(self.phase, Phase::Departing | Phase::Lingering { half_closed: false, .. });
        ends && self.outbox.is_none()
    }

    /// Closes our side, or both if the peer has said all too.
    fn shut(&mut self) {
        match &mut self.phase {
            Phase::Lingering { half_closed, .. }
                if self.socket.shutdown(Shutdown::Write).is_ok() =>
            {
                *half_closed = true;
                self.readable = true;
            }
            _ => self.phase = Phase::Gone,
        }
    }
}

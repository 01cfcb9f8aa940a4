//! An open connection: messages in, the closing handshake, heartbeats.

use std::sync::atomic::Ordering;

use plugsock_ws::close::{Code, Frame};
use plugsock_ws::extension::Agreement;
use plugsock_ws::handshake::Refusal;
use plugsock_ws::{Event, Input, Machine, Role, State, Step, frame};

use super::output::Source;
use super::phase::{Conn, Phase, Stalled};
use super::route::Target;
use super::{RETRY_AFTER_S, Tick, Turn};
use crate::metrics::Counter;
use crate::types::PluginId;

/// Payload bytes of one connection that may wait for a worker; one message always may.
const MAX_PENDING_BYTES: u32 = 256 * 1024;

/// What an open connection has besides its socket.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) machine: Machine,
    target: Target,
    /// Events that the workers have not handled yet, and their payload bytes.
    pub(super) pending: u32,
    pending_bytes: u32,
    /// Why it ends: the first close frame, whoever sent it.
    cause: Option<Box<Cause>>,
    /// A ping is out and nothing has come since.
    pinged: bool,
    /// The peer's close frame has come: nothing will follow it.
    peer_closed: bool,
    /// Its answer waits for handlers, until the deadline.
    answering: bool,
    /// Control frames that have come within a second, and since when that counts.
    controls: u16,
    controls_since: Tick,
    /// When something last came of a message.
    last_data: Tick,
    pub(super) compressing: Compressing,
}

/// What was agreed on about compression.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compressing {
    pub(super) agreement: Option<Agreement>,
    /// Frames that are compressed once for many can be sent to it.
    pub(super) takes_shared: bool,
    /// Bytes of the host's budget for windows.
    pub(super) reserved: u32,
}

#[derive(Debug)]
struct Cause {
    code: u16,
    reason: String,
}

impl Session {
    pub(super) fn new(target: Target, compressing: Compressing) -> Self {
        let machine = match compressing.agreement {
            Some(agreement) => Machine::with_agreement(Role::Server, agreement),
            None => Machine::new(Role::Server),
        };
        Self {
            machine,
            target,
            pending: 0,
            pending_bytes: 0,
            cause: None,
            pinged: false,
            peer_closed: false,
            answering: false,
            controls: 0,
            controls_since: Tick(0),
            last_data: Tick(0),
            compressing,
        }
    }

    /// Whether what is sent may refer to what was sent before, so that nothing may be left out.
    pub(super) fn keeps_context(&self) -> bool {
        let agreement = self.compressing.agreement;
        agreement.is_some_and(|agreement| agreement.context_takeover(Role::Server))
    }

    /// Counts one more control frame; true if there were more than `most` within this second.
    fn too_many_controls(&mut self, most: u16, now: Tick) -> bool {
        if now.0.saturating_sub(self.controls_since.0) >= Tick::PER_SECOND {
            (self.controls, self.controls_since) = (0, now);
        }
        self.controls = self.controls.saturating_add(1);
        self.controls > most
    }

    /// Whether the peer's close frame has come and its answer waits for handlers.
    pub(super) fn is_answering(&self) -> bool {
        self.machine.state() == State::CloseReceived && self.pending > 0
    }

    fn set_cause(&mut self, code: u16, reason: &str) {
        if self.cause.is_none() {
            self.cause = Some(Box::new(Cause { code, reason: reason.to_owned() }));
        }
    }
}

impl Conn {
    /// Frames from the peer. Stops where the workers have enough; returns how many bytes are left.
    pub(super) fn receive_frames(&mut self, bytes: &mut [u8], turn: &mut Turn<'_>) -> usize {
        let received = |phase: &Phase| match phase {
            Phase::Open(session) => session.machine.received(),
            _ => None,
        };
        let before = received(&self.phase);
        let left = self.parse_frames(bytes, turn);
        let after = received(&self.phase);
        if after != before
            && let Phase::Open(session) = &mut self.phase
        {
            session.last_data = turn.now;
        }
        left
    }

    fn parse_frames(&mut self, bytes: &mut [u8], turn: &mut Turn<'_>) -> usize {
        let mut input = Input::new(bytes);
        loop {
            self.stalled = self.find_stall(turn);
            let Phase::Open(session) = &mut self.phase else { return 0 };
            // Control frames are taken as far as they stand before the next message.
            if self.stalled != Stalled::No && !session.machine.expects_control(input.remaining()) {
                return input.remaining().len();
            }
            if input.is_empty() && !session.machine.is_working() {
                return 0;
            }
            let pinged = std::mem::take(&mut session.pinged);
            match session.machine.next_with(&turn.env.limits, &mut input, turn.codec) {
                Ok(Step::Event(event @ (Event::Ping(_) | Event::Pong(_))))
                    if !(pinged && matches!(event, Event::Pong(_)))
                        && session
                            .too_many_controls(turn.env.config.max_control_rate, turn.now) =>
                {
                    self.breach("too many control frames", turn);
                }
                Ok(Step::Waiting) => {}
                Ok(Step::Working) => {
                    // Others have their turn before the rest is inflated.
                    self.inflating = true;
                    return input.remaining().len();
                }
                Ok(Step::Event(Event::Message { kind, payload })) => match session.target {
                    Target::Plugin { plugin, sequence } => {
                        session.last_data = turn.now;
                        session.pending += 1;
                        session.pending_bytes += u32::try_from(payload.len()).unwrap_or(u32::MAX);
                        turn.batch.message(self.id, plugin, sequence, kind, payload);
                        turn.count(Counter::MessagesIn);
                        turn.submit_if_full();
                    }
                    Target::BuiltinEcho => {
                        session.last_data = turn.now;
                        // The payload may lie in the codec that is to compress it.
                        let payload = payload.to_vec();
                        self.echo(kind, &payload, turn);
                        turn.count(Counter::MessagesIn);
                    }
                },
                Ok(Step::Event(Event::Ping(payload))) => {
                    let pong = |out: &mut Vec<u8>| {
                        // Never too long: it came as a ping.
                        let _ = frame::pong(payload, out);
                    };
                    match &mut self.outbox {
                        None => turn.pieces.put(&mut self.queue, Source::Control, pong),
                        Some(outbox) => {
                            let mut frame = Vec::new();
                            pong(&mut frame);
                            outbox.set_pong(frame);
                        }
                    }
                }
                Ok(Step::Event(Event::Pong(_))) => {}
                Ok(Step::Event(Event::Close(frame))) => {
                    let (code, reason) =
                        frame.map_or((NO_STATUS, ""), |frame| (frame.code().get(), frame.reason()));
                    session.set_cause(code, reason);
                    session.peer_closed = true;
                    self.answer_close(turn);
                    return 0;
                }
                Err(error) => {
                    tracing::debug!(conn = %self.id, %error, "the peer broke the protocol");
                    session.set_cause(error.close_code().get(), &error.to_string());
                    self.answer_close(turn);
                    return 0;
                }
            }
        }
    }

    /// Workers have handled some of the connection's events.
    pub fn handled(&mut self, events: u32, bytes: u32, turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        session.pending = session.pending.saturating_sub(events);
        session.pending_bytes = session.pending_bytes.saturating_sub(bytes);
        if session.machine.state() == State::CloseReceived {
            self.answer_close(turn);
        } else if self.stalled == Stalled::ByItself
            && session.pending <= u32::from(turn.env.config.queue_per_connection) / 2
        {
            self.resume(turn);
        }
    }

    /// Starts the closing handshake, behind all that was pushed before.
    pub fn close(&mut self, code: u16, reason: &str, turn: &mut Turn<'_>) {
        let Some(code) = Code::new(code) else { return };
        self.send_close(Some(Frame::truncated(code, reason)), turn);
    }

    /// Joins a channel of its plugin.
    pub fn subscribe(&mut self, channel: &str, turn: &mut Turn<'_>) {
        if let Some(plugin) = self.plugin_that_sends() {
            let slot = self.id.slot();
            if !turn.topics.subscribe(&turn.env.shared, slot, plugin, channel) {
                tracing::debug!(conn = %self.id, channel, "subscribed to too many channels");
            }
        }
    }

    /// Leaves a channel of its plugin.
    pub fn unsubscribe(&mut self, channel: &str, turn: &mut Turn<'_>) {
        if let Some(plugin) = self.plugin_that_sends() {
            turn.topics.unsubscribe(&turn.env.shared, self.id.slot(), plugin, channel);
        }
    }

    /// Whether it is open for what this plugin sends.
    #[must_use]
    pub fn serves(&self, plugin: PluginId) -> bool {
        self.plugin_that_sends() == Some(plugin)
    }

    /// Whether messages may still leave: our close frame has not.
    pub(super) fn may_send(&self) -> bool {
        let Phase::Open(session) = &self.phase else { return false };
        matches!(session.machine.state(), State::Open | State::CloseReceived)
    }

    fn plugin_that_sends(&self) -> Option<PluginId> {
        let Phase::Open(session) = &self.phase else { return None };
        match session.target {
            Target::Plugin { plugin, .. } if self.may_send() => Some(plugin),
            Target::Plugin { .. } | Target::BuiltinEcho => None,
        }
    }

    /// The host stops or restarts: one more goes.
    pub fn stop(&mut self, turn: &mut Turn<'_>) {
        match self.phase {
            Phase::Open(_) => self.close(Code::GOING_AWAY.get(), "the host stops", turn),
            Phase::Handshake(_) => {
                self.refuse(&Refusal::unavailable("The host stops.", RETRY_AFTER_S), turn);
            }
            Phase::Responding | Phase::Departing | Phase::Lingering { .. } | Phase::Gone => {}
        }
    }

    /// The peer does not read what it is sent.
    pub(super) fn fail_slow(&mut self, turn: &mut Turn<'_>) {
        self.breach("messages were not read in time", turn);
    }

    /// The peer does what the operator does not allow.
    fn breach(&mut self, what: &str, turn: &mut Turn<'_>) {
        tracing::debug!(conn = %self.id, "closed: {what}");
        self.send_close(Some(Frame::truncated(Code::POLICY, what)), turn);
    }

    /// The peer's close frame, or its breach of a rule, is answered when everything that came
    /// before it has been handled. If our close frame is out already, there is nothing to wait for.
    fn answer_close(&mut self, turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        if session.pending > 0 && session.machine.state() == State::CloseReceived {
            if !std::mem::replace(&mut session.answering, true) {
                self.deadline = turn.now.after(turn.env.config.close_timeout);
            }
            return;
        }
        let code = session.cause.as_ref().and_then(|cause| Code::new(cause.code));
        // The peer knows its own reason.
        let reason = match &session.cause {
            Some(cause) if !session.peer_closed => cause.reason.clone(),
            _ => String::new(),
        };
        self.send_close(code.map(|code| Frame::truncated(code, &reason)), turn);
    }

    /// Sends our close frame, unless that was done, and goes on from there.
    fn send_close(&mut self, frame: Option<Frame<'_>>, turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        if let Some(frame) = frame {
            session.set_cause(frame.code().get(), frame.reason());
        }
        let machine = &mut session.machine;
        turn.pieces.put(&mut self.queue, Source::Control, |out| {
            machine.close(frame, out, None);
        });
        turn.env.shared.directory.close(self.id);
        match session.machine.state() {
            State::Closed => self.end_session(turn),
            _ => self.deadline = turn.now.after(turn.env.config.close_timeout),
        }
    }

    /// Nothing more is handled. The workers are told, once, and the socket lingers.
    pub(super) fn end_session(&mut self, turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        let peer_closed = session.peer_closed;
        turn.env.windows.fetch_sub(session.compressing.reserved as usize, Ordering::Relaxed);
        turn.count(Counter::Closed);
        turn.env.shared.directory.close(self.id);
        if let Target::Plugin { plugin, sequence } = session.target {
            turn.topics.leave_all(&turn.env.shared, self.id.slot());
            let cause = session.cause.take();
            let (code, reason) =
                cause.as_ref().map_or((ABNORMAL, ""), |cause| (cause.code, &*cause.reason));
            turn.batch.close(self.id, plugin, sequence, code, reason);
            turn.submit_if_full();
        }
        if peer_closed {
            self.depart(turn);
        } else {
            self.linger(turn);
        }
    }

    /// Whether more may be parsed, and if not, why. A connection that is closing is always read.
    pub(super) fn find_stall(&self, turn: &Turn<'_>) -> Stalled {
        let Phase::Open(session) = &self.phase else { return Stalled::No };
        if session.machine.state() != State::Open {
            return Stalled::No;
        }
        let (env, batch) = (turn.env, &turn.batch);
        let enough = session.pending >= u32::from(env.config.queue_per_connection)
            || session.pending_bytes >= MAX_PENDING_BYTES
            || self.reads_too_slowly(turn);
        if enough {
            return Stalled::ByItself;
        }
        // Whoever has nothing waiting may always have one message: others that fill the queue do
        // not take its turn. The built-in echo does not use the queue.
        let waits = session.pending > 0;
        if waits && env.inbound.room().is_full(batch.messages(), batch.bytes()) {
            Stalled::ByHost
        } else {
            Stalled::No
        }
    }

    /// The outbox is half full: whoever does not read what it is sent is not read either.
    fn reads_too_slowly(&self, turn: &Turn<'_>) -> bool {
        let waiting = self.outbox.as_ref().map_or(0, |outbox| outbox.len());
        waiting > turn.env.config.outbox_size / 2
    }

    /// The deadline has passed: of the closing handshake, or of the heartbeat.
    pub(super) fn check_health(&mut self, turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        match session.machine.state() {
            State::Open => {}
            State::CloseReceived if session.pending > 0 => {
                // The handlers take too long: the peer is answered without them.
                session.pending = 0;
                return self.answer_close(turn);
            }
            _ => return self.lose(turn),
        }
        let Some(heartbeat) = turn.env.config.heartbeat else {
            self.deadline = Tick::NEVER;
            return;
        };
        let long_ago = |tick: Tick| tick.after(heartbeat.timeout) <= turn.now;
        // While we do not read, or have not read all, silence is our own doing.
        let read = self.stalled == Stalled::No && !self.readable && self.unread.is_none();
        let silent = read && session.pinged && long_ago(self.last_seen);
        let stuck = self.outbox.as_ref().is_some_and(|outbox| long_ago(Tick(outbox.got_on())));
        if read && session.machine.received().is_some() && long_ago(session.last_data) {
            return self.breach("a message was not finished in time", turn);
        }
        if silent || stuck {
            let what = if stuck { "does not read" } else { "is silent" };
            tracing::debug!(conn = %self.id, "the peer {what}");
            return self.lose(turn);
        }
        if let Phase::Open(session) = &mut self.phase {
            session.pinged = true;
        }
        if self.outbox.is_none() {
            let ping = |out: &mut Vec<u8>| {
                let _ = frame::ping(&[], out);
            };
            turn.pieces.put(&mut self.queue, Source::Control, ping);
        }
        let timeout = self.last_seen.after(heartbeat.timeout);
        let next = turn.now.after(heartbeat.interval);
        self.deadline = if timeout > turn.now { next.min(timeout) } else { next };
    }
}

/// What the application sees where the peer's close frame had no code (RFC 6455 §7.1.5).
const NO_STATUS: u16 = 1005;
/// What the application sees where no close frame was sent (RFC 6455 §7.1.5).
const ABNORMAL: u16 = 1006;

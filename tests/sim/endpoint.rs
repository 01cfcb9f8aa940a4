//! One end of a simulated connection: a machine and the host around it.

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::Agreement;
use plugsock_ws::handshake::{
    HeadBuffer, HeadLimits, Key, Offer, Progress, ResponseHead, Upgrade, accept_with,
};
use plugsock_ws::{Error, Event, Input, Kind, Limits, Machine, Role, State, Step, close};

use crate::choices::Choices;
use crate::pipe::{self, Pipe};
use crate::reference::{self, Closing, FIN, Unit};
use crate::sender::{Sender, Turn};
use crate::terms::Terms;

/// What an end does and has seen.
pub(crate) struct Endpoint {
    pub(crate) role: Role,
    pub(crate) limits: Limits,
    machine: Machine,
    /// Where the machine must stand.
    pub(crate) state: State,
    head: Option<Head>,
    pub(crate) agreed: Option<Agreement>,
    pub(crate) sender: Sender,
    /// The peer's close frame, to be answered.
    answer: Option<Option<(u16, String)>>,
    habits: Habits,

    /// All bytes of frames that arrived.
    stream: Vec<u8>,
    /// How many of them were parsed.
    consumed: usize,
    /// How many there were when the machine last held nothing.
    idle_at: usize,
    /// In how many steps the last message was inflated so far.
    steps: u64,
    pub(crate) seen: Vec<Unit>,
    /// Where this end began to close.
    pub(crate) closing: Option<Closing>,
    pub(crate) cause: Option<Cause>,
    pub(crate) leaves: bool,

    /// When it sends next.
    pub(crate) wake: Option<u64>,
    /// When it reads on. Until then nothing is read.
    pub(crate) resume: Option<u64>,
    pub(crate) deadline: Option<u64>,
}

/// Why a connection ended, as its application is told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The peer's close frame came, with this code.
    Closed(Option<u16>),
    /// The peer did wrong and was told so with this code.
    Failed(u16),
    /// The peer went away without a close frame.
    Gone(pipe::End),
    /// The peer did not answer our close frame.
    Deadline,
}

/// What an end may reach while it acts.
pub(crate) struct Ports<'a, 'c> {
    pub(crate) now: u64,
    pub(crate) choices: &'a mut Choices<'c>,
    pub(crate) terms: &'a Terms,
    /// One for both ends, as one thread has for all its connections.
    pub(crate) codec: &'a mut Codec,
    pub(crate) incoming: &'a mut Pipe,
    /// Whether all that the peer sends is right and arrives unchanged.
    pub(crate) trusts_incoming: bool,
    pub(crate) outgoing: &'a mut Pipe,
}

enum Head {
    Request(HeadBuffer),
    Response(ResponseHead),
}

/// How the host around the machine behaves; the numbers are once in so many events.
struct Habits {
    /// Of several pings it answers only the newest.
    answers_newest: bool,
    /// Stops reading in the middle of the input.
    pauses: usize,
    /// Closes while it reads.
    closes: usize,
}

/// Microseconds from our close frame to giving up: longer than any run that goes well.
const CLOSE_WAIT: u64 = 1 << 32;

/// Bytes that something incomplete costs besides its message.
pub(crate) const PARTIAL_OVERHEAD: u64 = 512;

/// Bytes that a message costs while it is inflated, besides itself.
const INFLATER: u64 = 47 << 10;

/// Bytes that one step inflates at most.
const STEP: u64 = 64 << 10;

const RARELY: usize = 250;

impl Endpoint {
    pub(crate) fn new(choices: &mut Choices<'_>, role: Role, limits: Limits) -> Self {
        let head = match role {
            Role::Server => Head::Request(HeadBuffer::new()),
            Role::Client => Head::Response(ResponseHead::new()),
        };
        let habits = Habits {
            answers_newest: choices.once_in(2),
            pauses: choices.pick(&[RARELY, 2, 8]),
            closes: choices.pick(&[RARELY, 20]),
        };
        Self {
            role,
            limits,
            machine: Machine::new(role),
            state: State::Open,
            head: Some(head),
            agreed: None,
            sender: Sender::new(choices, role, limits),
            answer: None,
            habits,
            stream: Vec::new(),
            consumed: 0,
            idle_at: 0,
            steps: 0,
            seen: Vec::new(),
            closing: None,
            cause: None,
            leaves: false,
            wake: (role == Role::Client).then_some(0),
            resume: None,
            deadline: None,
        }
    }

    /// The bytes that the machine was given and took.
    pub(crate) fn parsed(&self) -> &[u8] {
        &self.stream[..self.consumed]
    }

    pub(crate) fn held(&self) -> usize {
        self.machine.partial_bytes()
    }

    /// Its turn to send.
    pub(crate) fn act(&mut self, ports: &mut Ports<'_, '_>) {
        self.wake = None;
        if self.head.is_some() {
            self.ask(ports);
        } else if let Some(frame) = self.answer.take() {
            self.close(ports, frame);
        } else if self.state == State::Open {
            match self.sender.turn(&mut self.machine, ports) {
                Turn::Sent => self.wake_later(ports),
                Turn::Close(frame) => self.close(ports, frame),
                Turn::Done => {}
            }
        }
    }

    /// Its turn to read what has arrived.
    pub(crate) fn read(&mut self, ports: &mut Ports<'_, '_>) {
        let mut bytes = Vec::new();
        ports.incoming.read(ports.now, ports.choices, &mut bytes);
        let frames = if self.head.is_some() { self.shake(ports, &bytes) } else { &bytes };
        self.stream.extend_from_slice(frames);
        self.parse(ports);
        if bytes.is_empty()
            && self.resume.is_none()
            && let Some(end) = ports.incoming.take_end()
        {
            self.finish(Cause::Gone(end));
            self.leaves = true;
        }
    }

    /// The peer has not answered for too long.
    pub(crate) fn give_up(&mut self) {
        self.finish(Cause::Deadline);
        self.leaves = true;
    }

    /// Goes on with the bytes that have arrived, up to a pause.
    pub(crate) fn parse(&mut self, ports: &mut Ports<'_, '_>) {
        self.resume = None;
        let base = self.consumed;
        let mut bytes = self.stream[base..].to_vec();
        let mut input = Input::new(&mut bytes);
        loop {
            let codec = self.agreed.is_some().then_some(&mut *ports.codec);
            let found = advance(&mut self.machine, &self.limits, &mut input, codec);
            self.consumed = base + input.consumed();
            self.steps = if found == Ok(Found::Working) { self.steps + 1 } else { 0 };
            match found {
                Ok(Found::Unit(unit)) => self.see(ports, unit),
                Ok(Found::Working) => {}
                Ok(Found::Nothing) => break,
                Err(error) => self.fail(ports, error),
            }
            self.check(ports);
            assert!(self.state.reads() || input.is_empty(), "input is left after the end");
            if ports.choices.once_in(self.habits.pauses) {
                assert_eq!(input.remaining(), &self.stream[self.consumed..], "bytes were touched");
                self.resume = Some(ports.now + 1 + ports.choices.below(200) as u64);
                return;
            }
        }
        assert!(input.is_empty() && input.remaining().is_empty());
        self.check(ports);
    }

    /// What must hold at all times.
    fn check(&mut self, ports: &Ports<'_, '_>) {
        assert_eq!(self.machine.state(), self.state);
        let history = self.agreed.map_or(0, |agreed| agreed.max_history());
        let overhead = if history == 0 { 0 } else { 64 };
        assert!(self.machine.history_bytes() <= history + overhead);
        let held = self.machine.partial_bytes();
        if held == 0 {
            self.idle_at = self.consumed;
            return;
        }
        // After our own close frame only framing counts.
        let keeps = self.state == State::Open;
        let received = if keeps { (self.consumed - self.idle_at) as u64 } else { 0 };
        let mut most = 2 * received.min(self.limits.max_message_size) + PARTIAL_OVERHEAD;
        if self.machine.is_working() {
            most += INFLATER + self.limits.max_message_size.min(2 * STEP * self.steps);
        }
        assert!(held as u64 <= most, "{held} bytes are held for {received} received");
        let idle = ports.trusts_incoming
            && !self.machine.is_working()
            && ports.incoming.is_idle_at(self.consumed);
        assert!(!idle && self.state.reads(), "{held} bytes are held while nothing is incomplete");
    }

    fn see(&mut self, ports: &mut Ports<'_, '_>, unit: Unit) {
        match (&unit, self.state) {
            (Unit::Close(frame), State::Open) => {
                self.state = State::CloseReceived;
                self.finish(Cause::Closed(frame.as_ref().map(|(code, _)| *code)));
                self.answer = Some(frame.clone());
                self.wake_later(ports);
            }
            (Unit::Close(frame), State::CloseSent) => {
                self.state = State::Closed;
                self.finish(Cause::Closed(frame.as_ref().map(|(code, _)| *code)));
                self.leave_if_closed();
            }
            (Unit::Ping(payload), State::Open) => {
                if self.habits.answers_newest {
                    self.sender.pongs.clear();
                }
                self.sender.pongs.push(payload.clone());
                self.wake_later(ports);
            }
            (_, State::Open) => {}
            (_, state) => assert_eq!(state, State::Open, "{unit:?} came too late"),
        }
        self.seen.push(unit);
        if self.state == State::Open
            && self.sender.breach.is_none()
            && ports.choices.once_in(self.habits.closes)
        {
            self.close(ports, Some((1001, String::new())));
        }
    }

    fn fail(&mut self, ports: &mut Ports<'_, '_>, error: Error) {
        let code = error.close_code();
        self.finish(Cause::Failed(code.get()));
        match self.state {
            State::Open => {
                self.state = State::CloseReceived;
                self.close(ports, Some((code.get(), error.to_string())));
            }
            State::CloseSent => self.state = State::Closed,
            state => assert!(state.reads(), "{error} after the end"),
        }
        self.leaves = true;
    }

    /// Starts or answers the closing handshake.
    fn close(&mut self, ports: &mut Ports<'_, '_>, close: Option<(u16, String)>) {
        let key = (self.role == Role::Client).then(|| ports.choices.key());
        let frame = close.as_ref().map(|(code, reason)| {
            let code = close::Code::new(*code).unwrap();
            close::Frame::new(code, reason).unwrap()
        });
        let amid_message = self.machine.is_working();
        let mut out = Vec::new();
        assert!(self.machine.close(frame, &mut out, key), "not closed in {:?}", self.state);
        let payload = close
            .as_ref()
            .map_or(Vec::new(), |(code, reason)| [&code.to_be_bytes(), reason.as_bytes()].concat());
        assert_eq!(out, reference::frame(FIN | 8, key, &payload));
        ports.outgoing.send_frame(ports.now, ports.choices, &out, true);

        if self.state == State::Open {
            self.state = State::CloseSent;
            self.closing = Some(Closing { at: self.consumed, amid_message });
            self.deadline = Some(ports.now + CLOSE_WAIT);
        } else {
            self.state = State::Closed;
            self.leave_if_closed();
        }
        assert_eq!(self.machine.state(), self.state);
        let mut more = Vec::new();
        assert!(!self.machine.close(frame, &mut more, key), "a second close frame");
        assert!(more.is_empty() && self.machine.state() == self.state);
        self.sender.record_close(ports.outgoing.sent(), close);
    }

    /// The server hangs up; the client waits for that, though not for ever (RFC 6455 §7.1.1).
    fn leave_if_closed(&mut self) {
        self.leaves = self.state == State::Closed && self.role == Role::Server;
    }

    fn finish(&mut self, cause: Cause) {
        match (cause, self.cause) {
            (_, None) => self.cause = Some(cause),
            // The client's wait for the server to hang up.
            (Cause::Gone(_) | Cause::Deadline, Some(Cause::Closed(_))) => {}
            (_, Some(before)) => assert_eq!(Some(cause), None, "ended before by {before:?}"),
        }
    }

    fn wake_later(&mut self, ports: &mut Ports<'_, '_>) {
        let time = ports.now + self.sender.pause(ports.choices);
        self.wake = Some(self.wake.map_or(time, |wake| wake.min(time)));
    }

    /// A client's request.
    fn ask(&self, ports: &mut Ports<'_, '_>) {
        if self.role == Role::Client && ports.outgoing.is_unused() {
            let mut head = Vec::new();
            assert_eq!(offer().write_with(ports.terms.client.as_ref(), &mut head), Ok(()));
            ports.outgoing.send_head(ports.now, ports.choices, &ports.terms.amend(&head));
        }
    }

    /// Takes bytes of the peer's head and returns those after it.
    fn shake<'a>(&mut self, ports: &mut Ports<'_, '_>, bytes: &'a [u8]) -> &'a [u8] {
        let limits = HeadLimits::default();
        let progress = match &mut self.head {
            Some(Head::Request(head)) => head.push(&limits, bytes).unwrap(),
            Some(Head::Response(head)) => head.push(&limits, bytes).unwrap(),
            None => Progress::Complete { consumed: 0 },
        };
        let Progress::Complete { consumed } = progress else { return &[] };
        match self.head.take() {
            Some(Head::Request(head)) => {
                let request = head.request().unwrap();
                let upgrade = Upgrade::from_request(&request).unwrap().unwrap();
                assert_eq!(upgrade.key(), offer().key);
                let policy = ports.terms.server;
                let agreed = policy.and_then(|policy| policy.negotiate(upgrade.extensions()));
                let mut answer = Vec::new();
                let accepted = accept_with(&upgrade.key(), None, agreed.as_ref(), &[], &mut answer);
                assert_eq!(accepted, Ok(()));
                ports.outgoing.send_head(ports.now, ports.choices, &answer);
                self.agree(ports, agreed);
            }
            Some(Head::Response(head)) => {
                let policy = ports.terms.client.as_ref();
                let (subprotocol, agreed) = offer().verify_with(policy, &head).unwrap();
                assert_eq!(subprotocol, None);
                self.agree(ports, agreed);
            }
            None => {}
        }
        self.wake_later(ports);
        &bytes[consumed..]
    }

    fn agree(&mut self, ports: &Ports<'_, '_>, agreed: Option<Agreement>) {
        ports.terms.check(agreed.as_ref());
        self.agreed = agreed;
        if let Some(agreed) = agreed {
            self.machine = Machine::with_agreement(self.role, agreed);
            self.sender.may_compress(&agreed);
        }
    }
}

/// What a machine came to.
#[derive(PartialEq, Eq)]
pub(crate) enum Found {
    Unit(Unit),
    /// Part of a message was inflated.
    Working,
    Nothing,
}

/// The machine's next step; with a codec if messages may be compressed.
pub(crate) fn advance(
    machine: &mut Machine,
    limits: &Limits,
    input: &mut Input<'_>,
    codec: Option<&mut Codec>,
) -> Result<Found, Error> {
    let Some(codec) = codec else {
        let event = machine.next(limits, input)?;
        return Ok(event.map_or(Found::Nothing, |event| Found::Unit(own(event))));
    };
    Ok(match machine.next_with(limits, input, codec)? {
        Step::Event(event) => Found::Unit(own(event)),
        Step::Working => Found::Working,
        Step::Waiting => Found::Nothing,
    })
}

fn offer() -> Offer<'static> {
    let key = Key::from_nonce(*b"the sample nonce");
    Offer { host: "t", target: "/sim", key, subprotocols: &[], fields: &[] }
}

/// An event that owns its bytes.
fn own(event: Event<'_>) -> Unit {
    match event {
        Event::Message { kind: Kind::Text, payload } => Unit::Text(payload.to_vec()),
        Event::Message { kind: Kind::Binary, payload } => Unit::Binary(payload.to_vec()),
        Event::Ping(payload) => Unit::Ping(payload.to_vec()),
        Event::Pong(payload) => Unit::Pong(payload.to_vec()),
        Event::Close(frame) => {
            Unit::Close(frame.map(|frame| (frame.code().get(), frame.reason().to_owned())))
        }
    }
}

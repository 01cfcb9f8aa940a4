//! What one end says, in which frames, and a record of it.

use plugsock_ws::extension::{Agreement, WindowBits};
use plugsock_ws::frame::{self, Header, Opcode, encode_header, encode_masked};
use plugsock_ws::{Kind, Limits, Machine, Role, fragment, mask};

use crate::choices::Choices;
use crate::endpoint::Ports;
use crate::inflate::Window;
use crate::reference::{self, FIN, RSV1, Unit};
use crate::traffic;

/// The sending half of an end: a plan, and the message that is under way.
pub(crate) struct Sender {
    role: Role,
    limits: Limits,
    messages: usize,
    closes: bool,
    /// Breaks a rule once it has only so many messages left to send.
    breaks_at: Option<usize>,
    /// The longest pause between two frames, in microseconds.
    pace: usize,
    fragments: Option<Fragments>,
    /// What was sent compressed, where that was agreed.
    window: Option<Window>,
    /// How many messages were.
    pub(crate) compressed: usize,
    pub(crate) pongs: Vec<Vec<u8>>,
    /// What was sent, each with the number of bytes sent when it was complete.
    pub(crate) sent: Vec<(usize, Unit)>,
    pub(crate) breach: Option<Breach>,
}

/// Where a rule was broken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// Bytes sent when it had become clear.
    pub(crate) end: usize,
    /// The close code it asks for.
    pub(crate) code: u16,
}

pub(crate) enum Turn {
    Sent,
    /// To be closed with this code and reason.
    Close(Option<(u16, String)>),
    Done,
}

/// A message of which a part was sent.
struct Fragments {
    unit: Unit,
    /// What goes into frames; compressed perhaps.
    payload: Vec<u8>,
    sent: usize,
    /// The first fragment says what the message is.
    opcode: Opcode,
    /// The next fragment has RSV1 set.
    compressed: bool,
    /// The size of all fragments but the last, if they are alike.
    size: Option<usize>,
}

impl Sender {
    pub(crate) fn new(choices: &mut Choices<'_>, role: Role, limits: Limits) -> Self {
        Self {
            role,
            limits,
            messages: choices.below(12),
            closes: choices.once_in(3),
            breaks_at: None,
            pace: choices.pick(&[1, 1, 20, 300]),
            fragments: None,
            window: None,
            compressed: 0,
            pongs: Vec::new(),
            sent: Vec::new(),
            breach: None,
        }
    }

    /// Makes it close the connection once all is said.
    pub(crate) const fn close_at_the_end(&mut self) {
        self.closes = true;
    }

    pub(crate) const fn closes(&self) -> bool {
        self.closes
    }

    /// Makes it break a rule somewhere.
    pub(crate) fn break_a_rule(&mut self, choices: &mut Choices<'_>) {
        self.breaks_at = Some(choices.below(self.messages + 1));
    }

    /// Messages may be compressed from now on.
    pub(crate) fn may_compress(&mut self, agreed: &Agreement) {
        self.window = Some(Window::new(agreed, self.role));
    }

    /// When the next turn may be.
    pub(crate) fn pause(&self, choices: &mut Choices<'_>) -> u64 {
        choices.below(self.pace) as u64
    }

    /// Sends one frame while the connection is open.
    pub(crate) fn turn(&mut self, machine: &mut Machine, ports: &mut Ports<'_, '_>) -> Turn {
        if self.breach.is_some() {
            return Turn::Done;
        }
        if !self.pongs.is_empty() {
            let payload = self.pongs.remove(0);
            self.control(ports, Opcode::Pong, payload);
        } else if ports.choices.once_in(6) {
            let opcode = ports.choices.pick(&[Opcode::Ping, Opcode::Ping, Opcode::Pong]);
            let payload = traffic::control(ports.choices);
            self.control(ports, opcode, payload);
        } else if self.breaks_at == Some(self.messages)
            && (self.fragments.is_none() || ports.choices.once_in(2))
        {
            self.break_rule(ports);
        } else if let Some(fragments) = self.fragments.take() {
            if self.closes && ports.choices.once_in(40) {
                return Turn::Close(traffic::close(ports.choices));
            }
            self.fragment(ports, fragments);
        } else if self.messages > 0 {
            self.messages -= 1;
            self.begin(machine, ports);
        } else if self.closes {
            return Turn::Close(traffic::close(ports.choices));
        } else {
            return Turn::Done;
        }
        Turn::Sent
    }

    /// The payload of the close frame just sent, which is the last unit of all.
    pub(crate) fn record_close(&mut self, end: usize, close: Option<(u16, String)>) {
        self.sent.push((end, Unit::Close(close)));
    }

    fn control(&mut self, ports: &mut Ports<'_, '_>, opcode: Opcode, payload: Vec<u8>) {
        self.frame(ports, opcode, false, true, &payload);
        let unit = if opcode == Opcode::Ping { Unit::Ping(payload) } else { Unit::Pong(payload) };
        self.sent.push((ports.outgoing.sent(), unit));
    }

    /// Begins a message: its first frame, or the only one.
    fn begin(&mut self, machine: &mut Machine, ports: &mut Ports<'_, '_>) {
        let may_compress = self.window.is_some();
        let (kind, message) = traffic::message(ports.choices, &self.limits, may_compress);
        let unit = match kind {
            Kind::Text => Unit::Text(message.clone()),
            Kind::Binary => Unit::Binary(message.clone()),
        };
        let most = self.limits.max_frame_size.min(self.limits.max_message_size);
        let how = if may_compress && most > 0 { ports.choices.below(5) } else { 0 };
        let fits = message.len() as u64 <= most;
        let compressed = match how {
            1 if fits => return self.whole(machine, ports, kind, unit, &message),
            1 | 2 => {
                let payload = machine.compress(&message, ports.codec);
                payload.map(|payload| {
                    traffic::after_final_blocks(ports.choices, &self.limits, payload)
                })
            }
            3 => shared(machine, ports, kind, &message),
            4 => self.foreign(machine, ports, &message),
            _ => None,
        };
        if let Some(payload) = &compressed {
            self.record_compressed(payload, &message);
        }
        let opcode = kind.into();
        let (compressed, payload) = (compressed.is_some(), compressed.unwrap_or(message));
        let size = (how > 0 && ports.choices.once_in(3)).then(|| {
            let size = 1 + ports.choices.below(300).max(payload.len() / 20);
            size.min(usize::try_from(most).unwrap())
        });
        if let Some(size) = size {
            check_fragments(kind, compressed, &payload, size);
        }
        self.fragment(ports, Fragments { unit, payload, sent: 0, opcode, compressed, size });
    }

    /// A message in one frame, compressed where that helps.
    fn whole(
        &mut self,
        machine: &mut Machine,
        ports: &mut Ports<'_, '_>,
        kind: Kind,
        unit: Unit,
        message: &[u8],
    ) {
        let key = (self.role == Role::Client).then(|| ports.choices.key());
        let mut out = Vec::new();
        let compressed = machine.encode(kind, message, ports.codec, &mut out, key);
        let bare = reference::unframed(key, &out);
        if compressed {
            assert!(bare.len() < message.len() || message.is_empty());
            self.record_compressed(&bare, message);
        } else {
            assert_eq!(bare, message);
        }
        let rsv1 = if compressed { RSV1 } else { 0 };
        assert_eq!(out, reference::frame(FIN | rsv1 | Opcode::from(kind) as u8, key, &bare));
        ports.outgoing.send_frame(ports.now, ports.choices, &out, true);
        self.sent.push((ports.outgoing.sent(), unit));
    }

    /// Compressed by another hand, if the peer can take it.
    fn foreign(
        &self,
        machine: &mut Machine,
        ports: &mut Ports<'_, '_>,
        message: &[u8],
    ) -> Option<Vec<u8>> {
        let payload = traffic::foreign(ports.choices, message);
        let fits = payload.len() as u64 <= self.limits.max_message_size;
        if !fits || !machine.takes(WindowBits::MAX) {
            return None;
        }
        machine.record_sent(message);
        Some(payload)
    }

    /// A compressed message says what it should to a receiver with the agreed window.
    fn record_compressed(&mut self, payload: &[u8], message: &[u8]) {
        let Some(window) = &mut self.window else { return };
        assert!(window.read_within(payload) == message, "compressed to something else");
        window.push(message);
        self.compressed += 1;
    }

    fn fragment(&mut self, ports: &mut Ports<'_, '_>, mut message: Fragments) {
        if self.limits.max_frame_size == 0 && !message.payload.is_empty() {
            // No fragment can carry it.
            message.payload.clear();
            message.unit = match message.unit {
                Unit::Text(_) => Unit::Text(Vec::new()),
                _ => Unit::Binary(Vec::new()),
            };
        }
        let rest = &message.payload[message.sent..];
        let len = match message.size {
            Some(size) => size.min(rest.len()),
            None => traffic::fragment(ports.choices, &self.limits, rest.len()),
        };
        let more = message.size.is_none() && len == 0 && ports.choices.once_in(4);
        let fin = len == rest.len() && !more;
        self.frame(ports, message.opcode, message.compressed, fin, &rest[..len]);
        message.sent += len;
        message.opcode = Opcode::Continuation;
        message.compressed = false;
        if fin {
            self.sent.push((ports.outgoing.sent(), message.unit));
        } else {
            self.fragments = Some(message);
        }
    }

    fn break_rule(&mut self, ports: &mut Ports<'_, '_>) {
        let open = self.fragments.as_ref().map(|fragments| fragments.sent as u64);
        let breach = {
            let window = self.window.as_ref();
            traffic::breach(ports.choices, self.role, &self.limits, open, window)
        };
        for frame in &breach.frames {
            ports.outgoing.send_frame(ports.now, ports.choices, frame, false);
        }
        self.breach = Some(Breach { end: ports.outgoing.sent(), code: breach.code });
    }

    /// Sends a frame as the crate encodes it, which must be as the reference does.
    fn frame(
        &self,
        ports: &mut Ports<'_, '_>,
        opcode: Opcode,
        compressed: bool,
        fin: bool,
        payload: &[u8],
    ) {
        let key = (self.role == Role::Client).then(|| ports.choices.key());
        let mut out = Vec::new();
        let len = payload.len() as u64;
        match (key, opcode) {
            _ if compressed => {
                Header { fin, compressed, opcode, key, len }.encode(&mut out);
                let start = out.len();
                out.extend_from_slice(payload);
                mask::apply(key.unwrap_or_default(), 0, &mut out[start..]);
            }
            (Some(key), _) => encode_masked(opcode, fin, payload, key, &mut out),
            (None, Opcode::Text) if fin => frame::encode(Kind::Text, payload, &mut out),
            (None, Opcode::Binary) if fin => frame::encode(Kind::Binary, payload, &mut out),
            (None, Opcode::Ping) => assert_eq!(frame::ping(payload, &mut out), Ok(())),
            (None, Opcode::Pong) => assert_eq!(frame::pong(payload, &mut out), Ok(())),
            (None, _) => {
                encode_header(opcode, fin, len, &mut out);
                out.extend_from_slice(payload);
            }
        }
        let bits = if fin { FIN } else { 0 } | if compressed { RSV1 } else { 0 };
        let first = bits | opcode as u8;
        let header = reference::header(first, key, len);
        // The start tells the key; the receiver's view tells the rest.
        let start = &payload[..payload.len().min(600)];
        let masked = reference::frame(first, key, start);
        assert_eq!(out.len(), header.len() + payload.len());
        assert_eq!(out[..header.len()], header);
        let body = &masked[masked.len() - start.len()..];
        assert_eq!(&out[header.len()..][..start.len()], body);

        let ends = opcode.is_control() && self.fragments.is_none();
        let idle = ends || (!opcode.is_control() && fin);
        ports.outgoing.send_frame(ports.now, ports.choices, &out, idle);
    }
}

/// Compressed as for many receivers, with a window that this one has or a smaller one.
fn shared(
    machine: &mut Machine,
    ports: &mut Ports<'_, '_>,
    kind: Kind,
    message: &[u8],
) -> Option<Vec<u8>> {
    let bits = [9, 10, 12, 15].map(|bits| WindowBits::new(bits).unwrap());
    let bits = ports.choices.pick(&bits);
    if !machine.takes(bits) {
        return None;
    }
    let mut out = Vec::new();
    let compressor = ports.codec.compressor(bits);
    if !frame::encode_compressed(kind, message, compressor, &mut out) {
        assert_eq!(out, reference::frame(FIN | Opcode::from(kind) as u8, None, message));
        return None;
    }
    let payload = reference::unframed(None, &out);
    assert_eq!(out, reference::frame(FIN | RSV1 | Opcode::from(kind) as u8, None, &payload));
    machine.record_sent(message);
    Some(payload)
}

/// Fragments of one size are as the reference has them.
fn check_fragments(kind: Kind, compressed: bool, payload: &[u8], size: usize) {
    let mut out = Vec::new();
    fragment::encode(kind, compressed, payload, size, &mut out);
    let mut expected = Vec::new();
    let mut first = if compressed { RSV1 } else { 0 } | Opcode::from(kind) as u8;
    let mut rest = payload;
    while rest.len() > size {
        expected.extend(reference::frame(first, None, &rest[..size]));
        (first, rest) = (0, &rest[size..]);
    }
    expected.extend(reference::frame(FIN | first, None, rest));
    assert!(out == expected, "fragments of {size} bytes");
}

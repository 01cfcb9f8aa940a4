//! What one end says, in which frames, and a record of it.

use plugsock_ws::frame::{self, Opcode, encode_header, encode_masked};
use plugsock_ws::{Kind, Limits, Role};

use crate::choices::Choices;
use crate::endpoint::Ports;
use crate::reference::{self, FIN, Unit};
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
    kind: Kind,
    payload: Vec<u8>,
    sent: usize,
    /// The first fragment says what the message is.
    opcode: Opcode,
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

    /// When the next turn may be.
    pub(crate) fn pause(&self, choices: &mut Choices<'_>) -> u64 {
        choices.below(self.pace) as u64
    }

    /// Sends one frame while the connection is open.
    pub(crate) fn turn(&mut self, ports: &mut Ports<'_, '_>) -> Turn {
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
            let (kind, payload) = traffic::message(ports.choices, &self.limits);
            self.fragment(ports, Fragments { kind, payload, sent: 0, opcode: kind.into() });
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
        self.frame(ports, opcode, true, &payload);
        let unit = if opcode == Opcode::Ping { Unit::Ping(payload) } else { Unit::Pong(payload) };
        self.sent.push((ports.outgoing.sent(), unit));
    }

    fn fragment(&mut self, ports: &mut Ports<'_, '_>, mut message: Fragments) {
        let rest = &message.payload[message.sent..];
        let len = traffic::fragment(ports.choices, &self.limits, rest.len());
        let fin = len == rest.len() && !(len == 0 && ports.choices.once_in(4));
        if self.limits.max_frame_size == 0 && !rest.is_empty() {
            // No fragment can carry it.
            message.payload.clear();
            return self.fragment(ports, Fragments { sent: 0, ..message });
        }
        self.frame(ports, message.opcode, fin, &rest[..len]);
        message.sent += len;
        message.opcode = Opcode::Continuation;
        if !fin {
            self.fragments = Some(message);
            return;
        }
        let unit = match message.kind {
            Kind::Text => Unit::Text(message.payload),
            Kind::Binary => Unit::Binary(message.payload),
        };
        self.sent.push((ports.outgoing.sent(), unit));
    }

    fn break_rule(&mut self, ports: &mut Ports<'_, '_>) {
        let open = self.fragments.as_ref().map(|fragments| fragments.sent as u64);
        let breach = traffic::breach(ports.choices, self.role, &self.limits, open);
        for frame in &breach.frames {
            ports.outgoing.send_frame(ports.now, ports.choices, frame, false);
        }
        self.breach = Some(Breach { end: ports.outgoing.sent(), code: breach.code });
    }

    /// Sends a frame as the crate encodes it, which must be as the reference does.
    fn frame(&self, ports: &mut Ports<'_, '_>, opcode: Opcode, fin: bool, payload: &[u8]) {
        let key = (self.role == Role::Client).then(|| ports.choices.key());
        let mut out = Vec::new();
        match (key, opcode) {
            (Some(key), _) => encode_masked(opcode, fin, payload, key, &mut out),
            (None, Opcode::Text) if fin => frame::encode(Kind::Text, payload, &mut out),
            (None, Opcode::Binary) if fin => frame::encode(Kind::Binary, payload, &mut out),
            (None, Opcode::Ping) => assert_eq!(frame::ping(payload, &mut out), Ok(())),
            (None, Opcode::Pong) => assert_eq!(frame::pong(payload, &mut out), Ok(())),
            (None, _) => {
                encode_header(opcode, fin, payload.len() as u64, &mut out);
                out.extend_from_slice(payload);
            }
        }
        let first = if fin { FIN } else { 0 } | opcode as u8;
        let header = reference::header(first, key, payload.len() as u64);
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

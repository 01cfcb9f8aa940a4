//! One connection of the generator after its handshake.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use plugsock_ws::deflate::Codec;
use plugsock_ws::frame::{self, Opcode};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Step, close};

use super::random::Random;

/// A socket, the protocol's state, and what is under way between the two.
#[derive(Debug)]
pub(super) struct Client<S> {
    stream: S,
    machine: Machine,
    /// What came behind the handshake's answer.
    unread: Vec<u8>,
    /// What the socket did not take.
    unsent: Vec<u8>,
}

/// What all connections of a thread share.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) buffer: Vec<u8>,
    pub(super) limits: Limits,
    pub(super) codec: Codec,
    pub(super) random: Random,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a close frame: its code, unless there is none, and its reason.
    Closed(Option<u16>, String),
    /// The server broke a rule.
    Protocol(plugsock_ws::Error),
    /// Without a close frame.
    Socket(io::Error),
}

/// A receive that is shorter than the buffer has emptied the socket: where readiness comes from
/// epoll or kqueue, a further receive would be wasted.
const SHORT_MEANS_EMPTY: bool = cfg!(unix);

impl<S: Read + Write> Client<S> {
    pub(super) fn new(stream: S, machine: Machine, unread: Vec<u8>) -> Self {
        Self { stream, machine, unread, unsent: Vec::new() }
    }

    /// Sends frames that are ready.
    #[inline]
    pub(super) fn send(&mut self, frames: &[u8]) -> Result<(), End> {
        let mut sent = 0;
        while self.unsent.is_empty() && sent < frames.len() {
            match self.stream.write(&frames[sent..]) {
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(End::Socket(error)),
            }
        }
        self.unsent.extend_from_slice(&frames[sent..]);
        Ok(())
    }

    /// Appends a message, compressed where that was agreed on; [`flush`](Self::flush) sends it.
    pub(super) fn encode(&mut self, kind: Kind, payload: &[u8], wire: &mut Wire) {
        let key = Some(wire.random.key());
        self.machine.encode(kind, payload, &mut wire.codec, &mut self.unsent, key);
    }

    /// Sends what was left over.
    pub(super) fn flush(&mut self) -> Result<(), End> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let frames = std::mem::take(&mut self.unsent);
        self.send(&frames)
    }

    /// Says that the connection is no longer needed, as far as the socket takes it.
    pub(super) fn say_goodbye(&mut self, random: &mut Random) {
        let frame = Some(close::Frame::bare(close::Code::NORMAL));
        self.machine.close(frame, &mut self.unsent, Some(random.key()));
        let _ = self.flush();
    }

    /// Reads until the socket is empty, and hands over each message. Pings are answered. The end
    /// of the connection is an error, also when it was closed politely.
    #[inline]
    pub(super) fn receive(
        &mut self,
        wire: &mut Wire,
        mut each: impl FnMut(Kind, &[u8]),
    ) -> Result<(), End> {
        if !self.unread.is_empty() {
            let mut unread = std::mem::take(&mut self.unread);
            let Wire { limits, codec, random, .. } = wire;
            self.parse(&mut unread, limits, codec, random, &mut each)?;
        }
        let Wire { buffer, limits, codec, random } = wire;
        loop {
            let len = match self.stream.read(buffer) {
                Ok(0) => return Err(End::Socket(ErrorKind::UnexpectedEof.into())),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(End::Socket(error)),
            };
            self.parse(&mut buffer[..len], limits, codec, random, &mut each)?;
            if len < buffer.len() && SHORT_MEANS_EMPTY {
                return Ok(());
            }
        }
    }

    #[inline]
    fn parse(
        &mut self,
        bytes: &mut [u8],
        limits: &Limits,
        codec: &mut Codec,
        random: &mut Random,
        each: &mut impl FnMut(Kind, &[u8]),
    ) -> Result<(), End> {
        let mut input = Input::new(bytes);
        loop {
            match self.machine.next_with(limits, &mut input, codec) {
                Ok(Step::Event(Event::Message { kind, payload })) => each(kind, payload),
                Ok(Step::Event(Event::Ping(payload))) => {
                    let mut pong = Vec::new();
                    frame::encode_masked(Opcode::Pong, true, payload, random.key(), &mut pong);
                    self.send(&pong)?;
                }
                Ok(Step::Event(Event::Pong(_)) | Step::Working) => {}
                Ok(Step::Event(Event::Close(frame))) => {
                    let code = frame.map(|frame| frame.code().get());
                    let reason = frame.map_or(String::new(), |frame| frame.reason().to_owned());
                    self.say_goodbye(random);
                    return Err(End::Closed(code, reason));
                }
                Ok(Step::Waiting) => return Ok(()),
                Err(error) => {
                    self.say_goodbye(random);
                    return Err(End::Protocol(error));
                }
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(None, _) => f.write_str("the server closed it without a code"),
            Self::Closed(Some(code), reason) if reason.is_empty() => {
                write!(f, "the server closed it with {code}")
            }
            Self::Closed(Some(code), reason) => {
                write!(f, "the server closed it with {code}, {reason:?}")
            }
            Self::Protocol(error) => write!(f, "the server broke the protocol: {error}"),
            Self::Socket(error) if error.kind() == ErrorKind::UnexpectedEof => {
                f.write_str("the server hung up without a close frame")
            }
            Self::Socket(error) => write!(f, "{error}"),
        }
    }
}

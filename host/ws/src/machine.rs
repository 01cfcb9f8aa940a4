//! One connection's protocol state, for both roles.

mod compression;

use crate::assemble::{Message, Partial, Stage};
use crate::deflate::Codec;
use crate::extension::Agreement;
use crate::frame::{CONTROL, Header, Opcode, Role};
use crate::{Error, Input, close, mask};
use compression::Takeover;

/// One end of a connection after the handshake.
///
/// It owns no buffer: bytes come in an [`Input`] and payloads are lent from there. Only an
/// incomplete frame or message is kept, on the heap. Idle it is a few bytes; only where context
/// takeover was agreed, it keeps what messages may refer to, see
/// [`Agreement::max_history`].
///
/// Pings are not answered here: the caller sees [`Event::Ping`] and decides.
#[derive(Debug)]
pub struct Machine {
    role: Role,
    state: State,
    agreement: Option<Agreement>,
    partial: Option<Box<Partial>>,
    takeover: Option<Box<Takeover>>,
}

/// The life of a connection (RFC 6455 §7.1).
///
/// ```text
///            close()               peer's close frame, or error
///   Open ──────────────► CloseSent ───────────────────┐
///    │                                                ▼
///    │ peer's close frame, or error       close()   Closed
///    └──────────────────► CloseReceived ──────────────┘
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Messages go both ways.
    Open,
    /// Our close frame is out and the peer's is awaited. Messages are dropped.
    CloseSent,
    /// The peer's close frame came, or the peer broke a rule. Nothing more is read; our close
    /// frame is still to be sent.
    CloseReceived,
    /// Nothing more is read or sent. The server closes the TCP connection.
    Closed,
}

/// Whether a message is text or not.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// Any bytes.
    Binary,
}

/// What a connection takes at most. One value serves all connections.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of payload in one data frame; exactly so many pass.
    pub max_frame_size: u64,
    /// Bytes of payload in one message; exactly so many pass. An incomplete message costs up to
    /// twice the bytes received, whatever was declared.
    pub max_message_size: u64,
}

/// What came from the peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A whole message.
    Message {
        /// Text or binary.
        kind: Kind,
        /// Valid UTF-8 if the kind is text.
        payload: &'a [u8],
    },
    /// A ping, at most 125 bytes. It asks for a [pong](crate::frame::pong) with the same payload;
    /// of several waiting for an answer only the newest need be answered (RFC 6455 §5.5.3).
    Ping(&'a [u8]),
    /// A pong, at most 125 bytes; perhaps not asked for.
    Pong(&'a [u8]),
    /// The peer's close frame, `None` without a code. The last event. If the state is
    /// [`State::CloseReceived`] now, answer with [`Machine::close`].
    Close(Option<close::Frame<'a>>),
}

/// What a call of [`Machine::next_with`] led to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Something came from the peer.
    Event(Event<'a>),
    /// A long message is partly inflated, 64 KiB more than before at most. Call again, with the
    /// rest of the input, when others had their turn; no new input is needed.
    Working,
    /// All input is used up.
    Waiting,
}

/// What [`Machine::find`] found.
enum Found {
    Nothing,
    Working,
    /// The payload lies in the input; for a message the opcode is text or binary.
    Frame(Opcode),
    /// The message lies in the codec and is so long.
    Inflated(Kind, usize),
}

/// A frame or message that has come whole.
enum Complete {
    /// The payload lies in the input; for a message the opcode is text or binary.
    Plain(Opcode),
    /// A message to be inflated. It lies in the input unless it comes along.
    Compressed(Kind, Option<Vec<u8>>),
}

impl Machine {
    /// A connection whose handshake is done, without compression.
    pub const fn new(role: Role) -> Self {
        Self { role, state: State::Open, agreement: None, partial: None, takeover: None }
    }

    /// A connection on which messages may be compressed. Use [`next_with`](Self::next_with).
    pub const fn with_agreement(role: Role, agreement: Agreement) -> Self {
        let agreement = Some(agreement);
        Self { role, state: State::Open, agreement, partial: None, takeover: None }
    }

    /// The next event, or `None` when the input is used up.
    ///
    /// One event per call, so the caller may stop in between, keep [`Input::remaining`] and go
    /// on later. A frame that lies whole in the input is lent from there; otherwise its payload
    /// is gathered, and the input owns it until the next call.
    ///
    /// After [`State::CloseSent`] only a close frame is reported. After an error or the peer's
    /// close frame the rest of the input, and all further input, is dropped unread.
    ///
    /// To this method a compressed message is an error, whatever was agreed.
    pub fn next<'i>(
        &mut self,
        limits: &Limits,
        input: &'i mut Input<'_>,
    ) -> Result<Option<Event<'i>>, Error> {
        match self.find_or_fail(limits, input, None)? {
            Found::Frame(opcode) => self.report(opcode, input).map(Some),
            Found::Nothing | Found::Working | Found::Inflated(..) => Ok(None),
        }
    }

    /// As [`next`](Self::next), also for compressed messages. One codec serves all connections;
    /// the message may be lent from there.
    ///
    /// [`Limits::max_message_size`] bounds both the compressed and the inflated bytes. A message
    /// that takes several steps costs up to three times the limit and 47 KiB until it is
    /// complete; the others cost nothing besides the codec.
    pub fn next_with<'i>(
        &mut self,
        limits: &Limits,
        input: &'i mut Input<'_>,
        codec: &'i mut Codec,
    ) -> Result<Step<'i>, Error> {
        match self.find_or_fail(limits, input, Some(codec))? {
            Found::Nothing => Ok(Step::Waiting),
            Found::Working => Ok(Step::Working),
            Found::Frame(opcode) => self.report(opcode, input).map(Step::Event),
            Found::Inflated(kind, len) => {
                let payload = codec.written(len);
                Ok(Step::Event(Event::Message { kind, payload }))
            }
        }
    }

    /// Where the connection stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether what comes next, of which `next` are the first bytes, belongs to a control frame. A
    /// caller who wants no more messages for now can still take those.
    pub fn expects_control(&self, next: &[u8]) -> bool {
        let begins = || next.first().is_some_and(|byte| byte & CONTROL != 0);
        match self.partial.as_ref().map(|partial| &partial.stage) {
            None | Some(Stage::Boundary) => begins(),
            Some(Stage::Header { bytes, .. }) => {
                bytes.first().is_some_and(|byte| byte & CONTROL != 0)
            }
            Some(Stage::Payload { header, .. }) => header.opcode.is_control(),
        }
    }

    /// How much has come of a message that is incomplete, in bytes of frames, roughly; `None` if
    /// none is. Grows with each byte of it that comes, and not with control frames in between.
    pub fn received(&self) -> Option<u64> {
        self.partial.as_ref().and_then(|partial| partial.received())
    }

    /// Bytes on the heap that this connection holds for what is incomplete; 0 if nothing is.
    pub fn partial_bytes(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.size())
    }

    /// Starts or answers the closing handshake: appends a close frame to `out`. `None` sends an
    /// empty payload. Returns false, and appends nothing, if a close frame was sent before.
    ///
    /// `key` is `None` for a server and a new random masking key for a client.
    pub fn close(
        &mut self,
        frame: Option<close::Frame<'_>>,
        out: &mut Vec<u8>,
        key: Option<[u8; 4]>,
    ) -> bool {
        self.state = match self.state {
            State::Open => State::CloseSent,
            State::CloseReceived => State::Closed,
            State::CloseSent | State::Closed => return false,
        };
        if self.is_working() {
            self.partial = None;
        }
        if let Some(partial) = &mut self.partial {
            partial.drop_message();
        }
        let len = frame.map_or(0, |frame| frame.size()) as u64;
        Header { fin: true, compressed: false, opcode: Opcode::Close, key, len }.encode(out);
        let start = out.len();
        if let Some(frame) = frame {
            frame.encode(out);
        }
        if let Some(key) = key {
            mask::apply(key, 0, out.get_mut(start..).unwrap_or_default());
        }
        true
    }

    fn find_or_fail(
        &mut self,
        limits: &Limits,
        input: &mut Input<'_>,
        codec: Option<&mut Codec>,
    ) -> Result<Found, Error> {
        self.find(limits, input, codec).map_err(|error| {
            input.discard();
            self.fail(error)
        })
    }

    /// The event for a payload that lies in the input.
    fn report<'i>(&mut self, opcode: Opcode, input: &'i mut Input<'_>) -> Result<Event<'i>, Error> {
        if opcode == Opcode::Close {
            input.discard();
        }
        let payload = input.payload();
        Ok(match opcode {
            Opcode::Text => Event::Message { kind: Kind::Text, payload },
            Opcode::Binary | Opcode::Continuation => Event::Message { kind: Kind::Binary, payload },
            Opcode::Ping => Event::Ping(payload),
            Opcode::Pong => Event::Pong(payload),
            Opcode::Close => match close::Frame::parse(payload) {
                Ok(frame) => {
                    self.stop_reading();
                    Event::Close(frame)
                }
                Err(error) => return Err(self.fail(error)),
            },
        })
    }

    /// Parses up to the end of a frame or message that is to be reported, or does one step of
    /// inflating it.
    fn find(
        &mut self,
        limits: &Limits,
        input: &mut Input<'_>,
        codec: Option<&mut Codec>,
    ) -> Result<Found, Error> {
        if !self.state.reads() {
            input.discard();
        }
        if let Some(partial) = &mut self.partial
            && let Some(inflation) = partial.inflation.take()
        {
            self.partial = None;
            let codec = codec.ok_or(Error::ReservedBits)?;
            return self.go_on(inflation, limits, input, codec);
        }
        let compression = codec.is_some() && self.agreement.is_some();
        while !input.is_empty() {
            let complete = match self.partial.take() {
                None => self.begin(compression, limits, input)?,
                Some(partial) => self.resume(partial, compression, limits, input)?,
            };
            match complete {
                Some(Complete::Compressed(kind, payload)) => {
                    let codec = codec.ok_or(Error::ReservedBits)?;
                    return self.inflate(kind, payload, limits, input, codec);
                }
                Some(Complete::Plain(opcode))
                    if self.state == State::Open || opcode == Opcode::Close =>
                {
                    return Ok(Found::Frame(opcode));
                }
                Some(Complete::Plain(_)) | None => {}
            }
        }
        Ok(Found::Nothing)
    }

    /// A frame while nothing is incomplete.
    fn begin(
        &mut self,
        compression: bool,
        limits: &Limits,
        input: &mut Input<'_>,
    ) -> Result<Option<Complete>, Error> {
        let parsed = Header::parse_as(self.role, compression, input.remaining())?;
        let Some((header, size)) = parsed else {
            return self.resume(Box::default(), compression, limits, input);
        };
        input.skip(size);
        limits.admit(&header, None)?;
        if header.fin && header.len <= input.remaining().len() as u64 {
            return self.whole(&header, input).map(Some);
        }
        self.gather(Box::default(), header, 0, input)
    }

    /// A frame while it, or its message, is incomplete.
    fn resume(
        &mut self,
        mut partial: Box<Partial>,
        compression: bool,
        limits: &Limits,
        input: &mut Input<'_>,
    ) -> Result<Option<Complete>, Error> {
        if let Stage::Payload { header, received } = partial.stage {
            return self.gather(partial, header, received, input);
        }
        let Some(header) = partial.header(self.role, compression, input)? else {
            self.partial = Some(partial);
            return Ok(None);
        };
        limits.admit(&header, partial.message.as_ref())?;
        let alone = header.opcode.is_control() || (header.fin && partial.message.is_none());
        if alone && header.len <= input.remaining().len() as u64 {
            self.keep(partial);
            return self.whole(&header, input).map(Some);
        }
        self.gather(partial, header, 0, input)
    }

    /// A frame that lies whole in the input and needs no other.
    fn whole(&self, header: &Header, input: &mut Input<'_>) -> Result<Complete, Error> {
        let payload = input.take(header.len, header.key, 0);
        let text = header.opcode == Opcode::Text;
        if self.state != State::Open {
            return Ok(Complete::Plain(header.opcode));
        }
        if header.compressed {
            return Ok(Complete::Compressed(if text { Kind::Text } else { Kind::Binary }, None));
        }
        if text && std::str::from_utf8(payload).is_err() {
            return Err(Error::InvalidUtf8);
        }
        Ok(Complete::Plain(header.opcode))
    }

    /// Takes what the input has of the frame's payload, of which `received` bytes came before.
    fn gather(
        &mut self,
        mut partial: Box<Partial>,
        header: Header,
        received: u64,
        input: &mut Input<'_>,
    ) -> Result<Option<Complete>, Error> {
        let bytes = input.take(header.len - received, header.key, received);
        let received = received + bytes.len() as u64;
        let rest = header.len - received;
        if header.opcode.is_control() {
            partial.control.extend_from_slice(bytes);
        } else {
            let dropped = self.state != State::Open;
            let message = partial.message.get_or_insert_with(|| Message::new(&header, dropped));
            message.append(&header, bytes, rest)?;
        }
        if rest > 0 {
            partial.stage = Stage::Payload { header, received };
            self.partial = Some(partial);
            return Ok(None);
        }

        partial.stage = Stage::Boundary;
        if header.opcode.is_control() {
            input.give(std::mem::take(&mut partial.control));
            self.keep(partial);
            return Ok(Some(Complete::Plain(header.opcode)));
        }
        if header.fin
            && let Some(message) = partial.message.take()
        {
            let compressed = message.is_compressed();
            let (kind, payload) = message.finish()?;
            if compressed {
                return Ok(Some(Complete::Compressed(kind, Some(payload))));
            }
            input.give(payload);
            return Ok(Some(Complete::Plain(kind.into())));
        }
        self.partial = Some(partial);
        Ok(None)
    }

    /// Keeps what is incomplete between two frames: a message, if there is one.
    fn keep(&mut self, partial: Box<Partial>) {
        if partial.message.is_some() {
            self.partial = Some(partial);
        }
    }

    fn fail(&mut self, error: Error) -> Error {
        self.stop_reading();
        error
    }

    fn stop_reading(&mut self) {
        self.partial = None;
        self.state = match self.state {
            State::Open | State::CloseReceived => State::CloseReceived,
            State::CloseSent | State::Closed => State::Closed,
        };
    }
}

impl State {
    /// Whether input is still parsed. Otherwise the caller may stop receiving.
    pub const fn reads(self) -> bool {
        matches!(self, Self::Open | Self::CloseSent)
    }
}

impl Limits {
    /// Fragments without payload in one message, the last one not counted; exactly so many pass.
    /// Others are bounded by the message's size, empty ones would be free.
    pub const MAX_EMPTY_FRAGMENTS: u16 = 1024;

    /// Judges a frame by its header, before any of its payload is kept.
    fn admit(&self, header: &Header, message: Option<&Message>) -> Result<(), Error> {
        if header.opcode.is_control() {
            return Ok(());
        }
        let before = match (header.opcode, message) {
            (Opcode::Continuation, None) => return Err(Error::UnexpectedContinuation),
            (Opcode::Continuation, Some(message)) => message.len(),
            (_, Some(_)) => return Err(Error::ExpectedContinuation),
            (_, None) => 0,
        };
        if header.len > self.max_frame_size {
            let limit = self.max_frame_size;
            return Err(Error::FrameTooLarge { declared: header.len, limit });
        }
        let size = before.saturating_add(header.len);
        if size > self.max_message_size {
            return Err(Error::MessageTooLarge { size, limit: self.max_message_size });
        }
        Ok(())
    }
}

/// 4 MiB each.
impl Default for Limits {
    fn default() -> Self {
        Self { max_frame_size: 4 << 20, max_message_size: 4 << 20 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_frame_is_known_before_it_is_parsed_and_while_it_comes() {
        let mut machine = Machine::new(Role::Server);
        assert!(!machine.expects_control(&[]));
        assert!(!machine.expects_control(&[0x82]));
        let ping = [0x89, 0x83, 0, 0, 0, 0, b'a', b'b', b'c'];
        for cut in 0..ping.len() {
            let mut machine = Machine::new(Role::Server);
            let (mut first, rest) = (ping[..cut].to_vec(), &ping[cut..]);
            let mut input = Input::new(&mut first);
            assert_eq!(machine.next(&Limits::default(), &mut input), Ok(None));
            assert!(machine.expects_control(rest), "{cut}");
        }
        let mut half = [0x82, 0x85, 0, 0, 0, 0, 0x89];
        assert_eq!(machine.next(&Limits::default(), &mut Input::new(&mut half)), Ok(None));
        assert!(!machine.expects_control(&[0x89]), "these bytes are a message's");
    }

    #[test]
    fn each_byte_of_a_message_counts_and_none_of_a_ping_between() {
        let mut machine = Machine::new(Role::Server);
        let key = [0; 4];
        let feed = |machine: &mut Machine, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            let mut input = Input::new(&mut bytes);
            while machine.next(&Limits::default(), &mut input).unwrap().is_some() {}
            machine.received()
        };
        let first = [&[0x02, 0x83][..], &key, b"abc"].concat();
        let empty = [&[0x00, 0x80][..], &key].concat();
        let mut before = None;
        for byte in [&first[..], &empty, &[0x00, 0xfe, 1, 0]].concat() {
            let now = feed(&mut machine, &[byte]);
            assert!(now > before, "{now:?} after {before:?}");
            before = now;
        }
        let mut machine = Machine::new(Role::Server);
        let begun = feed(&mut machine, &first);
        for byte in [&[0x89, 0x82][..], &key, b"hi"].concat() {
            assert_eq!(feed(&mut machine, &[byte]), begun);
        }
        let last = [&[0x80, 0x81][..], &key, b"d"].concat();
        assert_eq!(feed(&mut machine, &last), None);
        assert_eq!(feed(&mut machine, &[0x89]), None, "a ping's header alone");
    }

    #[test]
    fn an_idle_machine_is_tiny() {
        assert!(size_of::<Machine>() <= 24);
        assert_eq!(Machine::new(Role::Server).partial_bytes(), 0);
    }
}

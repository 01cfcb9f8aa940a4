//! A client that does what a test says, right or wrong.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use plugsock_ws::deflate::Codec;
use plugsock_ws::extension::{Agreement, Policy};
use plugsock_ws::frame::{Header, Opcode};
use plugsock_ws::handshake::{Field, HeadLimits, Key, Offer, Progress, ResponseHead};
use plugsock_ws::{Event, Input, Kind, Limits, Machine, Role, Step, frame};
use socket2::{Domain, SockRef, Socket, Type};

use super::wire::Wire;
use super::{PATIENCE, Random};

/// One end of a WebSocket connection; blocks, but not for ever.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    /// What was agreed on about compression.
    pub(crate) agreement: Option<Agreement>,
    machine: Machine,
    codec: Codec,
    wire: Wire,
    random: Random,
    come: VecDeque<Got>,
    answers_pings: bool,
}

/// What came from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    /// 1005 where there is no code.
    Close(u16, String),
    /// The end of the TCP connection, in order or by a reset.
    End,
}

impl Client {
    /// Connects and shakes hands.
    pub(crate) fn open(address: SocketAddr, target: &str) -> Self {
        Self::over(super::connect(address), target, &[]).unwrap()
    }

    /// The same, where the server may refuse; then with its status.
    pub(crate) fn try_open(address: SocketAddr, target: &str) -> Result<Self, u16> {
        Self::over(super::connect(address), target, &[])
    }

    /// A client that offers extensions in these words and takes any answer that fits.
    pub(crate) fn open_offering(address: SocketAddr, target: &str, offer: &str) -> Self {
        Self::offering(super::connect(address), target, offer)
    }

    /// A client whose kernel takes only a few KiB that it does not read.
    pub(crate) fn open_narrow(address: SocketAddr, target: &str) -> Self {
        Self::open_with_buffers(address, target, 4096)
    }

    /// A client whose kernel keeps about so many bytes in either direction.
    pub(crate) fn open_with_buffers(address: SocketAddr, target: &str, size: usize) -> Self {
        Self::over(connect_with_buffers(address, size), target, &[]).unwrap()
    }

    /// The same with an offer of extensions.
    pub(crate) fn open_offering_with_buffers(
        address: SocketAddr,
        target: &str,
        offer: &str,
        size: usize,
    ) -> Self {
        Self::offering(connect_with_buffers(address, size), target, offer)
    }

    fn offering(socket: TcpStream, target: &str, offer: &str) -> Self {
        Self::shake_hands(socket, target, &[], Some(offer)).unwrap()
    }

    /// Shakes hands over a socket that is connected.
    pub(crate) fn over(socket: TcpStream, target: &str, fields: &[Field<'_>]) -> Result<Self, u16> {
        Self::shake_hands(socket, target, fields, None)
    }

    fn shake_hands(
        mut socket: TcpStream,
        target: &str,
        fields: &[Field<'_>],
        extensions: Option<&str>,
    ) -> Result<Self, u16> {
        let mut random = Random::new(u64::from(socket.local_addr().unwrap().port()));
        let nonce = [random.key(), random.key(), random.key(), random.key()].concat();
        let key = Key::from_nonce(nonce.try_into().unwrap());
        let offer = Offer { host: "localhost", target, key, subprotocols: &[], fields };
        let mut request = Vec::new();
        offer.write(&mut request).unwrap();
        if let Some(extensions) = extensions {
            request.truncate(request.len() - 2);
            let line = format!("Sec-WebSocket-Extensions: {extensions}\r\n\r\n");
            request.extend(line.as_bytes());
        }
        // Refused before it was read, the request may meet a closed socket.
        let _ = socket.write_all(&request);

        let mut head = ResponseHead::new();
        let mut byte = [0];
        loop {
            socket.read_exact(&mut byte).unwrap();
            if let Progress::Complete { .. } = head.push(&HeadLimits::default(), &byte).unwrap() {
                break;
            }
        }
        // The widest policy: the answer says which part of it was offered.
        let policy = Policy { context_takeover: true, ..Policy::default() };
        let policy = extensions.map(|_| &policy);
        let agreement = match offer.verify_with(policy, &head) {
            Ok((_, agreement)) => agreement,
            Err(plugsock_ws::handshake::Failure::Status(status)) => return Err(status),
            Err(failure) => panic!("{failure}"),
        };
        let machine = match agreement {
            Some(agreement) => Machine::with_agreement(Role::Client, agreement),
            None => Machine::new(Role::Client),
        };
        Ok(Self {
            socket,
            agreement,
            machine,
            codec: Codec::default(),
            wire: Wire::default(),
            random,
            come: VecDeque::new(),
            answers_pings: true,
        })
    }

    /// From now on pings are shown and not answered.
    pub(crate) fn ignore_pings(&mut self) {
        self.answers_pings = false;
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.message(Kind::Text, text.as_bytes());
    }

    pub(crate) fn binary(&mut self, bytes: &[u8]) {
        self.message(Kind::Binary, bytes);
    }

    /// One frame, compressed where that was agreed on and makes it shorter. Returns whether it is.
    pub(crate) fn message(&mut self, kind: Kind, payload: &[u8]) -> bool {
        let mut bytes = Vec::new();
        let key = Some(self.random.key());
        let compressed = self.machine.encode(kind, payload, &mut self.codec, &mut bytes, key);
        self.raw(&bytes);
        compressed
    }

    pub(crate) fn ping(&mut self, bytes: &[u8]) {
        self.send(Opcode::Ping, bytes);
    }

    pub(crate) fn close(&mut self, code: u16, reason: &str) {
        self.send(Opcode::Close, &[&code.to_be_bytes(), reason.as_bytes()].concat());
    }

    pub(crate) fn close_without_code(&mut self) {
        self.send(Opcode::Close, &[]);
    }

    /// One whole frame, never compressed.
    pub(crate) fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let bytes = self.encode(opcode, payload);
        self.raw(&bytes);
    }

    /// One whole frame, to be sent later.
    pub(crate) fn encode(&mut self, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::encode_masked(opcode, true, payload, self.random.key(), &mut bytes);
        bytes
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next thing that comes; pings only where they are not answered.
    pub(crate) fn next(&mut self) -> Got {
        let start = plugsock::clock::now();
        loop {
            match self.come.pop_front() {
                Some(Got::Ping(body)) if self.answers_pings => {
                    assert!(start.elapsed() < PATIENCE, "nothing but pings came");
                    let pong = self.encode(Opcode::Pong, &body);
                    // The server may have gone.
                    let _ = self.socket.write_all(&pong);
                }
                Some(got) => return got,
                None => self.receive(),
            }
        }
    }

    /// The headers of the frames that have come since the last call, whole or begun.
    pub(crate) fn frames(&mut self) -> Vec<Header> {
        self.wire.take()
    }

    /// Waits for the beginning of a frame.
    pub(crate) fn wait_for_frame(&mut self) {
        while self.wire.is_empty() {
            self.receive();
        }
    }

    /// The next text.
    pub(crate) fn next_text(&mut self) -> String {
        match self.next() {
            Got::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The next thing must be this text.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) {
        assert_eq!(self.next(), Got::Text(text.to_owned()));
    }

    /// Sends a text that must come back next.
    #[track_caller]
    pub(crate) fn echo(&mut self, text: &str) {
        self.text(text);
        self.expect(text);
    }

    /// The next thing must be a close frame, and nothing may come after it. Returns its code and
    /// reason. It is answered, so that the server need not wait.
    #[track_caller]
    pub(crate) fn expect_close(&mut self) -> (u16, String) {
        let (code, reason) = match self.next() {
            Got::Close(code, reason) => (code, reason),
            other => panic!("not closed: {other:?}"),
        };
        let answer = if code == 1005 { Vec::new() } else { code.to_be_bytes().to_vec() };
        let answer = self.encode(Opcode::Close, &answer);
        // Where the server's close frame was an answer itself, it may have gone.
        let _ = self.socket.write_all(&answer);
        self.expect_end();
        (code, reason)
    }

    /// The server must say nothing more and end the TCP connection. Then this side does, too.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        assert_eq!(self.come, []);
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => assert_eq!(rest, b"", "after the close frame"),
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Ends the TCP connection with a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.socket).set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Ends this direction of the TCP connection.
    pub(crate) fn finish(&mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    fn receive(&mut self) {
        let mut bytes = vec![0; 64 * 1024];
        let n = match self.socket.read(&mut bytes) {
            Ok(n) => n,
            Err(error) if ended(&error) => 0,
            Err(error) => panic!("nothing came: {error}"),
        };
        if n == 0 {
            return self.come.push_back(Got::End);
        }
        self.wire.push(&bytes[..n]);
        let limits = Limits { max_frame_size: 1 << 30, max_message_size: 1 << 30 };
        let tail = bytes[n.saturating_sub(127)..n].to_vec();
        let mut input = Input::new(&mut bytes[..n]);
        loop {
            let event = match self.machine.next_with(&limits, &mut input, &mut self.codec).unwrap()
            {
                Step::Event(event) => event,
                Step::Working => continue,
                Step::Waiting => return,
            };
            self.come.push_back(match event {
                Event::Message { kind: Kind::Text, payload } => {
                    Got::Text(String::from_utf8(payload.to_vec()).unwrap())
                }
                Event::Message { kind: Kind::Binary, payload } => Got::Binary(payload.to_vec()),
                Event::Ping(body) => Got::Ping(body.to_vec()),
                Event::Pong(body) => Got::Pong(body.to_vec()),
                Event::Close(None) => Got::Close(1005, String::new()),
                Event::Close(Some(frame)) => {
                    Got::Close(frame.code().get(), frame.reason().to_owned())
                }
            });
            if let Some(Got::Close(code, reason)) = self.come.back() {
                assert_is_last(*code, reason, &tail);
            }
        }
    }
}

fn connect_with_buffers(address: SocketAddr, size: usize) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(size).unwrap();
    socket.set_send_buffer_size(size).unwrap();
    socket.connect(&address.into()).unwrap();
    let socket = TcpStream::from(socket);
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The machine drops what follows a close frame, but nothing may.
fn assert_is_last(code: u16, reason: &str, tail: &[u8]) {
    let body = [&code.to_be_bytes(), reason.as_bytes()].concat();
    let body = if code == 1005 { &[][..] } else { &body };
    let frame = [&[0x88, u8::try_from(body.len()).unwrap()], body].concat();
    assert!(tail.ends_with(&frame) || frame.ends_with(tail), "bytes behind the close frame");
}

fn ended(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

//! Plain requests, as bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// A valid head for the path `/echo` but for the empty line at its end.
pub(crate) const HEAD: &str = "GET /echo HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n";

/// What a server answers to a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// With the status line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        { fields }.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }
}

/// A socket that sends at once and hangs for ever nowhere.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends bytes and returns the answer to them; the server must close after it.
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> Answer {
    let mut socket = connect(address);
    // A server that refuses early may close while the rest is still on its way.
    let _ = socket.write_all(request);
    answer(socket)
}

/// The answer that comes, and what comes behind it until the server closes.
pub(crate) fn answer(socket: TcpStream) -> Answer {
    Answer::parse(&read_all(socket))
}

/// Whatever comes until the server closes.
pub(crate) fn read_all(mut socket: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => bytes,
    }
}

/// Asks for an upgrade of `/echo` with further fields; the answer must be a 101. Returns it and
/// the open connection.
pub(crate) fn upgrade(address: SocketAddr, fields: &str) -> (Answer, TcpStream) {
    let mut socket = connect(address);
    socket.write_all(format!("{HEAD}{fields}\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        bytes.extend(byte);
    }
    let answer = Answer::parse(&bytes);
    assert_eq!(answer.status, 101, "{fields}");
    (answer, socket)
}

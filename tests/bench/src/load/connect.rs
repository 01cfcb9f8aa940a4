//! Opening connections, one after another.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use crate::clock::Clock;
use crate::sys::{self, Epoll, Events};
use crate::upgrade;

/// How long one handshake may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest response head accepted, in bytes.
const HEAD_MAX: usize = 16 * 1024;

/// A `ws://` address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    host: String,
    path: String,
}

impl FromStr for Url {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("ws://").ok_or(())?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.is_empty() || text.contains(|c: char| c.is_ascii_control() || c == ' ') {
            return Err(());
        }
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { host, path: path.to_owned() })
    }
}

/// Opens connections to one URL, spread over source addresses and not faster than a rate.
pub(super) struct Connector {
    address: SocketAddr,
    request: Vec<u8>,
    sources: u8,
    opened: usize,
    /// Nanoseconds between two connections.
    gap: f64,
    clock: Clock,
    /// An epoll of nothing, to wait with.
    timer: Epoll,
}

impl Connector {
    /// For `rate` connections a second from as many as `sources` addresses from 127.0.0.1 on,
    /// if the server is on this machine.
    pub(super) fn new(url: Url, sources: u8, rate: f64) -> io::Result<Self> {
        let address = url.host.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other("the host has no address"))?;
        Ok(Self {
            address,
            request: upgrade::request(&url.host, &url.path),
            sources,
            opened: 0,
            gap: 1e9 / rate,
            clock: Clock::new(),
            timer: Epoll::new()?,
        })
    }

    /// Opens one more connection. Returns it, non-blocking, with what came after the handshake.
    pub(super) fn open(&mut self) -> io::Result<(TcpStream, Vec<u8>)> {
        self.pace()?;
        let mut stream = self.connect()?;
        self.opened += 1;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&self.request)?;
        let mut received = Vec::new();
        let head = loop {
            if let Some(len) = upgrade::head_len(&received) {
                break len;
            }
            let mut buffer = [0; 1024];
            match stream.read(&mut buffer)? {
                len if len > 0 && received.len() < HEAD_MAX => {
                    received.extend_from_slice(&buffer[..len]);
                }
                _ => return Err(io::Error::other("the server broke off the handshake")),
            }
        };
        upgrade::check_response(&received[..head])?;
        received.drain(..head);
        stream.set_nonblocking(true)?;
        Ok((stream, received))
    }

    fn connect(&self) -> io::Result<TcpStream> {
        match self.address {
            SocketAddr::V4(target) if target.ip().is_loopback() => {
                let index = self.opened % usize::from(self.sources);
                let last = u8::try_from(index + 1).unwrap_or(1);
                sys::connect_from(Ipv4Addr::new(127, 0, 0, last), target)
            }
            other => TcpStream::connect(other),
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
    fn pace(&self) -> io::Result<()> {
        let due = (self.opened as f64 * self.gap) as u64;
        let early = due.saturating_sub(self.clock.now());
        if early > 0 {
            self.timer.wait(&mut Events::with_capacity(1), Some(Duration::from_nanos(early)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_urls() {
        let url: Url = "ws://127.0.0.1:8080/echo?a=b".parse().unwrap();
        assert_eq!((url.host.as_str(), url.path.as_str()), ("127.0.0.1:8080", "/echo?a=b"));
        let url: Url = "ws://localhost".parse().unwrap();
        assert_eq!((url.host.as_str(), url.path.as_str()), ("localhost:80", "/"));
        for wrong in ["wss://localhost", "localhost", "ws:///echo", "ws://h/a b"] {
            assert!(wrong.parse::<Url>().is_err(), "{wrong}");
        }
    }
}

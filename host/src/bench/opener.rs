//! Opening connections: many at once, but not faster than asked.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use plugsock_ws::extension::Policy;
use plugsock_ws::handshake::{Failure, HeadLimits, Key, Offer, Progress, ResponseHead};
use plugsock_ws::{Machine, Role};
use socket2::{Domain, Protocol, Socket, Type};

use super::client::{Client, Wire};
use super::random::Random;
use super::time::{SECOND, nanoseconds};
use super::url::Url;

/// How long one connection may take, from the first packet to the server's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections being opened by all threads at once: fewer than fit into the shortest usual
/// backlog, 128. Over that packets are dropped and sent again a second later.
const MAX_OPENING: usize = 100;

/// Connections from one address. Of the 28,000 ports that Linux usually has for one, those of a
/// run before may still be waiting (TIME_WAIT), and the last ones take long to find.
const PER_SOURCE: usize = 10_000;

/// Where connections go to and how they are opened; the same for all threads.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) url: Url,
    address: SocketAddr,
    sources: Sources,
    deflate: bool,
}

/// The source addresses.
#[derive(Clone, Copy, Debug)]
enum Sources {
    /// As the system chooses.
    System,
    /// So many from this one on: 127.0.0.0/8 belongs to this machine as a whole.
    Block { first: Ipv4Addr, count: u32 },
}

impl Route {
    /// For so many connections from all threads together. `sources` overrides how many source
    /// addresses they come from, where the server is at 127.0.0.0/8; elsewhere it is not used.
    pub(super) fn new(
        url: &Url,
        connections: usize,
        sources: Option<u8>,
        deflate: bool,
    ) -> Result<Self, String> {
        let address = url.resolve()?;
        let needed = u32::try_from(connections.div_ceil(PER_SOURCE)).unwrap_or(u32::MAX);
        // Elsewhere the other loopback addresses have to be set up first.
        let usual = if cfg!(target_os = "linux") { needed.min(255) } else { 1 };
        let count = sources.map_or(usual, u32::from);
        let is_loopback = matches!(address.ip(), std::net::IpAddr::V4(ip) if ip.is_loopback());
        let sources = match count {
            2.. if is_loopback => Sources::Block { first: random_block(), count },
            _ => Sources::System,
        };
        Ok(Self { url: url.clone(), address, sources, deflate })
    }

    fn connect(&self, number: usize) -> io::Result<TcpStream> {
        let socket =
            Socket::new(Domain::for_address(self.address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Sources::Block { first, count } = self.sources {
            let number = u32::try_from(number % count as usize).unwrap_or(0);
            let source = Ipv4Addr::from(u32::from(first) + number);
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        match socket.connect(&self.address.into()) {
            Err(error) if !is_in_progress(&error) => Err(error),
            _ => Ok(TcpStream::from_std(socket.into())),
        }
    }
}

/// 127.x.y.1: another block in each run, so that none waits for the ports of the one before.
fn random_block() -> Ipv4Addr {
    let [_, x, y, ..] = Random::new().next().to_be_bytes();
    Ipv4Addr::new(127, x.clamp(1, 254), y.clamp(1, 254), 1)
}

fn is_in_progress(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(libc::EINPROGRESS) {
        return true;
    }
    error.kind() == ErrorKind::WouldBlock
}

/// One thread's share of the connections.
#[derive(Debug)]
pub(super) struct Opener {
    /// By connection: the route of those that count, then one for each that does not.
    route: Route,
    counted: usize,
    extras: Vec<Route>,
    /// The number of this thread's first connection among those of all threads.
    first: usize,
    started: usize,
    /// Nanoseconds between two of this thread's.
    gap: f64,
    room: usize,
    opening: HashMap<usize, Opening>,
}

/// A connection before the handshake's end.
#[derive(Debug)]
struct Opening {
    stream: TcpStream,
    key: Key,
    connected: bool,
    head: ResponseHead,
    since: u64,
}

impl Opener {
    /// `rate` connections a second; `threads` share what may be under way at once.
    pub(super) fn new(
        route: Route,
        (first, counted): (usize, usize),
        extras: Vec<Route>,
        rate: f64,
        threads: usize,
    ) -> Self {
        Self {
            route,
            counted,
            extras,
            first,
            started: 0,
            gap: SECOND as f64 / rate,
            room: (MAX_OPENING / threads).max(1),
            opening: HashMap::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.started == self.total() && self.opening.is_empty()
    }

    /// Whether this connection is not open yet.
    pub(super) fn is_opening(&self, index: usize) -> bool {
        self.opening.contains_key(&index)
    }

    /// Starts what is due, `now` from the first one on. Returns when there is more to do.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive ns")]
    pub(super) fn start(
        &mut self,
        now: u64,
        registry: &Registry,
        random: &mut Random,
    ) -> Result<u64, String> {
        while self.started < self.total() && self.opening.len() < self.room {
            let due = (self.started as f64 * self.gap) as u64;
            if due > now {
                return Ok(due);
            }
            let index = self.started;
            let mut opening = self
                .open(index, now, random)
                .map_err(|error| self.failure(index, explained(&error)))?;
            let interest = Interest::READABLE | Interest::WRITABLE;
            registry
                .register(&mut opening.stream, Token(index), interest)
                .map_err(|error| self.failure(index, error))?;
            self.opening.insert(index, opening);
            self.started += 1;
        }
        let patience = nanoseconds(PATIENCE);
        let overdue = self.opening.iter().find(|(_, opening)| opening.since + patience <= now);
        if let Some((index, opening)) = overdue {
            let stage =
                if opening.connected { "its handshake was not answered" } else { "no answer" };
            return Err(self.failure(*index, format!("{stage} within {PATIENCE:?}")));
        }
        Ok(now + SECOND)
    }

    /// Goes on with a connection that is ready for something. Returns it when it is open.
    pub(super) fn ready(
        &mut self,
        index: usize,
        wire: &mut Wire,
    ) -> Result<Option<Client<TcpStream>>, String> {
        let Some(mut opening) = self.opening.remove(&index) else {
            return Ok(None);
        };
        match self.progress(index, &mut opening, wire) {
            Ok(None) => {
                self.opening.insert(index, opening);
                Ok(None)
            }
            Ok(Some((machine, unread))) => Ok(Some(Client::new(opening.stream, machine, unread))),
            Err(error) => Err(self.failure(index, error)),
        }
    }

    fn open(&self, index: usize, now: u64, random: &mut Random) -> io::Result<Opening> {
        let stream = self.route_of(index).connect(self.first + index)?;
        let key = Key::from_nonce(random.nonce());
        let head = ResponseHead::new();
        Ok(Opening { stream, key, connected: false, head, since: now })
    }

    fn progress(
        &self,
        index: usize,
        opening: &mut Opening,
        wire: &mut Wire,
    ) -> Result<Option<(Machine, Vec<u8>)>, String> {
        let route = self.route_of(index);
        let offer = Offer {
            host: route.url.host(),
            target: route.url.target(),
            key: opening.key,
            subprotocols: &[],
            fields: &[],
        };
        // What browsers offer: the server may keep context or not.
        let policy = Policy { context_takeover: true, ..Policy::default() };
        let policy = route.deflate.then_some(&policy);
        if !opening.connected {
            if !is_connected(&opening.stream).map_err(|error| explained(&error))? {
                return Ok(None);
            }
            let mut request = Vec::new();
            offer.write_with(policy, &mut request).map_err(said)?;
            // The socket is fresh, and the request shorter than its buffer.
            opening.stream.write_all(&request).map_err(said)?;
            opening.connected = true;
        }
        loop {
            let len = match opening.stream.read(&mut wire.buffer) {
                Ok(0) => return Err("the server hung up during the handshake".to_owned()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(said(error)),
            };
            let received = &wire.buffer[..len];
            let progress = opening.head.push(&HeadLimits::default(), received).map_err(said)?;
            let Progress::Complete { consumed } = progress else { continue };
            let agreement = match offer.verify_with(policy, &opening.head) {
                Ok((_, agreement)) => agreement,
                Err(failure) => return Err(refusal(failure)),
            };
            let machine = match agreement {
                Some(agreement) => Machine::with_agreement(Role::Client, agreement),
                None if route.deflate => return Err(NO_DEFLATE.to_owned()),
                None => Machine::new(Role::Client),
            };
            return Ok(Some((machine, received[consumed..].to_vec())));
        }
    }

    fn total(&self) -> usize {
        self.counted + self.extras.len()
    }

    fn route_of(&self, index: usize) -> &Route {
        match index.checked_sub(self.counted) {
            Some(extra) => self.extras.get(extra).unwrap_or(&self.route),
            None => &self.route,
        }
    }

    fn failure(&self, index: usize, error: impl Display) -> String {
        let url = &self.route_of(index).url;
        format!("connection {} to {url}: {error}", self.first + index + 1)
    }
}

const NO_DEFLATE: &str = "the server does not compress (permessage-deflate): \
                          switch it on there, or leave --deflate out";

fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn refusal(failure: Failure) -> String {
    match failure {
        Failure::Status(404) => {
            "the server answered with status 404: is the path right?".to_owned()
        }
        Failure::Status(503) => {
            "the server answered with status 503: it takes no more connections".to_owned()
        }
        failure => failure.to_string(),
    }
}

fn explained(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "nothing listens there: does the server run?".to_owned(),
        ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable => {
            format!("no address or port is left to connect from ({error}): --source-addresses")
        }
        _ => error.to_string(),
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}

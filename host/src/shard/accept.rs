//! The shard's listening sockets.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

use crate::conn::Tick;
use crate::listen::{Admission, Listener, Permit, Rejected};

/// Clients that one turn accepts, at most.
const BATCH: usize = 256;
/// How long accepting rests where descriptors or memory are short.
const REST: Tick = Tick(2);
/// How often that is logged, at most.
const LOG_EVERY: Tick = Tick(60 * Tick::PER_SECOND);

/// Lets clients in.
#[derive(Debug)]
pub(super) struct Door {
    listeners: Vec<Listener>,
    admission: Arc<Admission>,
    /// Listeners that may have more.
    ready: Vec<usize>,
    /// Accepting rests until then.
    rest_until: Tick,
    logged: Option<Tick>,
}

/// Somebody at the door.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) socket: TcpStream,
    pub(super) client: IpAddr,
    pub(super) permit: Permit,
    /// To be told why not.
    pub(super) rejected: Option<Rejected>,
}

/// What is short.
#[derive(Debug)]
pub(super) struct Shortage(pub(super) io::Error);

impl Door {
    pub(super) fn new(
        mut listeners: Vec<Listener>,
        admission: Arc<Admission>,
        poll: &Poll,
    ) -> io::Result<Self> {
        for (i, listener) in listeners.iter_mut().enumerate() {
            poll.registry().register(&mut listener.socket, token(i), Interest::READABLE)?;
        }
        let ready = Vec::new();
        Ok(Self { listeners, admission, ready, rest_until: Tick(0), logged: None })
    }

    /// If this is a listener's token, notes that it has clients.
    pub(super) fn knock(&mut self, at: Token) -> bool {
        let listener = (usize::MAX - 1).checked_sub(at.0).filter(|i| *i < self.listeners.len());
        if let Some(i) = listener
            && !self.ready.contains(&i)
        {
            self.ready.push(i);
        }
        listener.is_some()
    }

    /// The next client, up to a number per turn.
    pub(super) fn next(&mut self, nth: usize, now: Tick) -> Result<Option<Arrival>, Shortage> {
        if nth >= BATCH || now < self.rest_until {
            return Ok(None);
        }
        while let Some(&i) = self.ready.last() {
            match self.listeners[i].accept() {
                Ok((socket, client)) => {
                    let (permit, rejected) = match self.admission.admit(client) {
                        Ok(permit) => (permit, None),
                        Err(why) => match self.admission.turn_away() {
                            Some(permit) => (permit, Some(why)),
                            None => continue,
                        },
                    };
                    return Ok(Some(Arrival { socket, client, permit, rejected }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.ready.pop();
                }
                Err(error) if is_shortage(&error) => {
                    self.rest_until = Tick(now.0 + REST.0);
                    return Err(Shortage(error));
                }
                // The client has gone again before it was accepted.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Whether a shortage should be logged now.
    pub(super) fn may_log(&mut self, now: Tick) -> bool {
        let due = self.logged.is_none_or(|last| now.0 >= last.0 + LOG_EVERY.0);
        if due {
            self.logged = Some(now);
        }
        due
    }

    /// Whether clients may be waiting that can be let in now.
    pub(super) fn has_more(&self, now: Tick) -> bool {
        !self.ready.is_empty() && now >= self.rest_until
    }

    /// Whether clients wait for a shortage to end.
    pub(super) fn rests(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nobody comes in any more.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.ready.clear();
    }
}

fn token(listener: usize) -> Token {
    Token(usize::MAX - 1 - listener)
}

/// Errors of `accept` that last until something is freed: EMFILE, ENFILE, ENOBUFS, ENOMEM. All
/// others concern the one client.
fn is_shortage(error: &io::Error) -> bool {
    #[cfg(unix)]
    let short = matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    );
    #[cfg(not(unix))]
    let short = error.kind() == io::ErrorKind::OutOfMemory || error.raw_os_error() == Some(10_024);
    short
}

//! The bare limit: one raw epoll loop.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use super::conn::Conn;
use super::{BUFFER, EVENTS, Options};
use crate::sys::{Epoll, Events, accept};

/// No descriptor has this token.
pub(crate) const LISTENER: u64 = u64::MAX;

pub(crate) fn run(listener: TcpListener, _: Options) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add_listener(&listener, LISTENER)?;
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; BUFFER];
    // By descriptor, which is also the token.
    let mut conns: Vec<Option<Conn<TcpStream>>> = Vec::new();
    loop {
        for index in 0..epoll.wait(&mut events)? {
            let event = events.get(index);
            if event.token == LISTENER {
                accept_all(&listener, &epoll, &mut conns, Conn::new)?;
                continue;
            }
            let Some(slot) = usize::try_from(event.token).ok().and_then(|at| conns.get_mut(at))
            else {
                continue;
            };
            if let Some(conn) = slot
                && !matches!(conn.ready(event.readable, event.writable, &mut buffer), Ok(true))
            {
                *slot = None;
            }
        }
    }
}

/// Takes in whoever waits, each at the place of its descriptor, which is also its token.
pub(crate) fn accept_all<C>(
    listener: &TcpListener,
    epoll: &Epoll,
    conns: &mut Vec<Option<C>>,
    new: fn(TcpStream) -> C,
) -> io::Result<()> {
    loop {
        let stream = match accept(listener) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let token = usize::try_from(stream.as_raw_fd()).unwrap_or(0);
        epoll.add_stream(&stream, token as u64)?;
        if conns.len() <= token {
            conns.resize_with(token + 1, || None);
        }
        conns[token] = Some(new(stream));
    }
}

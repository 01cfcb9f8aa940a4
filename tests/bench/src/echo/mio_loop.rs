//! The same loop over mio.

use std::io::{self, ErrorKind};
use std::net;
use std::os::fd::AsRawFd;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use super::conn::Conn;
use super::{BUFFER, EVENTS, Options};

const LISTENER: Token = Token(usize::MAX);

pub(crate) fn run(listener: net::TcpListener, _: Options) -> io::Result<()> {
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; BUFFER];
    // By descriptor, which is also the token.
    let mut conns: Vec<Option<Conn<TcpStream>>> = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            outcome => outcome?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept_all(&listener, &poll, &mut conns)?;
                continue;
            }
            let Some(slot) = conns.get_mut(event.token().0) else {
                continue;
            };
            let readable = event.is_readable() || event.is_error();
            if let Some(conn) = slot
                && !matches!(conn.ready(readable, event.is_writable(), &mut buffer), Ok(true))
            {
                *slot = None;
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    poll: &Poll,
    conns: &mut Vec<Option<Conn<TcpStream>>>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        let token = usize::try_from(stream.as_raw_fd()).unwrap_or(0);
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(token), interest)?;
        if conns.len() <= token {
            conns.resize_with(token + 1, || None);
        }
        conns[token] = Some(Conn::new(stream));
    }
}

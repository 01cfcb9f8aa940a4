//! What one client sends goes to all: the least that this can cost, and the naive way.
//!
//! Both read with the machine of `plugsock-ws` and compress with its compressor, so that they
//! differ from Plugsock, and from each other, in how a message gets to many sockets.

mod conn;
mod fanout;

use std::io;
use std::net::{TcpListener, TcpStream};

use plugsock_ws::deflate::{Codec, Settings};

use crate::args::{Args, Error};
use crate::echo::epoll_loop::{LISTENER, accept_all};
use crate::echo::{BUFFER, EVENTS, listen};
use crate::sys::{Epoll, Event, Events};
use conn::{Conn, Turn};
use fanout::{Fanout, Way};

/// zlib's own level, which whoever sets none gets.
const NAIVE_LEVEL: u8 = 6;

/// Listens where the arguments say and serves.
pub(crate) fn run(mut args: Args) -> Result<bool, Error> {
    let way = if args.flag("--naive") { Way::Naive } else { Way::Shared };
    let level = args.value("--level")?.unwrap_or(match way {
        Way::Naive => NAIVE_LEVEL,
        Way::Shared => Settings::default().level,
    });
    let deflate = args.flag("--deflate").then_some(Settings { level, ..Settings::default() });
    let listener = listen(args)?;
    serve(&listener, Fanout::new(way, deflate))?;
    Ok(true)
}

fn serve(listener: &TcpListener, fanout: Fanout) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add_listener(listener, LISTENER)?;
    let mut events = Events::with_capacity(EVENTS);
    let codec = Codec::new(Settings::default());
    let mut room = Room { conns: Vec::new(), fanout, codec, buffer: vec![0; BUFFER] };
    loop {
        for index in 0..epoll.wait(&mut events)? {
            let event = events.get(index);
            if event.token == LISTENER {
                accept_all(listener, &epoll, &mut room.conns, Conn::new)?;
            } else if let Ok(token) = usize::try_from(event.token) {
                room.ready(token, event);
            }
        }
    }
}

/// All connections, and what they share.
struct Room {
    /// By descriptor, which is also the token.
    conns: Vec<Option<Conn<TcpStream>>>,
    fanout: Fanout,
    /// Inflates what comes.
    codec: Codec,
    buffer: Vec<u8>,
}

impl Room {
    /// Does what an edge-triggered event allows. What each read brings leaves before the next.
    fn ready(&mut self, token: usize, event: Event) {
        if event.writable {
            self.of(token, |conn, _| conn.flush().map(|()| Turn::Done));
        }
        let mut readable = event.readable;
        while readable {
            let turn = self.of(token, |conn, Shared { fanout, codec, buffer }| {
                conn.receive(buffer, codec, fanout)
            });
            readable = turn == Turn::More;
            self.fanout.send(&mut self.conns);
        }
    }

    /// Something that a connection does, which may be its last.
    fn of(
        &mut self,
        token: usize,
        does: impl FnOnce(&mut Conn<TcpStream>, Shared<'_>) -> io::Result<Turn>,
    ) -> Turn {
        let Some(slot @ Some(_)) = self.conns.get_mut(token) else {
            return Turn::Ended;
        };
        let Self { fanout, codec, buffer, .. } = self;
        let turn = slot.as_mut().map(|conn| does(conn, Shared { fanout, codec, buffer }));
        let turn = turn.and_then(Result::ok).unwrap_or(Turn::Ended);
        if turn == Turn::Ended {
            *slot = None;
        }
        turn
    }
}

/// What a connection needs of the room.
struct Shared<'r> {
    fanout: &'r mut Fanout,
    codec: &'r mut Codec,
    buffer: &'r mut [u8],
}

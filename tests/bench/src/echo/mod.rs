//! The echo servers: one handshake, one way to echo, three ways to wait for sockets.

mod conn;
pub(crate) mod epoll_loop;
pub(crate) mod mio_loop;
mod session;
pub(crate) mod tokio_loop;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};

use crate::args::{Args, Error};
use crate::sys;

/// The one receive buffer of a server, in bytes.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Events taken from the kernel in one call.
pub(crate) const EVENTS: usize = 1024;

/// A server: runs on a listener until the process is killed.
type Server = fn(TcpListener, Options) -> io::Result<()>;

/// What the command line may change.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// `tokio-echo` only: tasks polled between two looks at the sockets.
    event_interval: Option<u32>,
}

/// Listens where the arguments say and serves.
pub(crate) fn run(mut args: Args, server: Server) -> Result<bool, Error> {
    let options = Options { event_interval: args.value("--event-interval")? };
    server(listen(args)?, options)?;
    Ok(true)
}

/// Listens where what is left of the arguments says, and says so.
pub(crate) fn listen(mut args: Args) -> Result<TcpListener, Error> {
    let address = args.value("--listen")?.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 9001)));
    args.finish()?;
    sys::raise_open_files()?;
    let listener = sys::listen(address)?;
    writeln!(io::stdout(), "listening on {}", listener.local_addr()?)?;
    Ok(listener)
}

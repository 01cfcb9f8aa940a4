//! What the peers share: the command line, one thread and its listener.

use std::future::Future;
use std::io;
use std::str::FromStr;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// Published messages that a receiver may be behind.
pub const BACKLOG: usize = 1024;

/// The argument at `position`, from 1, if there is one.
///
/// # Panics
///
/// If it does not parse.
pub fn argument<T: FromStr>(position: usize) -> Option<T> {
    let text = std::env::args().nth(position)?;
    Some(text.parse().unwrap_or_else(|_| panic!("argument {position} cannot be {text:?}")))
}

/// Serves on `port` of this machine with a task for each connection, all on one thread: the
/// measurement gives a server one core.
///
/// # Errors
///
/// If the port cannot be had.
pub fn serve<F>(port: u16, mut serve_one: impl FnMut(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + 'static,
{
    let runtime = Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::task::spawn_local(serve_one(stream));
        }
    })
}

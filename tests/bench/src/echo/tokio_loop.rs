//! The same echo on a current-thread tokio runtime, one task per connection.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

use super::session::Session;
use super::{BUFFER, EVENTS, Options};

thread_local! {
    /// The receive buffer of all tasks: none of them holds it across a wait.
    static RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; BUFFER]);
}

pub(crate) fn run(listener: net::TcpListener, options: Options) -> io::Result<()> {
    let mut builder = Builder::new_current_thread();
    builder.enable_io().max_io_events_per_tick(EVENTS);
    if let Some(interval) = options.event_interval {
        builder.event_interval(interval);
    }
    let runtime = builder.build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    runtime.spawn(Echo { stream, session: Session::default() });
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    })
}

/// The life of one connection.
struct Echo {
    stream: TcpStream,
    session: Session,
}

impl Echo {
    /// Ready when the connection has ended.
    fn turn(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<()>> {
        loop {
            while let Some(unsent) = self.session.unsent() {
                let sent = ready!(Pin::new(&mut self.stream).poll_write(context, unsent))?;
                self.session.sent(sent);
            }
            if self.session.is_closing() {
                return Poll::Ready(Ok(()));
            }
            let mut received = ReadBuf::new(buffer);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut received))?;
            if received.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            let reply = self.session.receive(received.filled_mut())?;
            if reply.is_empty() {
                continue;
            }
            let sent = match Pin::new(&mut self.stream).poll_write(context, &reply)? {
                Poll::Ready(sent) => sent,
                Poll::Pending => 0,
            };
            if sent < reply.len() {
                self.session.keep(&reply[sent..]);
            }
        }
    }
}

impl Future for Echo {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        RECEIVED.with_borrow_mut(|buffer| self.turn(context, buffer)).map(drop)
    }
}

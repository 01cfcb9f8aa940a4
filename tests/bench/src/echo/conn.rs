//! A connection of the two readiness loops.

use std::io::{self, ErrorKind, Read, Write};

use super::session::Session;

/// A socket and its state.
pub(super) struct Conn<S> {
    stream: S,
    session: Session,
}

impl<S: Read + Write> Conn<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, session: Session::default() }
    }

    /// Does what an edge-triggered event allows; returns whether the connection lives on.
    ///
    /// There is one read per event: a second one follows only if the first filled the buffer,
    /// since a short read means that the socket is empty and that more will make a new event.
    #[inline]
    pub(super) fn ready(
        &mut self,
        mut readable: bool,
        writable: bool,
        buffer: &mut [u8],
    ) -> io::Result<bool> {
        if self.session.unsent().is_some() {
            if !writable || !self.flush()? {
                return Ok(true);
            }
            // The event for what came meanwhile has passed.
            readable = true;
        }
        while readable && !self.session.is_closing() {
            let len = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            readable = len == buffer.len();
            let reply = self.session.receive(&mut buffer[..len])?;
            if !reply.is_empty() {
                let sent = sent(self.stream.write(&reply))?;
                if sent < reply.len() {
                    self.session.keep(&reply[sent..]);
                    return Ok(true);
                }
            }
        }
        Ok(!self.session.is_closing())
    }

    /// Sends what was kept; returns whether all of it is gone.
    fn flush(&mut self) -> io::Result<bool> {
        while let Some(unsent) = self.session.unsent() {
            let sent = sent(self.stream.write(unsent))?;
            if sent == 0 {
                return Ok(false);
            }
            self.session.sent(sent);
        }
        Ok(true)
    }
}

/// A full socket takes nothing.
fn sent(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

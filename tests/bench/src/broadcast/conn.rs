//! A connection of the broadcast loops.

use std::io::{self, ErrorKind, Read, Write};

use plugsock_ws::deflate::{Codec, Compressor};
use plugsock_ws::extension::{Policy, WindowBits};
use plugsock_ws::{Event, Input, Limits, Machine, Role, Step, frame};

use super::fanout::Fanout;
use crate::upgrade;

/// What sends must not be refused: this is for measuring only.
const LIMITS: Limits = Limits { max_frame_size: u64::MAX, max_message_size: u64::MAX };

/// A socket, and what sending to it needs. What only receiving needs is kept apart: a broadcast
/// walks over all connections, and most of them never send.
pub(super) struct Conn<S> {
    stream: S,
    pub(super) stage: Stage,
    /// What the socket did not take.
    unsent: Vec<u8>,
    /// Its own, the naive way.
    pub(super) compressor: Option<Compressor>,
    reader: Box<Reader>,
}

/// How far a connection is, and what may be sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Upgrading,
    Plain,
    /// It takes compressed messages as well.
    Deflating,
}

/// What is to be done after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// There may be more to read.
    More,
    /// The next event says when to go on.
    Done,
    /// The connection is over.
    Ended,
}

struct Reader {
    machine: Machine,
    /// The beginning of the request's head.
    head: Vec<u8>,
}

impl<S: Read + Write> Conn<S> {
    pub(super) fn new(stream: S) -> Self {
        let reader = Box::new(Reader { machine: Machine::new(Role::Server), head: Vec::new() });
        Self { stream, stage: Stage::Upgrading, unsent: Vec::new(), compressor: None, reader }
    }

    #[cfg(test)]
    pub(super) fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    #[cfg(test)]
    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    /// Writes once, and keeps what the socket does not take.
    #[inline]
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        if self.unsent.is_empty() {
            sent = written(self.stream.write(bytes))?;
        }
        if sent < bytes.len() {
            self.unsent.extend_from_slice(&bytes[sent..]);
        }
        Ok(())
    }

    /// Sends what was kept, as far as the socket takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match written(self.stream.write(&self.unsent))? {
                0 => return Ok(()),
                sent => drop(self.unsent.drain(..sent)),
            }
        }
        // Memory for a crowd's backlog is not kept by each of them.
        self.unsent = Vec::new();
        Ok(())
    }

    /// Reads once; messages go to `fanout`.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        codec: &mut Codec,
        fanout: &mut Fanout,
    ) -> io::Result<Turn> {
        let len = match self.stream.read(buffer) {
            Ok(0) => return Ok(Turn::Ended),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Turn::Done),
            Err(error) => return Err(error),
        };
        let open = if self.stage == Stage::Upgrading {
            let mut input = std::mem::take(&mut self.reader.head);
            input.extend_from_slice(&buffer[..len]);
            match upgrade::head_len(&input) {
                Some(head) => {
                    self.upgrade(&input[..head], fanout)?;
                    self.take(&mut input[head..], codec, fanout)?
                }
                None => {
                    self.reader.head = input;
                    true
                }
            }
        } else {
            self.take(&mut buffer[..len], codec, fanout)?
        };
        Ok(match open {
            false => Turn::Ended,
            // A short read has emptied the socket: more makes a new event.
            true if len < buffer.len() => Turn::Done,
            true => Turn::More,
        })
    }

    fn upgrade(&mut self, head: &[u8], fanout: &Fanout) -> io::Result<()> {
        let offers = fanout.deflates().then(|| upgrade::offers(head));
        let agreement = Policy::default().negotiate(offers.into_iter().flatten());
        self.stage = Stage::Plain;
        if let Some(agreement) = agreement {
            self.reader.machine = Machine::with_agreement(Role::Server, agreement);
            if self.reader.machine.takes(WindowBits::MAX) {
                self.stage = Stage::Deflating;
                self.compressor = fanout.own_compressor();
            }
        }
        self.send(&upgrade::accept(head, agreement)?)
    }

    /// Takes frames; returns whether the connection lives on.
    fn take(
        &mut self,
        bytes: &mut [u8],
        codec: &mut Codec,
        fanout: &mut Fanout,
    ) -> io::Result<bool> {
        let mut input = Input::new(bytes);
        let mut reply = Vec::new();
        let machine = &mut self.reader.machine;
        let open = loop {
            match machine.next_with(&LIMITS, &mut input, codec).map_err(io::Error::other)? {
                Step::Event(Event::Message { kind, payload }) => fanout.add(kind, payload),
                Step::Event(Event::Ping(payload)) => {
                    frame::pong(payload, &mut reply).map_err(io::Error::other)?;
                }
                Step::Event(Event::Pong(_)) | Step::Working => {}
                Step::Event(Event::Close(frame)) => {
                    machine.close(frame, &mut reply, None);
                    break false;
                }
                Step::Waiting => break true,
            }
        };
        if !reply.is_empty() {
            self.send(&reply)?;
        }
        Ok(open)
    }
}

/// A full socket takes nothing.
fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

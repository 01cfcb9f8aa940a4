//! One connection of the generator.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::TcpStream;

use super::batch::{Batch, mark, opcode};
use crate::frame::{BINARY, CLOSE, CONTINUATION, FIN, Header, PING, PONG, TEXT, write_masked};

/// What every answer must look like.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    size: usize,
    opcode: u8,
}

impl Expected {
    pub(super) fn new(size: usize, text: bool) -> Self {
        Self { size, opcode: opcode(text) }
    }
}

/// Answers that were not what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wrong {
    /// Another length or another kind of message.
    pub(super) shape: u64,
    /// Another message than the next one of this connection.
    pub(super) order: u64,
}

/// A connection and its messages under way.
pub(super) struct Client<S = TcpStream> {
    stream: S,
    /// The beginning of a frame.
    partial: Vec<u8>,
    /// What the socket did not take.
    unsent: Vec<u8>,
    /// When each message under way was sent, or should have been.
    sent_at: VecDeque<u64>,
    sent: u32,
    answered: u32,
    answer: Answer,
}

/// A message that arrives in fragments.
#[derive(Default)]
struct Answer {
    len: usize,
    opcode: u8,
    in_order: bool,
}

impl<S: Read + Write> Client<S> {
    /// `received` is what came right after the handshake.
    pub(super) fn new(stream: S, received: Vec<u8>) -> Self {
        Self {
            stream,
            partial: received,
            unsent: Vec::new(),
            sent_at: VecDeque::new(),
            sent: 0,
            answered: 0,
            answer: Answer::default(),
        }
    }

    pub(super) fn stream(&self) -> &S {
        &self.stream
    }

    /// Messages sent and not answered.
    pub(super) fn under_way(&self) -> usize {
        self.sent_at.len()
    }

    /// When the oldest message under way was sent: called once for each answer.
    pub(super) fn take_sent_at(&mut self) -> Option<u64> {
        self.sent_at.pop_front()
    }

    /// Sends `count` messages in one write.
    #[inline]
    pub(super) fn send(&mut self, batch: &mut Batch, count: usize, at: u64) -> io::Result<()> {
        let frames = batch.frames(self.sent, count);
        for _ in 0..count {
            self.sent = self.sent.wrapping_add(1);
            self.sent_at.push_back(at);
        }
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(frames);
            return Ok(());
        }
        let sent = sent(self.stream.write(frames))?;
        self.unsent.extend_from_slice(&frames[sent..]);
        Ok(())
    }

    /// Sends what was left over.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = sent(self.stream.write(&self.unsent))?;
            if sent == 0 {
                break;
            }
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// Reads until the socket is empty; returns how many answers came. The end of the connection
    /// is an error, also when it was closed politely.
    #[inline]
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: Expected,
        wrong: &mut Wrong,
    ) -> io::Result<usize> {
        let before = self.answered;
        loop {
            let len = match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            if self.partial.is_empty() {
                let used = self.frames(&buffer[..len], expected, wrong)?;
                self.partial.extend_from_slice(&buffer[used..len]);
            } else {
                self.partial.extend_from_slice(&buffer[..len]);
                let mut partial = mem::take(&mut self.partial);
                partial.drain(..self.frames(&partial, expected, wrong)?);
                self.partial = partial;
            }
            if len < buffer.len() {
                break;
            }
        }
        Ok(self.answered.wrapping_sub(before) as usize)
    }

    /// Takes the whole frames of `bytes`; returns their length.
    fn frames(&mut self, bytes: &[u8], expected: Expected, wrong: &mut Wrong) -> io::Result<usize> {
        let mut at = 0;
        while let Some(frame) = Header::parse(&bytes[at..]) {
            let end = at.saturating_add(frame.frame_len());
            let Some(payload) = bytes.get(at + frame.len..end) else {
                break;
            };
            match frame.opcode() {
                CONTINUATION | TEXT | BINARY => self.data(&frame, payload, expected, wrong),
                PING => self.pong(payload)?,
                PONG => {}
                CLOSE => return Err(closed(payload)),
                _ => return Err(ErrorKind::InvalidData.into()),
            }
            at = end;
        }
        Ok(at)
    }

    #[inline]
    fn data(&mut self, frame: &Header, payload: &[u8], expected: Expected, wrong: &mut Wrong) {
        if frame.opcode() != CONTINUATION {
            self.answer = Answer { len: 0, opcode: frame.opcode(), in_order: true };
        }
        if self.answer.len == 0 {
            let mark = mark(self.answered);
            let marked = payload.len().min(mark.len());
            self.answer.in_order = payload[..marked] == mark[..marked];
        }
        self.answer.len += payload.len();
        if !frame.is_final() {
            return;
        }
        if self.answer.len != expected.size || self.answer.opcode != expected.opcode {
            wrong.shape += 1;
        } else if !self.answer.in_order {
            wrong.order += 1;
        }
        self.answered = self.answered.wrapping_add(1);
    }

    fn pong(&mut self, payload: &[u8]) -> io::Result<()> {
        write_masked(&mut self.unsent, FIN | PONG, [1, 2, 3, 4], payload);
        self.flush()
    }
}

/// A full socket takes nothing.
fn sent(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

fn closed(payload: &[u8]) -> io::Error {
    let code = payload.first_chunk().map_or(1005, |code| u16::from_be_bytes(*code));
    let reason = String::from_utf8_lossy(payload.get(2..).unwrap_or_default());
    io::Error::other(format!("closed with {code} {reason:?}"))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// A connection that brings `input` and then ends.
    fn receive(input: &[u8], wrong: &mut Wrong) -> (io::Result<usize>, Vec<u8>) {
        let mut client = Client::new(Cursor::new(input.to_vec()), Vec::new());
        let expected = Expected::new(6, true);
        let came = client.receive(&mut [0; 512], expected, wrong);
        (came, client.unsent)
    }

    fn answer(first: u8, payload: &[u8]) -> Vec<u8> {
        [&[first, u8::try_from(payload.len()).unwrap()], payload].concat()
    }

    fn message(number: u32) -> Vec<u8> {
        [&mark(number)[..], b"xx"].concat()
    }

    #[test]
    fn counts_whole_and_fragmented_answers_and_keeps_the_rest() {
        let fragments = [
            answer(TEXT, &message(1)[..4]),
            answer(CONTINUATION, b"x"),
            answer(FIN | CONTINUATION, b"x"),
        ];
        let rest = answer(FIN | TEXT, &message(2));
        let input = [answer(FIN | TEXT, &message(0)), fragments.concat(), rest[..5].to_vec()];
        let mut wrong = Wrong::default();
        let (came, _) = receive(&input.concat(), &mut wrong);
        assert_eq!(came.unwrap(), 2);
        assert_eq!(wrong, Wrong::default());
    }

    #[test]
    fn reports_answers_that_are_not_what_was_sent() {
        let cases = [
            (answer(FIN | TEXT, &message(1)), Wrong { shape: 0, order: 1 }),
            (answer(FIN | TEXT, &message(0)[..5]), Wrong { shape: 1, order: 0 }),
            (answer(FIN | TEXT, &[&message(0)[..], b"x"].concat()), Wrong { shape: 1, order: 0 }),
            (answer(FIN | BINARY, &message(0)), Wrong { shape: 1, order: 0 }),
        ];
        for (input, expected) in cases {
            let mut wrong = Wrong::default();
            assert_eq!(receive(&input, &mut wrong).0.unwrap(), 1);
            assert_eq!(wrong, expected);
        }
    }

    #[test]
    fn a_close_frame_or_the_end_is_an_error() {
        let mut wrong = Wrong::default();
        let (came, _) = receive(&answer(FIN | CLOSE, b"\x03\xf4slow"), &mut wrong);
        assert_eq!(came.unwrap_err().to_string(), "closed with 1012 \"slow\"");
        assert!(receive(b"", &mut wrong).0.is_err());
    }
}

//! What an echo server remembers of a connection.

use std::borrow::Cow;
use std::io;

use crate::frame::{Header, echo};
use crate::upgrade;

/// A connection's state apart from its socket: 16 bytes while it is idle.
#[derive(Default)]
pub(super) struct Session {
    stage: Stage,
    /// There only while a frame is incomplete or a reply is not yet sent.
    held: Option<Box<Held>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Upgrading,
    Open,
    /// The last reply is made: the connection ends as soon as it is sent.
    Closing,
}

#[derive(Default)]
struct Held {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Session {
    /// Takes what one read brought and returns the reply to all of it.
    #[inline]
    pub(super) fn receive<'a>(&mut self, bytes: &'a mut [u8]) -> io::Result<Cow<'a, [u8]>> {
        if self.stage != Stage::Open || self.held.is_some() {
            return self.receive_slowly(bytes).map(Cow::Owned);
        }
        let echo = echo(bytes)?;
        if echo.closed {
            self.stage = Stage::Closing;
        } else if echo.consumed < bytes.len() {
            self.held().input.extend_from_slice(&bytes[echo.consumed..]);
        }
        Ok(Cow::Borrowed(&bytes[echo.reply]))
    }

    /// Whether the connection ends once nothing is unsent.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.stage == Stage::Closing
    }

    /// Keeps what the socket did not take.
    pub(super) fn keep(&mut self, unsent: &[u8]) {
        self.held().output.extend_from_slice(unsent);
    }

    /// What is still to be sent, before anything else is received.
    #[inline]
    pub(super) fn unsent(&self) -> Option<&[u8]> {
        let held = self.held.as_ref()?;
        (!held.output.is_empty()).then_some(&held.output)
    }

    /// The first `len` bytes of what was unsent are sent.
    pub(super) fn sent(&mut self, len: usize) {
        self.held().output.drain(..len);
        self.release();
    }

    /// For the handshake and for frames that arrive in pieces.
    fn receive_slowly(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut reply = Vec::new();
        self.held().input.extend_from_slice(bytes);
        if self.stage == Stage::Upgrading {
            let input = &mut self.held().input;
            let Some(head) = upgrade::head_len(input) else {
                return Ok(reply);
            };
            reply = upgrade::accept(&input[..head], None)?;
            input.drain(..head);
            self.stage = Stage::Open;
        }
        let input = &mut self.held().input;
        // Unmasking is done once, when all of a frame is there.
        if Header::parse(input).is_some_and(|frame| frame.frame_len() <= input.len()) {
            let echo = echo(input)?;
            reply.extend_from_slice(&input[echo.reply]);
            input.drain(..echo.consumed);
            if echo.closed {
                self.stage = Stage::Closing;
            }
        }
        self.release();
        Ok(reply)
    }

    fn held(&mut self) -> &mut Held {
        self.held.get_or_insert_default()
    }

    fn release(&mut self) {
        self.held.take_if(|held| held.input.is_empty() && held.output.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{BINARY, CLOSE, FIN, write_masked};

    #[test]
    fn an_idle_session_is_small() {
        assert_eq!(size_of::<Session>(), 16);
    }

    #[test]
    fn any_split_gives_the_same_reply_and_leaves_nothing_behind() {
        let mut input = upgrade::request("/");
        let mut expected = upgrade::accept(&input, None).unwrap();
        for (size, fill) in [(5, 1), (200, 2)] {
            write_masked(&mut input, FIN | BINARY, [1, 2, 3, 4], &vec![fill; size]);
        }
        expected.extend([0x82, 5]);
        expected.extend([1; 5]);
        expected.extend([0x82, 126, 0, 200]);
        expected.extend([2; 200]);
        for step in 1..=input.len() {
            let mut session = Session::default();
            let mut replies = Vec::new();
            for piece in input.chunks(step) {
                replies.extend_from_slice(&session.receive(&mut piece.to_vec()).unwrap());
            }
            assert_eq!(replies, expected, "in pieces of {step}");
            assert!(session.held.is_none());
        }
    }

    #[test]
    fn unsent_bytes_are_kept_in_order() {
        let mut session = Session::default();
        session.keep(b"abcdef");
        session.sent(2);
        assert_eq!(session.unsent(), Some(&b"cdef"[..]));
        session.sent(4);
        assert_eq!(session.unsent(), None);
        assert!(session.held.is_none());
    }

    #[test]
    fn a_close_frame_ends_the_session() {
        let mut session = Session { stage: Stage::Open, held: None };
        let mut frame = Vec::new();
        write_masked(&mut frame, FIN | CLOSE, [0; 4], b"");
        assert_eq!(*session.receive(&mut frame).unwrap(), [0x88, 0]);
        assert!(session.is_closing());
    }
}

//! One extra connection that sends one text, to see whether it disturbs the others.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use super::connect::{Connector, Url};
use crate::frame::{CLOSE, FIN, Header, TEXT, write_masked};

/// The connection and what became of it.
pub(super) struct Poke {
    stream: TcpStream,
    text: String,
    sent_at: u64,
    outcome: Outcome,
}

/// What the server made of the text; times in nanoseconds from sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    NoAnswer,
    Answered {
        after: u64,
    },
    /// Without a close frame there is no code.
    Closed {
        after: u64,
        code: Option<u16>,
    },
}

impl Poke {
    pub(super) fn open(url: Url, text: String) -> io::Result<Self> {
        let (stream, _) = Connector::new(url, 1, f64::INFINITY)?.open()?;
        Ok(Self { stream, text, sent_at: 0, outcome: Outcome::NoAnswer })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub(super) fn send(&mut self, now: u64) -> io::Result<()> {
        let mut frame = Vec::new();
        write_masked(&mut frame, FIN | TEXT, [1, 2, 3, 4], self.text.as_bytes());
        self.sent_at = now;
        // The socket is fresh: what it does not take at once is too long for a poke.
        self.stream.write_all(&frame)
    }

    /// Looks at what came; only the first thing counts.
    pub(super) fn receive(&mut self, now: u64) {
        let mut buffer = [0; 256];
        let received = match self.stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => &[],
            Ok(len) => &buffer[..len],
        };
        if self.outcome == Outcome::NoAnswer && self.sent_at > 0 {
            self.outcome = outcome(received, now - self.sent_at);
        }
    }
}

fn outcome(received: &[u8], after: u64) -> Outcome {
    match Header::parse(received) {
        None => Outcome::Closed { after, code: None },
        Some(frame) if frame.opcode() == CLOSE => {
            let code = received.get(frame.len..).and_then(|payload| payload.first_chunk());
            Outcome::Closed { after, code: code.map(|code| u16::from_be_bytes(*code)) }
        }
        Some(_) => Outcome::Answered { after },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_answers_from_ends() {
        assert_eq!(outcome(&[], 5), Outcome::Closed { after: 5, code: None });
        let code = Some(1011);
        assert_eq!(outcome(&[0x88, 2, 3, 243], 5), Outcome::Closed { after: 5, code });
        assert_eq!(outcome(&[0x81, 1, b'x'], 5), Outcome::Answered { after: 5 });
    }
}

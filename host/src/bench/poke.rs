//! One connection besides that sends one text, to see whether it disturbs the others.

use std::io::{Read, Write};

use plugsock_ws::Kind;

use super::client::End;
use super::clients::Clients;

/// The text, and what became of it.
#[derive(Debug)]
pub(super) struct Poke {
    text: String,
    sent_at: Option<u64>,
    outcome: PokeOutcome,
}

/// What the server made of a poke; times in nanoseconds from sending it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PokeOutcome {
    /// Nothing came.
    NoAnswer,
    /// A message.
    Answered {
        /// After so long.
        after: u64,
    },
    /// The end of the connection.
    Closed {
        /// After so long.
        after: u64,
        /// That of the close frame, if there was one.
        code: Option<u16>,
    },
}

impl Poke {
    pub(super) fn new(text: String) -> Self {
        Self { text, sent_at: None, outcome: PokeOutcome::NoAnswer }
    }

    pub(super) fn outcome(&self) -> PokeOutcome {
        self.outcome
    }

    /// Sends the text over this connection, once.
    pub(super) fn send<S: Read + Write>(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        now: u64,
    ) {
        if self.sent_at.is_some() {
            return;
        }
        self.sent_at = Some(now);
        let Some((client, wire)) = clients.get(index) else {
            self.ended(&End::Closed(None, String::new()), now);
            return;
        };
        client.encode(Kind::Text, self.text.as_bytes(), wire);
        if let Err(end) = client.flush() {
            self.ended(&end, now);
        }
    }

    /// Looks at what comes; only the first thing after the text counts.
    pub(super) fn receive<S: Read + Write>(
        &mut self,
        index: usize,
        clients: &mut Clients<S>,
        now: u64,
    ) -> Result<(), End> {
        let Some((client, wire)) = clients.get(index) else {
            return Ok(());
        };
        let mut came = false;
        let ended = client.receive(wire, |_, _| came = true);
        if let Some(at) = self.sent_at
            && came
            && self.outcome == PokeOutcome::NoAnswer
        {
            self.outcome = PokeOutcome::Answered { after: now - at };
        }
        ended.inspect_err(|end| self.ended(end, now))
    }

    fn ended(&mut self, end: &End, now: u64) {
        if self.outcome == PokeOutcome::NoAnswer {
            let code = match end {
                End::Closed(code, _) => *code,
                End::Protocol(_) | End::Socket(_) => None,
            };
            let after = self.sent_at.map_or(0, |at| now - at);
            self.outcome = PokeOutcome::Closed { after, code };
        }
    }
}

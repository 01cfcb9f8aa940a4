//! The connections of one thread, by number.

use std::io::{Read, Write};

use mio::net::TcpStream;
use plugsock_ws::Limits;
use plugsock_ws::deflate::Codec;

use super::client::{Client, End, Wire};
use super::random::Random;

/// The one receive buffer of a thread.
const BUFFER: usize = 256 << 10;

/// More than the generator ever sends in one message.
pub(super) const MAX_MESSAGE: u64 = (1 << 30) + (1 << 20);

/// Connections that count, and behind them those that do not: a publisher, a poke.
#[derive(Debug)]
pub(super) struct Clients<S = TcpStream> {
    slots: Vec<Option<Client<S>>>,
    counted: usize,
    pub(super) wire: Wire,
    losses: Losses,
}

/// Connections that ended early.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    pub(super) count: u64,
    /// Why the first of them did.
    pub(super) first: Option<String>,
}

impl<S: Read + Write> Clients<S> {
    pub(super) fn new(counted: usize) -> Self {
        let limits = Limits { max_frame_size: MAX_MESSAGE, max_message_size: MAX_MESSAGE };
        let (codec, random) = (Codec::default(), Random::new());
        let wire = Wire { buffer: vec![0; BUFFER], limits, codec, random };
        Self { slots: Vec::with_capacity(counted), counted, wire, losses: Losses::default() }
    }

    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// Whether none that counts is left.
    pub(super) fn all_lost(&self) -> bool {
        self.losses.count >= self.counted as u64 && self.counted > 0
    }

    pub(super) fn put(&mut self, index: usize, client: Client<S>) {
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(client);
    }

    /// A connection, unless it is gone, and what all share.
    #[inline]
    pub(super) fn get(&mut self, index: usize) -> Option<(&mut Client<S>, &mut Wire)> {
        match self.slots.get_mut(index) {
            Some(Some(client)) => Some((client, &mut self.wire)),
            _ => None,
        }
    }

    /// Drops a connection that has ended.
    pub(super) fn lose(&mut self, index: usize, end: &End) {
        let gone = self.slots.get_mut(index).and_then(Option::take).is_some();
        if gone && index < self.counted {
            self.losses.count += 1;
            self.losses.first.get_or_insert_with(|| end.to_string());
        }
    }

    /// Takes leave of all servers. What they answer is of no interest any more.
    pub(super) fn close(mut self) {
        for client in self.slots.iter_mut().flatten() {
            client.say_goodbye(&mut self.wire.random);
        }
    }
}

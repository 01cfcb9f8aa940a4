//! What one turn of a shard brought for the workers.

use crate::types::{ConnectionId, Kind, PluginId};

/// One buffer with the payloads, and who they belong to.
///
/// Costs no allocation per message: the buffers grow to what a turn needs and are used again.
#[derive(Debug, Default)]
pub struct Batch {
    payloads: Vec<u8>,
    events: Vec<Event>,
    runs: Vec<Run>,
    singles: bool,
}

/// Consecutive events of one connection: `start..end` in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Whose events.
    pub conn: ConnectionId,
    /// Whom they are for.
    pub plugin: PluginId,
    pub(super) sequence: Sequence,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// What must not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// The events of one connection (`instances = "pool"`).
    Connection,
    /// All events of the plugin (`instances = "single"`).
    Plugin,
}

/// One event, and where its bytes stand in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub(super) what: Happening,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The upgrade is complete.
    Open,
    /// A whole message; its payload are the event's bytes.
    Message(Kind),
    /// It is gone, with this code (RFC 6455 §7.1.5); the event's bytes are the reason, in UTF-8.
    Close(u16),
}

impl Batch {
    /// Payload bytes after which a shard hands its batch over in mid-turn: what one slow handler
    /// can keep from being used again.
    pub const FULL_BYTES: usize = 64 * 1024;
    /// Events after which a shard hands its batch over in mid-turn.
    pub const FULL_EVENTS: usize = 512;

    /// Adds the opening of a connection.
    pub fn open(&mut self, conn: ConnectionId, plugin: PluginId, sequence: Sequence) {
        self.push(conn, plugin, sequence, Happening::Open, &[]);
    }

    /// Adds a message.
    pub fn message(
        &mut self,
        conn: ConnectionId,
        plugin: PluginId,
        sequence: Sequence,
        kind: Kind,
        payload: &[u8],
    ) {
        self.push(conn, plugin, sequence, Happening::Message(kind), payload);
    }

    /// Adds the end of a connection.
    pub fn close(
        &mut self,
        conn: ConnectionId,
        plugin: PluginId,
        sequence: Sequence,
        code: u16,
        reason: &str,
    ) {
        self.push(conn, plugin, sequence, Happening::Close(code), reason.as_bytes());
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "a batch is handed over at 64 KiB or after one message, and those stay below 4 GiB"
    )]
    fn push(
        &mut self,
        conn: ConnectionId,
        plugin: PluginId,
        sequence: Sequence,
        what: Happening,
        bytes: &[u8],
    ) {
        let at = self.payloads.len() as u32;
        self.payloads.extend_from_slice(bytes);
        let index = self.events.len() as u32;
        self.events.push(Event { what, at, len: bytes.len() as u32 });
        self.singles |= sequence == Sequence::Plugin;
        match self.runs.last_mut() {
            Some(run) if run.conn == conn => run.end = index + 1,
            _ => self.runs.push(Run { conn, plugin, sequence, start: index, end: index + 1 }),
        }
    }

    /// Whether it should be handed over before the turn ends.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.events.len() >= Self::FULL_EVENTS || self.payloads.len() >= Self::FULL_BYTES
    }

    /// Whether there is nothing to hand over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Events in it: messages, openings and ends alike.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.events.len()
    }

    /// Payload bytes in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payloads.len()
    }

    /// Whom it is for; a plugin may be named several times.
    pub fn plugins(&self) -> impl Iterator<Item = PluginId> {
        self.runs.iter().map(|run| run.plugin)
    }

    pub(super) fn has_single(&self) -> bool {
        self.singles
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(super) fn events(&self, run: &Run) -> impl Iterator<Item = (Happening, &[u8])> {
        let events = &self.events[run.start as usize..run.end as usize];
        events.iter().map(|event| {
            let at = event.at as usize;
            (event.what, &self.payloads[at..at + event.len as usize])
        })
    }

    /// Whether a large message has made its buffer larger than is kept for later use.
    pub(super) fn is_oversized(&self) -> bool {
        self.payloads.capacity() > 4 * Self::FULL_BYTES
    }

    /// Empties it for the next turn. A buffer that one large message blew up is given back.
    pub(super) fn clear(&mut self) {
        self.payloads.clear();
        self.events.clear();
        self.runs.clear();
        self.singles = false;
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.payloads.capacity()
    }
}

//! A batch of effects for one shard.

use crate::types::{ConnectionId, PluginId};

/// One buffer with frames, names and reasons, and what to do with them, in order.
#[derive(Debug, Default)]
pub struct Commit {
    /// What the entries' ranges point into.
    pub bytes: Vec<u8>,
    /// In the order in which they were asked for.
    pub entries: Vec<Entry>,
}

/// One effect. `at` and `len` are a range of the commit's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Whole encoded frames for one connection.
    Send {
        /// The receiver.
        conn: ConnectionId,
        /// Where the frames begin.
        at: u32,
        /// Their length.
        len: u32,
    },
    /// A whole message for one connection whose shard has to compress it with what was sent before:
    /// the range is the message as plain frames, then, unless `deflated` is 0, as frames
    /// compressed on their own.
    Message {
        /// The receiver.
        conn: ConnectionId,
        /// Where the plain frames begin.
        at: u32,
        /// Their length.
        len: u32,
        /// The length of the compressed frames.
        deflated: u32,
    },
    /// Start of the closing handshake; the range is the reason.
    Close {
        /// Which connection.
        conn: ConnectionId,
        /// The close code.
        code: u16,
        /// Where the reason begins.
        at: u32,
        /// Its length, at most 123.
        len: u8,
    },
    /// So many of the connection's events have been handled: it may send more.
    Handled {
        /// Which connection.
        conn: ConnectionId,
        /// Events.
        events: u32,
        /// Their payload bytes.
        bytes: u32,
    },
    /// The connection's end has been handled, its last event.
    Finished {
        /// Which connection.
        conn: ConnectionId,
    },
    /// The connection joins a channel; the range is the name.
    Subscribe {
        /// Which connection.
        conn: ConnectionId,
        /// Where the name begins.
        at: u32,
        /// Its length.
        len: u8,
    },
    /// The connection leaves a channel; the range is the name.
    Unsubscribe {
        /// Which connection.
        conn: ConnectionId,
        /// Where the name begins.
        at: u32,
        /// Its length.
        len: u8,
    },
    /// A message for all subscribers; the range is the name, behind it the message as plain frames,
    /// then, unless `deflated` is 0, as compressed ones.
    Publish {
        /// Who is left out.
        except: Option<ConnectionId>,
        /// Whose channel.
        plugin: PluginId,
        /// Length of the name.
        name: u8,
        /// Where the name begins.
        at: u32,
        /// Length of the plain frames.
        len: u32,
        /// The length of the compressed frames.
        deflated: u32,
    },
    /// A message for all connections of a plugin, encoded as for [`Entry::Publish`].
    Broadcast {
        /// Whose connections.
        plugin: PluginId,
        /// Where the plain frames begin.
        at: u32,
        /// Their length.
        len: u32,
        /// The length of the compressed frames.
        deflated: u32,
    },
    /// A plain HTTP response, after which the connection ends.
    Respond {
        /// Which connection.
        conn: ConnectionId,
        /// Where the response begins.
        at: u32,
        /// Its length.
        len: u32,
    },
}

impl Entry {
    /// The shard that it concerns, or none where it concerns all.
    #[must_use]
    pub fn shard(&self) -> Option<usize> {
        match self {
            Self::Send { conn, .. }
            | Self::Message { conn, .. }
            | Self::Close { conn, .. }
            | Self::Handled { conn, .. }
            | Self::Finished { conn }
            | Self::Subscribe { conn, .. }
            | Self::Unsubscribe { conn, .. }
            | Self::Respond { conn, .. } => Some(conn.shard()),
            Self::Publish { .. } | Self::Broadcast { .. } => None,
        }
    }

    /// Its range of the commit's bytes: start and length.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        match *self {
            Self::Send { at, len, .. } | Self::Respond { at, len, .. } => (at, len),
            Self::Message { at, len, deflated, .. } | Self::Broadcast { at, len, deflated, .. } => {
                (at, len + deflated)
            }
            Self::Close { at, len, .. }
            | Self::Subscribe { at, len, .. }
            | Self::Unsubscribe { at, len, .. } => (at, u32::from(len)),
            Self::Publish { at, name, len, deflated, .. } => (at, u32::from(name) + len + deflated),
            Self::Handled { .. } | Self::Finished { .. } => (0, 0),
        }
    }

    /// The same effect with its range beginning at `start`.
    #[must_use]
    pub fn moved_to(mut self, start: u32) -> Self {
        match &mut self {
            Self::Send { at, .. }
            | Self::Message { at, .. }
            | Self::Broadcast { at, .. }
            | Self::Respond { at, .. }
            | Self::Close { at, .. }
            | Self::Subscribe { at, .. }
            | Self::Unsubscribe { at, .. }
            | Self::Publish { at, .. } => *at = start,
            Self::Handled { .. } | Self::Finished { .. } => {}
        }
        self
    }
}

impl Commit {
    /// Consecutive frames for one connection are one entry up to this size, so that they leave in
    /// one write; it is also what a slow consumer's policy drops at a time.
    const JOINED: u32 = 16 * 1024;
    /// A buffer that grew beyond this is not used again.
    const KEPT: usize = 1024 * 1024;

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where the next bytes will stand.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "Effects stops a call at 64 MiB, and Outgoing a commit at 1 MiB plus one call"
    )]
    pub fn end(&self) -> u32 {
        self.bytes.len() as u32
    }

    /// Appends frames of `len` bytes that the caller has just put at `at`, the end of the bytes.
    pub fn push_send(&mut self, conn: ConnectionId, at: u32, len: u32) {
        if let Some(Entry::Send { conn: last, at: start, len: length }) = self.entries.last_mut()
            && *last == conn
            && *start + *length == at
            && *length + len <= Self::JOINED
        {
            *length += len;
            return;
        }
        self.entries.push(Entry::Send { conn, at, len });
    }

    /// Appends one effect of another commit.
    pub fn push_from(&mut self, other: &[u8], entry: Entry) {
        let (at, len) = entry.range();
        let start = self.end();
        self.bytes.extend_from_slice(&other[at as usize..(at + len) as usize]);
        match entry {
            Entry::Send { conn, len, .. } => self.push_send(conn, start, len),
            entry => self.entries.push(entry.moved_to(start)),
        }
    }

    /// Empties it for its next use.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > Self::KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_in_a_row_for_one_connection_become_one_write() {
        let (a, b) = (ConnectionId::new(0, 1, 1), ConnectionId::new(0, 2, 1));
        let mut effects = Commit::default();
        for (conn, text) in [(a, "one"), (a, "two"), (b, "three"), (a, "four")] {
            let at = effects.end();
            effects.bytes.extend_from_slice(text.as_bytes());
            effects.push_send(conn, at, effects.end() - at);
        }
        let mut commit = Commit::default();
        for entry in &effects.entries {
            commit.push_from(&effects.bytes, *entry);
        }
        assert_eq!(
            commit.entries,
            [
                Entry::Send { conn: a, at: 0, len: 6 },
                Entry::Send { conn: b, at: 6, len: 5 },
                Entry::Send { conn: a, at: 11, len: 4 },
            ]
        );
        assert_eq!(commit.bytes, b"onetwothreefour");
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 32, "{}", size_of::<Entry>());
    }
}

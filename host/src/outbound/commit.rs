//! A batch of effects for one shard.

use crate::types::{ConnectionId, PluginId};

/// One buffer with frames, one with names and reasons, and what to do with them, in order.
#[derive(Debug, Default)]
pub struct Commit {
    /// Whole frames. Those of publishes in a row stand side by side, so that they leave each
    /// subscriber as one range.
    pub bytes: Vec<u8>,
    /// Names of channels, and reasons of closes.
    pub names: Vec<u8>,
    /// In the order in which they were asked for.
    pub entries: Vec<Entry>,
}

/// A range of a commit's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    at: u32,
    len: u8,
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
    /// Start of the closing handshake.
    Close {
        /// Which connection.
        conn: ConnectionId,
        /// The close code.
        code: u16,
        /// At most 123 bytes.
        reason: Name,
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
    /// The connection joins a channel.
    Subscribe {
        /// Which connection.
        conn: ConnectionId,
        /// Of which name.
        channel: Name,
    },
    /// The connection leaves a channel.
    Unsubscribe {
        /// Which connection.
        conn: ConnectionId,
        /// Of which name.
        channel: Name,
    },
    /// A message for all subscribers: the range is the message as plain frames, then, unless
    /// `deflated` is 0, as compressed ones.
    Publish {
        /// Who is left out.
        except: ConnectionId,
        /// Whose channel.
        plugin: PluginId,
        /// Of which name.
        channel: Name,
        /// Where the plain frames begin.
        at: u32,
        /// Their length.
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
            Self::Message { at, len, deflated, .. }
            | Self::Broadcast { at, len, deflated, .. }
            | Self::Publish { at, len, deflated, .. } => (at, len + deflated),
            Self::Close { .. }
            | Self::Subscribe { .. }
            | Self::Unsubscribe { .. }
            | Self::Handled { .. }
            | Self::Finished { .. } => (0, 0),
        }
    }

    fn name_mut(&mut self) -> Option<&mut Name> {
        match self {
            Self::Close { reason, .. } => Some(reason),
            Self::Subscribe { channel, .. }
            | Self::Unsubscribe { channel, .. }
            | Self::Publish { channel, .. } => Some(channel),
            _ => None,
        }
    }

    fn at_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Send { at, .. }
            | Self::Message { at, .. }
            | Self::Broadcast { at, .. }
            | Self::Respond { at, .. }
            | Self::Publish { at, .. } => Some(at),
            _ => None,
        }
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

    /// Keeps a name or a reason; `None` where it has more than 255 bytes.
    pub fn put_name(&mut self, name: &str) -> Option<Name> {
        let len = u8::try_from(name.len()).ok()?;
        let at = u32::try_from(self.names.len()).ok()?;
        self.names.extend_from_slice(name.as_bytes());
        Some(Name { at, len })
    }

    /// A name or a reason.
    #[must_use]
    pub fn name(&self, name: Name) -> &str {
        let start = name.at as usize;
        let bytes = self.names.get(start..start + usize::from(name.len)).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }

    /// Appends one effect of another commit.
    pub fn push_from(&mut self, other: &Self, mut entry: Entry) {
        let (at, len) = entry.range();
        let start = self.end();
        self.bytes.extend_from_slice(&other.bytes[at as usize..(at + len) as usize]);
        if let Entry::Send { conn, len, .. } = entry {
            return self.push_send(conn, start, len);
        }
        if let Some(at) = entry.at_mut() {
            *at = start;
        }
        if let Some(name) = entry.name_mut()
            && let Some(moved) = self.put_name(other.name(*name))
        {
            *name = moved;
        }
        self.entries.push(entry);
    }

    /// Empties it for its next use.
    pub fn clear(&mut self) {
        if self.bytes.capacity() > Self::KEPT {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.names.clear();
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
            commit.push_from(&effects, *entry);
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
    fn publishes_in_a_row_stand_side_by_side_and_keep_their_names() {
        let mut effects = Commit::default();
        for (name, text) in [("tea", "one"), ("", "two"), ("coffee", "three")] {
            let channel = effects.put_name(name).unwrap();
            let (at, len) = (effects.end(), u32::try_from(text.len()).unwrap());
            effects.bytes.extend_from_slice(text.as_bytes());
            let (except, plugin) = (ConnectionId::NOBODY, PluginId(1));
            effects.entries.push(Entry::Publish { except, plugin, channel, at, len, deflated: 0 });
        }
        assert_eq!(effects.put_name(&"x".repeat(256)), None);
        let mut commit = Commit { names: b"before".to_vec(), ..Commit::default() };
        effects.entries.iter().for_each(|entry| commit.push_from(&effects, *entry));
        assert_eq!(commit.bytes, b"onetwothree");
        let name_of = |entry: &Entry| match entry {
            Entry::Publish { channel, .. } => commit.name(*channel).to_owned(),
            _ => panic!("not a publish"),
        };
        let names: Vec<String> = commit.entries.iter().map(name_of).collect();
        assert_eq!(names, ["tea", "", "coffee"]);
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 32, "{}", size_of::<Entry>());
    }
}

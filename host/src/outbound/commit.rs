//! A batch of effects for one shard.

use crate::types::{ConnectionId, PluginId};

/// Buffers with frames, with names and reasons, and what to do with them, in order.
#[derive(Debug, Default)]
pub struct Commit {
    /// Whole frames. Those of publishes in a row stand side by side, so that they leave each
    /// subscriber as one range.
    pub bytes: Vec<u8>,
    /// The same for subscribers that inflate: messages compressed on their own.
    pub deflated: Vec<u8>,
    /// Messages that may be in both.
    pub messages: Vec<Forms>,
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

/// Where in a commit the forms of a message are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// Where its plain frames begin.
    pub at: u32,
    /// Their length.
    pub len: u32,
    /// Where its compressed frames begin.
    pub deflated_at: u32,
    /// Their length; 0 if there are none.
    pub deflated: u32,
}

/// One effect. `at` and `len` are a range of the commit's bytes, `message` is the number of one of
/// its messages.
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
    /// A message for one connection whose shard has to compress it with what was sent before,
    /// unless there is a compressed form.
    Message {
        /// The receiver.
        conn: ConnectionId,
        /// Which message.
        message: u32,
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
    /// A message for all subscribers.
    Publish {
        /// Who is left out.
        except: ConnectionId,
        /// Whose channel.
        plugin: PluginId,
        /// Of which name.
        channel: Name,
        /// Which message.
        message: u32,
    },
    /// A message for all connections of a plugin.
    Broadcast {
        /// Whose connections.
        plugin: PluginId,
        /// Which message.
        message: u32,
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

    fn name_mut(&mut self) -> Option<&mut Name> {
        match self {
            Self::Close { reason, .. } => Some(reason),
            Self::Subscribe { channel, .. }
            | Self::Unsubscribe { channel, .. }
            | Self::Publish { channel, .. } => Some(channel),
            _ => None,
        }
    }

    fn message_mut(&mut self) -> Option<&mut u32> {
        match self {
            Self::Message { message, .. }
            | Self::Publish { message, .. }
            | Self::Broadcast { message, .. } => Some(message),
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
    pub fn end(&self) -> u32 {
        end(&self.bytes)
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

    /// Appends a message, of which `write` appends the plain form to the first buffer and perhaps a
    /// compressed one to the second. Returns its number.
    pub fn put_message(&mut self, write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> u32 {
        let (at, deflated_at) = (self.end(), end(&self.deflated));
        write(&mut self.bytes, &mut self.deflated);
        let (len, deflated) = (self.end() - at, end(&self.deflated) - deflated_at);
        self.messages.push(Forms { at, len, deflated_at, deflated });
        end(&self.messages) - 1
    }

    /// A message's plain frames.
    #[must_use]
    pub fn plain(&self, message: Forms) -> &[u8] {
        slice(&self.bytes, message.at, message.len)
    }

    /// Bytes of frames, of all forms.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len() + self.deflated.len()
    }

    /// Appends one effect of another commit.
    pub fn push_from(&mut self, other: &Self, mut entry: Entry) {
        if let Entry::Send { at, len, .. } | Entry::Respond { at, len, .. } = &mut entry {
            let start = self.end();
            self.bytes.extend_from_slice(slice(&other.bytes, *at, *len));
            *at = start;
        }
        if let Entry::Send { conn, at, len } = entry {
            return self.push_send(conn, at, len);
        }
        if let Some(message) = entry.message_mut() {
            let forms = other.messages[*message as usize];
            *message = self.put_message(|plain, deflated| {
                plain.extend_from_slice(other.plain(forms));
                deflated.extend_from_slice(slice(
                    &other.deflated,
                    forms.deflated_at,
                    forms.deflated,
                ));
            });
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
        for buffer in [&mut self.bytes, &mut self.deflated] {
            if buffer.capacity() > Self::KEPT {
                *buffer = Vec::new();
            }
            buffer.clear();
        }
        self.messages.clear();
        self.names.clear();
        self.entries.clear();
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Effects stops a call at 64 MiB, and Outgoing a commit at 1 MiB plus one call"
)]
fn end<T>(buffer: &[T]) -> u32 {
    buffer.len() as u32
}

fn slice(bytes: &[u8], at: u32, len: u32) -> &[u8] {
    &bytes[at as usize..(at + len) as usize]
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
    fn publishes_in_a_row_stand_side_by_side_in_both_forms_and_keep_their_names() {
        let mut effects = Commit::default();
        for (name, text, short) in [("tea", "one", "1"), ("", "two", ""), ("coffee", "three", "3")]
        {
            let channel = effects.put_name(name).unwrap();
            let message = effects.put_message(|plain, deflated| {
                plain.extend_from_slice(text.as_bytes());
                deflated.extend_from_slice(short.as_bytes());
            });
            let (except, plugin) = (ConnectionId::NOBODY, PluginId(1));
            effects.entries.push(Entry::Publish { except, plugin, channel, message });
        }
        assert_eq!(effects.put_name(&"x".repeat(256)), None);
        let mut commit = Commit { names: b"before".to_vec(), ..Commit::default() };
        let before = commit.put_message(|plain, _| plain.extend_from_slice(b"0"));
        effects.entries.iter().for_each(|entry| commit.push_from(&effects, *entry));
        assert_eq!((before, &commit.bytes[..]), (0, &b"0onetwothree"[..]));
        assert_eq!((&commit.deflated[..], commit.size()), (&b"13"[..], 14));
        let seen: Vec<(&str, &[u8], &[u8])> = commit
            .entries
            .iter()
            .map(|entry| match *entry {
                Entry::Publish { channel, message, .. } => {
                    let forms = commit.messages[message as usize];
                    let deflated = slice(&commit.deflated, forms.deflated_at, forms.deflated);
                    (commit.name(channel), commit.plain(forms), deflated)
                }
                _ => panic!("not a publish"),
            })
            .collect();
        let expected: [(&str, &[u8], &[u8]); 3] =
            [("tea", b"one", b"1"), ("", b"two", b""), ("coffee", b"three", b"3")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn an_entry_stays_small() {
        assert!(size_of::<Entry>() <= 24, "{}", size_of::<Entry>());
    }
}

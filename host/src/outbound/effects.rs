//! What one call of a handler has asked for so far.

use std::sync::Arc;

use plugsock_ws::close;

use super::encoder::Encoder;
use super::{Coding, Commit, Encoding, Entry, Name, Outgoing, Shared};
use crate::types::{ConnectionId, Kind, Message, PluginId, Request};

/// Bytes of messages, names and reasons that one call may ask for, unless one message is larger.
const BUDGET_BYTES: usize = 16 * 1024 * 1024;
/// Effects that one call may ask for.
const BUDGET_EFFECTS: usize = 65_536;
/// Bytes of a message that a shard compresses itself, with what was sent before; larger ones are
/// compressed on their own by the worker, so that the shard is not held up.
pub const MAX_BY_SHARD: usize = 64 * 1024;
/// Bytes of a channel's name, at most.
const MAX_CHANNEL: usize = 255;
/// Bytes of an attachment, at most.
const MAX_ATTACHMENT: usize = 16 * 1024;

/// Collects a call's effects; nothing leaves before [`Outgoing::absorb`] takes them.
#[derive(Debug)]
pub struct Effects {
    shared: Arc<Shared>,
    plugin: PluginId,
    encoder: Encoder,
    pub(super) commit: Commit,
    pub(super) attachments: Vec<(ConnectionId, Arc<[u8]>)>,
}

/// Why an effect was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection is closed, closing, or another plugin's.
    NotOpen,
    /// Larger than its limit.
    TooLarge,
    /// The call's budget of effects is used up.
    OverBudget,
    /// Not a close code that an application may send.
    InvalidCode,
}

impl Effects {
    /// Empty.
    #[must_use]
    pub fn new(shared: Arc<Shared>, encoding: Encoding) -> Self {
        let (encoder, commit) = (Encoder::new(encoding), Commit::default());
        Self { shared, plugin: PluginId(0), encoder, commit, attachments: Vec::new() }
    }

    /// Empties it for a call of this plugin.
    pub fn begin(&mut self, plugin: PluginId) {
        self.plugin = plugin;
        self.clear();
    }

    /// Forgets all that was asked for: the call failed.
    pub fn clear(&mut self) {
        self.commit.clear();
        self.attachments.clear();
    }

    /// One message to one connection.
    ///
    /// # Errors
    /// [`Refused::NotOpen`] and the limits.
    pub fn send(&mut self, conn: ConnectionId, kind: Kind, payload: &[u8]) -> Result<(), Refused> {
        let coding = self.shared.directory.coding(conn, self.plugin).ok_or(Refused::NotOpen)?;
        self.check_message(payload)?;
        let at = self.commit.end();
        match coding {
            Coding::ByShard(bits) if self.encoder.is_worth_it(payload) => {
                let encoder = &mut self.encoder;
                let message = self.commit.put_message(|plain, deflated| {
                    encoder.plain(kind, payload, plain);
                    if payload.len() > MAX_BY_SHARD {
                        encoder.deflated(kind, payload, bits, deflated);
                    }
                });
                self.commit.entries.push(Entry::Message { conn, message });
                return Ok(());
            }
            Coding::Alone(bits) => {
                let out = &mut self.commit.bytes;
                if !self.encoder.deflated(kind, payload, bits, out) {
                    self.encoder.plain(kind, payload, out);
                }
            }
            Coding::Plain | Coding::ByShard(_) => {
                self.encoder.plain(kind, payload, &mut self.commit.bytes);
            }
        }
        self.commit.push_send(conn, at, self.commit.end() - at);
        Ok(())
    }

    /// The closing handshake, behind all that was sent before.
    ///
    /// # Errors
    /// [`Refused::NotOpen`], [`Refused::InvalidCode`], and [`Refused::TooLarge`] for a reason of
    /// more than 123 bytes.
    pub fn close(&mut self, conn: ConnectionId, code: u16, reason: &str) -> Result<(), Refused> {
        self.check_open(conn)?;
        if !close::is_valid_on_wire(code) {
            return Err(Refused::InvalidCode);
        }
        if reason.len() > close::MAX_REASON_SIZE {
            return Err(Refused::TooLarge);
        }
        let reason = self.put_name(reason)?;
        self.commit.entries.push(Entry::Close { conn, code, reason });
        Ok(())
    }

    /// Membership in a channel.
    ///
    /// # Errors
    /// [`Refused::NotOpen`], and [`Refused::TooLarge`] for a name of 0 or over 255 bytes.
    pub fn subscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), Refused> {
        self.check_open(conn)?;
        let channel = self.put_channel(channel)?;
        self.commit.entries.push(Entry::Subscribe { conn, channel });
        Ok(())
    }

    /// The end of a membership.
    ///
    /// # Errors
    /// As [`Effects::subscribe`].
    pub fn unsubscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), Refused> {
        self.check_open(conn)?;
        let channel = self.put_channel(channel)?;
        self.commit.entries.push(Entry::Unsubscribe { conn, channel });
        Ok(())
    }

    /// One message to all subscribers but `except`.
    ///
    /// # Errors
    /// The limits.
    pub fn publish(
        &mut self,
        channel: &str,
        message: Message<'_>,
        except: Option<ConnectionId>,
    ) -> Result<(), Refused> {
        self.check_message(message.payload)?;
        let channel = self.put_channel(channel)?;
        let message = self.put_forms(message);
        let (except, plugin) = (except.unwrap_or(ConnectionId::NOBODY), self.plugin);
        self.commit.entries.push(Entry::Publish { except, plugin, channel, message });
        Ok(())
    }

    /// One message to all connections of the plugin.
    ///
    /// # Errors
    /// The limits.
    pub fn broadcast(&mut self, message: Message<'_>) -> Result<(), Refused> {
        self.check_message(message.payload)?;
        let message = self.put_forms(message);
        self.commit.entries.push(Entry::Broadcast { plugin: self.plugin, message });
        Ok(())
    }

    /// Replaces the connection's attachment.
    ///
    /// # Errors
    /// [`Refused::NotOpen`], and [`Refused::TooLarge`] above 16 KiB.
    pub fn set_attachment(&mut self, conn: ConnectionId, bytes: &[u8]) -> Result<(), Refused> {
        self.check_open(conn)?;
        if bytes.len() > MAX_ATTACHMENT {
            return Err(Refused::TooLarge);
        }
        if self.attachments.len() >= BUDGET_EFFECTS / 64 {
            return Err(Refused::OverBudget);
        }
        self.attachments.push((conn, Arc::from(bytes)));
        Ok(())
    }

    /// The attachment as this call has left it.
    #[must_use]
    pub fn attachment(&self, conn: ConnectionId) -> Option<Vec<u8>> {
        let own = self.attachments.iter().rev().find(|(of, _)| *of == conn);
        match own {
            Some((_, bytes)) => Some(bytes.to_vec()),
            None => self.shared.notes.get(conn, self.plugin).attachment.map(|bytes| bytes.to_vec()),
        }
    }

    /// The request that opened the connection.
    #[must_use]
    pub fn upgrade_request(&self, conn: ConnectionId) -> Option<Arc<Request>> {
        self.shared.notes.get(conn, self.plugin).request
    }

    /// Bytes in the connection's outbox; 0 for another plugin's.
    #[must_use]
    pub fn buffered(&self, conn: ConnectionId) -> u64 {
        let own = self.shared.directory.is_open(conn, self.plugin);
        if own { u64::from(self.shared.directory.buffered(conn)) } else { 0 }
    }

    /// Subscribers on this host.
    #[must_use]
    pub fn subscribers(&self, channel: &str) -> u64 {
        self.shared.members.count(self.plugin, channel)
    }

    /// Lets all that was asked for leave now.
    pub fn flush(&mut self) {
        let mut outgoing = Outgoing::new(Arc::clone(&self.shared));
        outgoing.absorb(self);
        outgoing.post();
    }

    fn check_open(&self, conn: ConnectionId) -> Result<(), Refused> {
        let open = self.shared.directory.is_open(conn, self.plugin);
        if open { Ok(()) } else { Err(Refused::NotOpen) }
    }

    fn check_message(&self, payload: &[u8]) -> Result<(), Refused> {
        if payload.len() > self.encoder.max_message_size() {
            return Err(Refused::TooLarge);
        }
        self.check_budget(payload.len())
    }

    /// Appends the message plain and, if somebody can use it, compressed on its own.
    fn put_forms(&mut self, message: Message<'_>) -> u32 {
        let Message { kind, payload, kept } = message;
        let inflated = self.shared.directory.anyone_inflates(self.plugin);
        let encoder = &mut self.encoder;
        self.commit.put_message(|plain, deflated| {
            encoder.plain(kind, payload, plain);
            match kept {
                _ if !inflated => {}
                None => drop(encoder.shared(kind, payload, deflated)),
                Some(kept) => deflated.extend_from_slice(kept.get_or_make(|out| {
                    encoder.shared(kind, payload, out);
                })),
            }
        })
    }

    fn put_channel(&mut self, name: &str) -> Result<Name, Refused> {
        if name.is_empty() || name.len() > MAX_CHANNEL {
            return Err(Refused::TooLarge);
        }
        self.put_name(name)
    }

    fn put_name(&mut self, name: &str) -> Result<Name, Refused> {
        self.check_budget(name.len())?;
        self.commit.put_name(name).ok_or(Refused::TooLarge)
    }

    fn check_budget(&self, bytes: usize) -> Result<(), Refused> {
        let most = BUDGET_BYTES.max(self.encoder.max_message_size());
        let Commit { names, entries, .. } = &self.commit;
        let used = self.commit.size() + names.len();
        let fits = used + bytes <= most && entries.len() < BUDGET_EFFECTS;
        if fits { Ok(()) } else { Err(Refused::OverBudget) }
    }
}

#[cfg(test)]
mod tests {
    use plugsock_ws::deflate::Settings;
    use plugsock_ws::extension::WindowBits;

    use super::*;
    use crate::outbound::{Compression, Forms};
    use crate::types::Kept;

    const PLUGIN: PluginId = PluginId(1);

    fn effects() -> (Effects, ConnectionId) {
        let shared = Shared::new(1, 2);
        let conn = ConnectionId::new(0, 1, 1);
        shared.directory.open(conn, PLUGIN, Coding::Plain);
        shared.notes.begin(conn, PLUGIN, None);
        let encoding =
            Encoding { max_message_size: 1_000, fragment_size: 65_536, compression: None };
        let mut effects = Effects::new(shared, encoding);
        effects.begin(PLUGIN);
        (effects, conn)
    }

    #[test]
    fn limits_hold_at_the_limit_and_one_past_it() {
        let (mut effects, conn) = effects();
        assert_eq!(effects.send(conn, Kind::Text, &[b'x'; 1_000]), Ok(()));
        assert_eq!(effects.send(conn, Kind::Text, &[b'x'; 1_001]), Err(Refused::TooLarge));
        assert_eq!(effects.close(conn, 1000, &"r".repeat(123)), Ok(()));
        assert_eq!(effects.close(conn, 1000, &"r".repeat(124)), Err(Refused::TooLarge));
        for code in [0, 999, 1004, 1005, 1006, 1015, 2999, 5000] {
            assert_eq!(effects.close(conn, code, ""), Err(Refused::InvalidCode), "{code}");
        }
        assert_eq!(effects.subscribe(conn, &"c".repeat(255)), Ok(()));
        assert_eq!(effects.subscribe(conn, &"c".repeat(256)), Err(Refused::TooLarge));
        assert_eq!(effects.subscribe(conn, ""), Err(Refused::TooLarge));
        assert_eq!(effects.set_attachment(conn, &[0; 16 * 1024]), Ok(()));
        assert_eq!(effects.set_attachment(conn, &[0; 16 * 1024 + 1]), Err(Refused::TooLarge));
        assert_eq!(effects.attachment(conn).map(|bytes| bytes.len()), Some(16 * 1024));
    }

    #[test]
    fn what_is_kept_of_a_message_is_its_compressed_form() {
        let (shared, conn) = (Shared::new(1, 2), ConnectionId::new(0, 1, 1));
        shared.directory.open(conn, PLUGIN, Coding::Plain);
        let window_bits = WindowBits::MAX;
        let compression = Compression { settings: Settings::default(), window_bits, threshold: 8 };
        let encoding = Encoding {
            max_message_size: 1_000,
            fragment_size: 65_536,
            compression: Some(compression),
        };
        let mut effects = Effects::new(Arc::clone(&shared), encoding);
        effects.begin(PLUGIN);
        let payload = b"all the same, all the same, all the same";
        let kept = Kept::default();
        let message = Message { kept: Some(&kept), ..Message::new(Kind::Text, payload) };
        effects.broadcast(message).unwrap();
        assert!(kept.is_empty(), "nobody can inflate");
        shared.directory.open(ConnectionId::new(0, 2, 1), PLUGIN, Coding::Alone(window_bits));
        for message in [Message::new(Kind::Text, payload), message, message] {
            effects.broadcast(message).unwrap();
        }
        let Commit { messages, deflated, .. } = &effects.commit;
        let form = |forms: &Forms| {
            let start = forms.deflated_at as usize;
            &deflated[start..start + forms.deflated as usize]
        };
        let forms: Vec<&[u8]> = messages.iter().map(form).collect();
        let [plain, once, first, second] = forms[..] else { panic!("{forms:?}") };
        assert!(plain.is_empty() && !once.is_empty());
        assert_eq!((first, second), (once, once));
        assert_eq!(kept.len(), once.len());
    }

    #[test]
    fn a_stranger_is_never_reached() {
        let (mut effects, conn) = effects();
        let strangers = [ConnectionId::new(0, 1, 2), ConnectionId::from_u64(u64::MAX)];
        for stranger in strangers {
            assert_eq!(effects.send(stranger, Kind::Text, b"x"), Err(Refused::NotOpen));
        }
        effects.begin(PluginId(0));
        assert_eq!(effects.send(conn, Kind::Text, b"x"), Err(Refused::NotOpen));
        assert!(effects.commit.is_empty());
    }

    #[test]
    fn a_flood_meets_the_budget_and_a_refused_publish_leaves_no_bytes() {
        let (mut effects, conn) = effects();
        let mut taken = 0;
        while effects.send(conn, Kind::Binary, &[0; 1_000]).is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 16 * 1024 * 1024 / 1_004, "frames of 1,004 bytes");
        let before = effects.commit.bytes.len();
        let publish = effects.publish("room", Message::new(Kind::Text, &[b'x'; 1_001]), None);
        assert_eq!(publish, Err(Refused::TooLarge));
        assert_eq!(effects.commit.bytes.len(), before);
    }
}

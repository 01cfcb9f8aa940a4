use std::fmt;

use crate::{AsMessage, CloseCode, CloseError, EffectError, MessageRef, Request, host};

/// One client's connection. A copy is as good as the original; it may be kept after the
/// connection is gone, which only makes its methods fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection(u64);

impl Connection {
    /// The connection with this id. The host checks on use that it exists and is this plugin's.
    #[must_use]
    pub const fn from_id(id: u64) -> Self {
        Self(id)
    }

    /// Unique for the life of the host process and never used again.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.0
    }

    /// Sends one message: text from `&str` and `String`, binary from bytes, a [`Message`] as it
    /// is. The bytes go to the host without a copy in the plugin.
    ///
    /// # Errors
    ///
    /// [`EffectError`] where the host does not take the message.
    ///
    /// [`Message`]: crate::Message
    pub fn send(self, message: impl AsMessage) -> Result<(), EffectError> {
        host::send(self.0, message.as_message())
    }

    /// Sends one text message.
    ///
    /// # Errors
    ///
    /// As [`send`](Connection::send).
    pub fn send_text(self, text: &str) -> Result<(), EffectError> {
        host::send(self.0, MessageRef::Text(text))
    }

    /// Sends one binary message.
    ///
    /// # Errors
    ///
    /// As [`send`](Connection::send).
    pub fn send_binary(self, bytes: &[u8]) -> Result<(), EffectError> {
        host::send(self.0, MessageRef::Binary(bytes))
    }

    /// Starts the closing handshake (RFC 6455 §7.1.2) after everything sent so far. The reason
    /// has at most 123 bytes.
    ///
    /// # Errors
    ///
    /// [`CloseError`] where the connection is not open or the frame would not be valid.
    pub fn close(self, code: impl Into<CloseCode>, reason: &str) -> Result<(), CloseError> {
        host::close(self.0, code.into().get(), reason)
    }

    /// Adds the connection to a channel, whose name has 1 to 255 bytes. Idempotent.
    ///
    /// # Errors
    ///
    /// [`EffectError`] where the connection is not open or the name is not valid.
    pub fn subscribe(self, channel: &str) -> Result<(), EffectError> {
        host::subscribe(self.0, channel)
    }

    /// Takes the connection out of a channel. Idempotent. A connection that closes leaves its
    /// channels by itself.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Connection::subscribe).
    pub fn unsubscribe(self, channel: &str) -> Result<(), EffectError> {
        host::unsubscribe(self.0, channel)
    }

    /// The HTTP request that opened the connection; `None` once `on_close` has returned.
    #[must_use]
    pub fn upgrade_request(self) -> Option<Request> {
        host::upgrade_request(self.0)
    }

    /// Bytes that belong to the connection and live in the host, whichever instance serves it.
    /// A handler sees what it set itself. `None` where nothing was set, and once `on_close` has
    /// returned.
    #[must_use]
    pub fn attachment(self) -> Option<Vec<u8>> {
        host::attachment(self.0)
    }

    /// Replaces the attachment; at most 16 KiB.
    ///
    /// # Errors
    ///
    /// [`EffectError`] where the connection is not open or the attachment is too large.
    pub fn set_attachment(self, attachment: &[u8]) -> Result<(), EffectError> {
        host::set_attachment(self.0, attachment)
    }

    /// Bytes that wait to be written to the connection, without those that the running handler
    /// sends; 0 once it is gone.
    #[must_use]
    pub fn buffered(self) -> u64 {
        host::buffered(self.0)
    }
}

/// In hexadecimal digits, as in the host's log.
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_printed_as_the_host_prints_it() {
        let conn = Connection::from_id(0x0100_0002_0000_0003);
        assert_eq!(conn.to_string(), "100000200000003");
        assert_eq!(format!("{conn:?}"), "Connection(100000200000003)");
    }
}

//! What a guest may ask of the host while one of its handlers runs.

use std::sync::Arc;

use crate::types::{ConnectionId, Kind, Message, Request};

/// Answers a guest's imports during one call.
///
/// The module above implements it: this one knows WebAssembly and no connections. What changes
/// something outside is only collected; it takes effect when the handler has returned.
pub trait Host: Send + 'static {
    /// Sends one message to a connection.
    ///
    /// # Errors
    /// [`EffectError::NotOpen`] for a connection that is gone or another plugin's, and the limits.
    fn send(&mut self, conn: ConnectionId, kind: Kind, payload: &[u8]) -> Result<(), EffectError>;

    /// Starts the closing handshake behind everything sent so far.
    ///
    /// # Errors
    /// See [`CloseError`].
    fn close(&mut self, conn: ConnectionId, code: u16, reason: &str) -> Result<(), CloseError>;

    /// The request that opened the connection, while it is open.
    fn upgrade_request(&mut self, conn: ConnectionId) -> Option<Arc<Request>>;

    /// The connection's attachment, as this call sees it.
    fn attachment(&mut self, conn: ConnectionId) -> Option<Vec<u8>>;

    /// Replaces the attachment.
    ///
    /// # Errors
    /// [`EffectError::NotOpen`], and [`EffectError::TooLarge`] above 16 KiB.
    fn set_attachment(&mut self, conn: ConnectionId, bytes: &[u8]) -> Result<(), EffectError>;

    /// Bytes that wait to be written to the connection.
    fn buffered(&mut self, conn: ConnectionId) -> u64;

    /// Adds a connection to a channel; once is enough.
    ///
    /// # Errors
    /// [`EffectError::NotOpen`], and [`EffectError::TooLarge`] for a name of 0 or over 255 bytes.
    fn subscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError>;

    /// Takes a connection out of a channel.
    ///
    /// # Errors
    /// As [`Host::subscribe`].
    fn unsubscribe(&mut self, conn: ConnectionId, channel: &str) -> Result<(), EffectError>;

    /// Sends one message to every subscriber of a channel but `except`.
    ///
    /// # Errors
    /// The limits.
    fn publish(
        &mut self,
        channel: &str,
        message: Message<'_>,
        except: Option<ConnectionId>,
    ) -> Result<(), EffectError>;

    /// Sends one message to every connection of this plugin.
    ///
    /// # Errors
    /// The limits.
    fn broadcast(&mut self, message: Message<'_>) -> Result<(), EffectError>;

    /// Subscribers of a channel on this host, as of the last commit.
    fn subscribers(&mut self, channel: &str) -> u64;

    /// Lets everything asked for so far take effect now, whatever becomes of the call.
    fn flush(&mut self);

    /// A call that cannot be suspended computes for longer than a tick, and still does at each tick
    /// after that: whatever waits for its thread should go elsewhere.
    fn overdue(&mut self) {}
}

/// Why the host did not take an effect. The call goes on; other effects stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectError {
    /// The connection is closed, closing, or not one of this plugin's.
    NotOpen,
    /// Larger than the host's limit for a message, a name or an attachment.
    TooLarge,
    /// This call's budget of effects is used up.
    OverBudget,
}

/// Why the host did not take a close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseError {
    /// The connection is closed, closing, or not one of this plugin's.
    NotOpen,
    /// Not a code that an application may send (RFC 6455 §7.4).
    InvalidCode,
    /// More than 123 bytes.
    ReasonTooLong,
    /// This call's budget of effects is used up.
    OverBudget,
}

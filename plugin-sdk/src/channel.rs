use crate::{AsMessage, Connection, EffectError, host};

/// A named group of connections, known to this plugin only. It exists while it has subscribers;
/// [`Connection::subscribe`] makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel<'a> {
    name: &'a str,
}

impl<'a> Channel<'a> {
    /// The channel with this name, of 1 to 255 bytes. The host checks it on use.
    #[must_use]
    pub const fn new(name: &'a str) -> Self {
        Self { name }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'a str {
        self.name
    }

    /// Sends one message to every subscriber.
    ///
    /// # Errors
    ///
    /// [`EffectError`] where the host does not take the message.
    pub fn publish(self, message: impl AsMessage) -> Result<(), EffectError> {
        host::publish(self.name, message.as_message(), None)
    }

    /// Sends one message to every subscriber but `except`.
    ///
    /// # Errors
    ///
    /// As [`publish`](Channel::publish).
    pub fn publish_except(
        self,
        message: impl AsMessage,
        except: Connection,
    ) -> Result<(), EffectError> {
        host::publish(self.name, message.as_message(), Some(except.id()))
    }

    /// As [`publish`](Channel::publish), without encoding the message again.
    ///
    /// # Errors
    ///
    /// As [`publish`](Channel::publish).
    pub fn publish_frame(self, frame: &Frame) -> Result<(), EffectError> {
        host::publish_frame(self.name, &frame.0, None)
    }

    /// As [`publish_except`](Channel::publish_except), without encoding the message again.
    ///
    /// # Errors
    ///
    /// As [`publish`](Channel::publish).
    pub fn publish_frame_except(
        self,
        frame: &Frame,
        except: Connection,
    ) -> Result<(), EffectError> {
        host::publish_frame(self.name, &frame.0, Some(except.id()))
    }

    /// Subscribers on this host. Not counted are other hosts of a cluster, and what the running
    /// handler itself subscribes or unsubscribes.
    #[must_use]
    pub fn subscribers(self) -> u64 {
        host::subscribers(self.name)
    }
}

/// A message encoded once by the host, to be sent many times. It pays from the second use on.
///
/// Frames count against the instance's memory limit, and an instance holds at most 1024 of them:
/// one more is a trap.
#[derive(Debug)]
pub struct Frame(host::Frame);

impl Frame {
    /// Encodes a message. One that is too large is refused where it is sent.
    #[must_use]
    pub fn new(message: impl AsMessage) -> Self {
        Self(host::frame(message.as_message()))
    }
}

/// Sends one message to every connection of this plugin's routes.
///
/// # Errors
///
/// [`EffectError`] where the host does not take the message.
pub fn broadcast(message: impl AsMessage) -> Result<(), EffectError> {
    host::broadcast(message.as_message())
}

/// As [`broadcast`], without encoding the message again.
///
/// # Errors
///
/// As [`broadcast`].
pub fn broadcast_frame(frame: &Frame) -> Result<(), EffectError> {
    host::broadcast_frame(&frame.0)
}

/// Everything that the running handler asked for so far takes effect now, whatever becomes of
/// the handler.
pub fn flush() {
    host::flush();
}

/// One complete WebSocket message (RFC 6455 §5.6), owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// UTF-8, opcode 1.
    Text(String),
    /// Any bytes, opcode 2.
    Binary(Vec<u8>),
}

impl Message {
    /// The text; `None` for a binary message, even where its bytes are UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Binary(_) => None,
        }
    }

    /// The payload of either kind.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// A message that is borrowed for the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageRef<'a> {
    /// UTF-8, opcode 1.
    Text(&'a str),
    /// Any bytes, opcode 2.
    Binary(&'a [u8]),
}

/// What can be sent: strings as text, bytes as binary, a [`Message`] as what it is, and
/// references to all of these.
pub trait AsMessage {
    /// The message, without a copy.
    fn as_message(&self) -> MessageRef<'_>;
}

impl AsMessage for Message {
    fn as_message(&self) -> MessageRef<'_> {
        match self {
            Self::Text(text) => MessageRef::Text(text),
            Self::Binary(bytes) => MessageRef::Binary(bytes),
        }
    }
}

impl AsMessage for MessageRef<'_> {
    fn as_message(&self) -> MessageRef<'_> {
        *self
    }
}

impl AsMessage for str {
    fn as_message(&self) -> MessageRef<'_> {
        MessageRef::Text(self)
    }
}

impl AsMessage for String {
    fn as_message(&self) -> MessageRef<'_> {
        MessageRef::Text(self)
    }
}

impl AsMessage for [u8] {
    fn as_message(&self) -> MessageRef<'_> {
        MessageRef::Binary(self)
    }
}

impl<const N: usize> AsMessage for [u8; N] {
    fn as_message(&self) -> MessageRef<'_> {
        MessageRef::Binary(self)
    }
}

impl AsMessage for Vec<u8> {
    fn as_message(&self) -> MessageRef<'_> {
        MessageRef::Binary(self)
    }
}

impl<T: AsMessage + ?Sized> AsMessage for &T {
    fn as_message(&self) -> MessageRef<'_> {
        (**self).as_message()
    }
}

impl From<MessageRef<'_>> for Message {
    fn from(message: MessageRef<'_>) -> Self {
        match message {
            MessageRef::Text(text) => Self::Text(text.to_owned()),
            MessageRef::Binary(bytes) => Self::Binary(bytes.to_vec()),
        }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Self::Binary(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Binary(bytes)
    }
}

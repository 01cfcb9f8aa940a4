//! What goes to many receivers.

use std::cell::OnceCell;

use plugsock_ws::Kind;

/// A message to be published or broadcast.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Text or binary.
    pub kind: Kind,
    /// Text is valid UTF-8.
    pub payload: &'a [u8],
    /// Of a message that is sent more than once: where its compressed form is kept.
    pub kept: Option<&'a Kept>,
}

impl<'a> Message<'a> {
    /// A message that is sent once.
    #[must_use]
    pub fn new(kind: Kind, payload: &'a [u8]) -> Self {
        Self { kind, payload, kept: None }
    }
}

/// The compressed form of one message, made when somebody first needs it.
#[derive(Debug, Default)]
pub struct Kept(OnceCell<Box<[u8]>>);

impl Kept {
    /// The compressed form; `make` appends it, or nothing where it would not be shorter.
    pub fn get_or_make(&self, make: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.0.get_or_init(|| {
            let mut bytes = Vec::new();
            make(&mut bytes);
            bytes.into()
        })
    }

    /// Bytes that are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.get().map_or(0, |bytes| bytes.len())
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

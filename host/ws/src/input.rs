//! A cursor over the bytes of one receive.

use std::ops::Range;

use crate::mask;

/// The bytes of one receive, consumed frame by frame and unmasked in place.
///
/// It also owns the payload of the latest event where that was gathered over several receives, so
/// the connection itself owns nothing once a message is complete.
#[derive(Debug)]
pub struct Input<'a> {
    bytes: &'a mut [u8],
    position: usize,
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    InPlace(Range<usize>),
    Gathered(Vec<u8>),
}

impl<'a> Input<'a> {
    /// A cursor at the start of `bytes`. Consumed bytes are overwritten by unmasking, the others
    /// stay as they came.
    pub const fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, position: 0, payload: Payload::InPlace(0..0) }
    }

    /// The number of bytes that were parsed.
    pub const fn consumed(&self) -> usize {
        self.position
    }

    /// Whether all bytes were parsed.
    pub const fn is_empty(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// The bytes still to be parsed, as they came. Feed them again later to go on.
    pub fn remaining(&self) -> &[u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// The payload of the latest complete frame or message.
    pub(crate) fn payload(&self) -> &[u8] {
        match &self.payload {
            Payload::InPlace(range) => self.bytes.get(range.clone()).unwrap_or_default(),
            Payload::Gathered(bytes) => bytes,
        }
    }

    /// Takes up to `len` payload bytes and unmasks them. `offset` is their place in the frame.
    pub(crate) fn take(&mut self, len: u64, key: Option<[u8; 4]>, offset: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.remaining().len());
        let range = self.position..self.position + len;
        self.position = range.end;
        self.payload = Payload::InPlace(range.clone());
        let bytes = self.bytes.get_mut(range).unwrap_or_default();
        if let Some(key) = key {
            mask::apply(key, offset, bytes);
        }
        bytes
    }

    /// Steps over `len` bytes, at most to the end.
    pub(crate) fn skip(&mut self, len: usize) {
        self.position += len.min(self.remaining().len());
    }

    /// Steps over all that is left; nothing of it will be parsed.
    pub(crate) const fn discard(&mut self) {
        self.position = self.bytes.len();
    }

    /// Makes `payload` the latest payload.
    pub(crate) fn give(&mut self, payload: Vec<u8>) {
        self.payload = Payload::Gathered(payload);
    }
}

//! What a connection keeps from one receive to the next: an incomplete frame or message.

use crate::deflate::Inflation;
use crate::frame::{CONTROL, Header, MAX_HEADER_SIZE, Opcode, Role};
use crate::{Error, Input, Kind, Limits, utf8};

/// An incomplete frame, an incomplete message, or both; or a complete message, alone, that is not
/// yet inflated.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) stage: Stage,
    /// The received part of a control frame's payload, unmasked; at most 125 bytes.
    pub(crate) control: Vec<u8>,
    pub(crate) message: Option<Message>,
    pub(crate) inflation: Option<Box<Inflation>>,
}

/// How far the current frame has come.
#[derive(Debug, Default)]
pub(crate) enum Stage {
    /// Between two frames.
    #[default]
    Boundary,
    Header {
        bytes: [u8; MAX_HEADER_SIZE],
        len: usize,
    },
    Payload {
        header: Header,
        received: u64,
    },
}

/// A message of which frames are still to come.
#[derive(Debug)]
pub(crate) struct Message {
    kind: Kind,
    /// Its bytes are to be inflated.
    compressed: bool,
    bytes: Vec<u8>,
    /// How many of the bytes are known to be valid UTF-8.
    valid: usize,
    empty_fragments: u16,
    /// Bytes that came, with [`MAX_HEADER_SIZE`] for each frame.
    received: u64,
    /// Nobody will read it: only its framing counts.
    dropped: bool,
}

impl Partial {
    /// Reads a frame's header, part of which may have come before. `None` if it is still not
    /// complete; then all input is used up and kept.
    pub(crate) fn header(
        &mut self,
        role: Role,
        compression: bool,
        input: &mut Input<'_>,
    ) -> Result<Option<Header>, Error> {
        let (mut bytes, before) = match self.stage {
            Stage::Header { bytes, len } => (bytes, len),
            Stage::Boundary | Stage::Payload { .. } => ([0; MAX_HEADER_SIZE], 0),
        };
        let mut len = before;
        for (to, from) in bytes.iter_mut().skip(before).zip(input.remaining()) {
            *to = *from;
            len += 1;
        }
        match Header::parse_as(role, compression, bytes.get(..len).unwrap_or_default())? {
            Some((header, size)) => {
                input.skip(size.saturating_sub(before));
                self.stage = Stage::Boundary;
                Ok(Some(header))
            }
            None => {
                input.skip(len - before);
                self.stage = Stage::Header { bytes, len };
                Ok(None)
            }
        }
    }

    /// Stops keeping the message's bytes, and frees those that were kept.
    pub(crate) fn drop_message(&mut self) {
        if let Some(message) = &mut self.message {
            message.dropped = true;
            message.bytes = Vec::new();
        }
    }

    /// How much has come of a message, or of a frame's header; `None` if there is none. Grows with
    /// each byte of it; control frames do not count.
    pub(crate) fn received(&self) -> Option<u64> {
        let header = match &self.stage {
            Stage::Header { bytes: [first, ..], len } if first & CONTROL == 0 => Some(*len as u64),
            Stage::Boundary | Stage::Header { .. } | Stage::Payload { .. } => None,
        };
        match (&self.message, header) {
            (None, None) => None,
            (message, header) => {
                let message = message.as_ref().map_or(0, |message| message.received);
                Some(message + header.unwrap_or(0))
            }
        }
    }

    /// Bytes on the heap, this structure included.
    pub(crate) fn size(&self) -> usize {
        let message = self.message.as_ref().map_or(0, |message| message.bytes.capacity());
        let inflation = self.inflation.as_ref().map_or(0, |inflation| inflation.size());
        size_of::<Self>() + self.control.capacity() + message + inflation
    }
}

impl Message {
    /// A message that begins with the frame `header`, which is text or binary.
    pub(crate) const fn new(header: &Header, dropped: bool) -> Self {
        let kind = if matches!(header.opcode, Opcode::Text) { Kind::Text } else { Kind::Binary };
        let compressed = header.compressed;
        let bytes = Vec::new();
        Self { kind, compressed, bytes, valid: 0, empty_fragments: 0, received: 0, dropped }
    }

    /// Appends payload bytes of the frame `header`, which will bring `rest` more.
    pub(crate) fn append(&mut self, header: &Header, bytes: &[u8], rest: u64) -> Result<(), Error> {
        let came = bytes.len() as u64;
        let first = came + rest == header.len;
        self.received += came + if first { MAX_HEADER_SIZE as u64 } else { 0 };
        if header.len == 0 && !header.fin {
            self.empty_fragments += 1;
            if self.empty_fragments > Limits::MAX_EMPTY_FRAGMENTS {
                return Err(Error::TooManyEmptyFragments);
            }
        }
        if self.dropped {
            return Ok(());
        }
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(header.fin, bytes.len(), rest);
        }
        self.bytes.extend_from_slice(bytes);
        if self.kind == Kind::Text && !self.compressed {
            self.valid = utf8::check(&self.bytes, self.valid)?;
        }
        Ok(())
    }

    /// Makes room for `len` bytes. Capacity doubles, so it stays below twice what was received;
    /// in the last frame it goes no further than the message will.
    fn grow(&mut self, last: bool, len: usize, rest: u64) {
        let double = len.max(self.bytes.len());
        let room = if last {
            double.min(len.saturating_add(usize::try_from(rest).unwrap_or(usize::MAX)))
        } else {
            double
        };
        self.bytes.reserve_exact(room);
    }

    /// Whether it is still to be inflated.
    pub(crate) const fn is_compressed(&self) -> bool {
        self.compressed && !self.dropped
    }

    /// The whole message. Fails if text ends inside a code point.
    pub(crate) fn finish(self) -> Result<(Kind, Vec<u8>), Error> {
        let checked = self.kind == Kind::Text && !self.dropped && !self.compressed;
        if checked && self.valid < self.bytes.len() {
            return Err(Error::InvalidUtf8);
        }
        Ok((self.kind, self.bytes))
    }

    /// Bytes received and kept.
    pub(crate) const fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}

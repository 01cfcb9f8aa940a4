//! From a message to frames, once for all receivers that take the same.

use plugsock_ws::deflate::{Codec, Settings};
use plugsock_ws::extension::WindowBits;
use plugsock_ws::{fragment, frame};

use crate::types::Kind;

/// How messages leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Bytes of a message, at most.
    pub max_message_size: usize,
    /// Bytes of a frame's payload, at most; at least 1.
    pub fragment_size: usize,
    /// Where clients are let compress.
    pub compression: Option<Compression>,
}

/// How messages are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// How hard it is tried.
    pub settings: Settings,
    /// The window for frames that many receive. Who agreed to less gets them plain.
    pub window_bits: WindowBits,
    /// Smaller messages are sent as they are.
    pub threshold: usize,
}

/// One thread's encoder. Its compressors take memory when they are first needed.
#[derive(Debug)]
pub(super) struct Encoder {
    encoding: Encoding,
    codec: Codec,
}

impl Encoder {
    pub(super) fn new(encoding: Encoding) -> Self {
        let settings = encoding.compression.as_ref().map(|compression| compression.settings);
        Self { encoding, codec: settings.map_or_else(Codec::default, Codec::new) }
    }

    pub(super) fn max_message_size(&self) -> usize {
        self.encoding.max_message_size
    }

    /// Appends the message as it is.
    pub(super) fn plain(&self, kind: Kind, payload: &[u8], out: &mut Vec<u8>) {
        if payload.len() <= self.encoding.fragment_size {
            frame::encode(kind, payload, out);
        } else {
            fragment::encode(kind, false, payload, self.encoding.fragment_size, out);
        }
    }

    /// Appends the message compressed on its own. False, and nothing is appended, if it is too
    /// small for that or would not shrink.
    pub(super) fn deflated(
        &mut self,
        kind: Kind,
        payload: &[u8],
        window_bits: WindowBits,
        out: &mut Vec<u8>,
    ) -> bool {
        if !self.is_worth_it(payload) {
            return false;
        }
        let Some(compressed) = self.codec.compressor(window_bits).compress(payload) else {
            return false;
        };
        let shrinks = compressed.len() < payload.len();
        if shrinks {
            fragment::encode(kind, true, compressed, self.encoding.fragment_size, out);
        }
        shrinks
    }

    /// As [`Encoder::deflated`], for the many.
    pub(super) fn shared(&mut self, kind: Kind, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let bits = self.encoding.compression.as_ref().map(|compression| compression.window_bits);
        bits.is_some_and(|bits| self.deflated(kind, payload, bits, out))
    }

    /// Whether the message reaches the threshold.
    pub(super) fn is_worth_it(&self, payload: &[u8]) -> bool {
        let compression = self.encoding.compression.as_ref();
        compression.is_some_and(|compression| payload.len() >= compression.threshold)
    }
}

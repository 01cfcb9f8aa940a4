//! Where a machine and compression meet: context takeover, and messages in and out.

use std::borrow::Cow;

use super::{Found, Kind, Limits, Machine};
use crate::assemble::Partial;
use crate::deflate::{Codec, Context, History, Inflated, Inflation};
use crate::extension::WindowBits;
use crate::frame::{self, Role};
use crate::{Error, Input};

/// The messages that later ones may refer to.
#[derive(Debug, Default)]
pub(super) struct Takeover {
    received: History,
    sent: History,
}

impl Machine {
    /// Whether a step left a message half inflated: then [`next_with`](Self::next_with) has work
    /// without any input.
    pub fn is_working(&self) -> bool {
        self.partial.as_ref().is_some_and(|partial| partial.inflation.is_some())
    }

    /// Compresses a message for the peer; the result is the payload of frames of which the first
    /// has RSV1 set. With context takeover all such payloads must be sent, in this order.
    ///
    /// `None` if there is no agreement or the message would not shrink: send it as it is. An
    /// empty message becomes one octet.
    pub fn compress<'c>(&mut self, message: &[u8], codec: &'c mut Codec) -> Option<&'c [u8]> {
        let agreement = self.agreement?;
        let compressor = codec.compressor(agreement.window_bits(self.role));
        if !agreement.context_takeover(self.role) {
            let compressed = compressor.compress(message);
            return compressed.filter(|compressed| frame::is_worth_it(compressed, message));
        }
        let sent = &mut self.takeover.get_or_insert_default().sent;
        let compressed = compressor.compress_after(sent.bytes(), message)?;
        if !frame::is_worth_it(compressed, message) {
            return None;
        }
        sent.push(message, agreement.window_bits(self.role).size());
        Some(compressed)
    }

    /// Appends one frame that is a whole message, [compressed](Self::compress) where that makes
    /// it shorter. Returns whether it is compressed.
    ///
    /// `key` is `None` for a server and a new random masking key for a client.
    pub fn encode(
        &mut self,
        kind: Kind,
        message: &[u8],
        codec: &mut Codec,
        out: &mut Vec<u8>,
        key: Option<[u8; 4]>,
    ) -> bool {
        let compressed = self.compress(message, codec);
        let payload = compressed.unwrap_or(message);
        frame::encode_message(kind, compressed.is_some(), payload, key, out);
        compressed.is_some()
    }

    /// Whether the peer can inflate what a compressor with a window of `window_bits` made, such
    /// as a frame that was [encoded once](frame::encode_compressed) for many.
    pub fn takes(&self, window_bits: WindowBits) -> bool {
        self.agreement.is_some_and(|agreement| window_bits <= agreement.window_bits(self.role))
    }

    /// Notes that a frame was sent that was compressed elsewhere, of this message. Due at once
    /// and for every such frame: the peer's window moved on by it, and later references of ours
    /// would hit the wrong bytes. Without context takeover it does nothing.
    pub fn record_sent(&mut self, message: &[u8]) {
        if let Some(agreement) = self.agreement
            && agreement.context_takeover(self.role)
        {
            let window = agreement.window_bits(self.role).size();
            self.takeover.get_or_insert_default().sent.push(message, window);
        }
    }

    /// Bytes on the heap that this connection holds for context takeover.
    pub fn history_bytes(&self) -> usize {
        self.takeover.as_ref().map_or(0, |takeover| {
            size_of::<Takeover>() + takeover.received.size() + takeover.sent.size()
        })
    }

    /// The first step of a message that is whole: `payload`, or what lies in the input.
    pub(super) fn inflate(
        &mut self,
        kind: Kind,
        payload: Option<Vec<u8>>,
        limits: &Limits,
        input: &mut Input<'_>,
        codec: &mut Codec,
    ) -> Result<Found, Error> {
        let payload = payload.map_or(Cow::Borrowed(input.payload()), Cow::Owned);
        let inflated = Inflation::begin(kind, payload, &mut self.context(limits, codec))?;
        Ok(self.settle(kind, inflated, input, codec))
    }

    /// The next step of a message.
    pub(super) fn go_on(
        &mut self,
        inflation: Box<Inflation>,
        limits: &Limits,
        input: &mut Input<'_>,
        codec: &mut Codec,
    ) -> Result<Found, Error> {
        let kind = inflation.kind();
        let inflated = inflation.go_on(&mut self.context(limits, codec))?;
        Ok(self.settle(kind, inflated, input, codec))
    }

    fn context<'c>(&'c self, limits: &Limits, codec: &'c mut Codec) -> Context<'c> {
        let history = self.takeover.as_ref().map(|takeover| takeover.received.bytes());
        Context { codec, history: history.unwrap_or_default(), limit: limits.max_message_size }
    }

    fn settle(
        &mut self,
        kind: Kind,
        inflated: Inflated,
        input: &mut Input<'_>,
        codec: &Codec,
    ) -> Found {
        match inflated {
            Inflated::Short(len) => {
                self.record_received(codec.written(len));
                Found::Inflated(kind, len)
            }
            Inflated::Long(message) => {
                self.record_received(&message);
                input.give(message);
                Found::Frame(kind.into())
            }
            Inflated::Working(inflation) => {
                let inflation = Some(inflation);
                self.partial = Some(Box::new(Partial { inflation, ..Partial::default() }));
                Found::Working
            }
        }
    }

    fn record_received(&mut self, message: &[u8]) {
        let Some(agreement) = self.agreement else { return };
        let sender = match self.role {
            Role::Server => Role::Client,
            Role::Client => Role::Server,
        };
        if agreement.context_takeover(sender) {
            // Many a zlib that agreed to 8 bits uses 9.
            let window = agreement.window_bits(sender).max(WindowBits::MIN_TO_COMPRESS);
            self.takeover.get_or_insert_default().received.push(message, window.size());
        }
    }
}

//! Messages out: each connection gets the form of a message that it can read.

use std::borrow::Cow;

use plugsock_ws::deflate::Codec;
use plugsock_ws::frame::Opcode;
use plugsock_ws::{Kind, fragment};

use super::Turn;
use super::output::{Pieces, Source};
use super::phase::{Conn, Phase};
use crate::outbound::MAX_BY_SHARD;

/// A whole message in a commit: plain frames, and behind them perhaps compressed ones.
#[derive(Clone, Copy, Debug)]
pub struct Variants<'a> {
    /// The number of the commit in this turn.
    pub commit: u32,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where the plain frames begin.
    pub at: u32,
    /// Their length.
    pub len: u32,
    /// The length of the frames that were compressed on their own; 0 if there are none.
    pub deflated: u32,
}

impl Conn {
    /// Notes a message for the end of the turn, in the form that was made for all. False where it
    /// is sent nothing any more.
    pub fn push_shared(&mut self, message: Variants<'_>, pieces: &mut Pieces) -> bool {
        if !self.may_send() {
            return false;
        }
        let Phase::Open(session) = &self.phase else { return false };
        if message.deflated > 0 && session.compressing.takes_shared {
            self.push_deflated(message, pieces);
        } else {
            self.queue.push(pieces, Source::Commit(message.commit), message.at, message.len);
        }
        true
    }

    /// Notes a message in the compressed form that was made without what was sent before.
    fn push_deflated(&mut self, message: Variants<'_>, pieces: &mut Pieces) {
        let Phase::Open(session) = &mut self.phase else { return };
        if session.keeps_context() {
            // The peer's window moves on by the message, so ours must.
            for (_, payload) in fragment::frames(message.plain()) {
                session.machine.record_sent(payload);
            }
        }
        let (source, at) = (Source::Commit(message.commit), message.at + message.len);
        self.queue.push(pieces, source, at, message.deflated);
    }

    /// Notes a message for the end of the turn, compressed with what was sent before.
    pub fn push_own(
        &mut self,
        message: Variants<'_>,
        fragment_size: usize,
        pieces: &mut Pieces,
        codec: &mut Codec,
    ) {
        if !self.may_send() {
            return;
        }
        if message.deflated > 0 {
            return self.push_deflated(message, pieces);
        }
        let Phase::Open(session) = &mut self.phase else { return };
        let compressed = message
            .content()
            .and_then(|(kind, payload)| Some((kind, session.machine.compress(&payload, codec)?)));
        match compressed {
            Some((kind, compressed)) => pieces.put(&mut self.queue, Source::Scratch, |out| {
                fragment::encode(kind, true, compressed, fragment_size, out);
            }),
            None => {
                let source = Source::Commit(message.commit);
                self.queue.push(pieces, source, message.at, message.len);
            }
        }
    }

    /// Sends a message back without a plugin.
    pub(super) fn echo(&mut self, kind: Kind, payload: &[u8], turn: &mut Turn<'_>) {
        let Phase::Open(session) = &mut self.phase else { return };
        let config = &turn.env.config;
        let threshold = config.compression.as_ref().map(|compression| compression.threshold);
        let compressed = match threshold {
            // More at once would keep the shard's other connections waiting.
            Some(threshold) if (threshold..=MAX_BY_SHARD).contains(&payload.len()) => {
                session.machine.compress(payload, turn.codec)
            }
            _ => None,
        };
        turn.pieces.put(&mut self.queue, Source::Scratch, |out| {
            let content = compressed.unwrap_or(payload);
            fragment::encode(kind, compressed.is_some(), content, config.fragment_size, out);
        });
    }
}

impl<'a> Variants<'a> {
    fn plain(&self) -> &'a [u8] {
        &self.bytes[self.at as usize..(self.at + self.len) as usize]
    }

    /// The message itself.
    fn content(&self) -> Option<(Kind, Cow<'a, [u8]>)> {
        let mut frames = fragment::frames(self.plain());
        let (header, payload) = frames.next()?;
        let kind = if header.opcode == Opcode::Text { Kind::Text } else { Kind::Binary };
        let mut payload = Cow::Borrowed(payload);
        for (_, part) in frames {
            payload.to_mut().extend_from_slice(part);
        }
        Some((kind, payload))
    }
}

//! Messages out: each connection gets the form of a message that it can read.

use std::borrow::Cow;

use plugsock_ws::deflate::Codec;
use plugsock_ws::frame::Opcode;
use plugsock_ws::{Kind, fragment};

use super::Turn;
use super::output::{Pieces, Source};
use super::phase::{Conn, Phase};
use crate::outbound::{Commit, Forms, MAX_BY_SHARD};

/// A message in a commit, for some or many.
#[derive(Clone, Copy, Debug)]
pub struct Parcel<'a> {
    /// The commit's number in this turn.
    pub number: u32,
    /// The commit.
    pub commit: &'a Commit,
    /// Where in it the message is.
    pub forms: Forms,
}

impl Conn {
    /// Notes a message for the end of the turn, in the form that was made for all. False where it
    /// is sent nothing any more.
    pub fn push_shared(&mut self, message: Parcel<'_>, pieces: &mut Pieces) -> bool {
        if !self.may_send() {
            return false;
        }
        let Phase::Open(session) = &self.phase else { return false };
        if message.forms.deflated > 0 && session.compressing.takes_shared {
            self.push_deflated(message, pieces);
        } else {
            self.push_plain(message, pieces);
        }
        true
    }

    /// Notes a message in the compressed form that was made without what was sent before.
    fn push_deflated(&mut self, message: Parcel<'_>, pieces: &mut Pieces) {
        let Phase::Open(session) = &mut self.phase else { return };
        if session.keeps_context() {
            // The peer's window moves on by the message, so ours must.
            for (_, payload) in fragment::frames(message.plain()) {
                session.machine.record_sent(payload);
            }
        }
        let Forms { deflated_at, deflated, .. } = message.forms;
        self.queue.push(pieces, Source::Deflated(message.number), deflated_at, deflated);
    }

    fn push_plain(&mut self, message: Parcel<'_>, pieces: &mut Pieces) {
        let Forms { at, len, .. } = message.forms;
        self.queue.push(pieces, Source::Commit(message.number), at, len);
    }

    /// Notes a message for the end of the turn, compressed with what was sent before.
    pub fn push_own(
        &mut self,
        message: Parcel<'_>,
        fragment_size: usize,
        pieces: &mut Pieces,
        codec: &mut Codec,
    ) {
        if !self.may_send() {
            return;
        }
        if message.forms.deflated > 0 {
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
            None => self.push_plain(message, pieces),
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

impl<'a> Parcel<'a> {
    fn plain(&self) -> &'a [u8] {
        self.commit.plain(self.forms)
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

//! The messages, prepared once.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use crate::frame::{BINARY, FIN, Header, TEXT, write_masked};

/// Bytes of a message's number.
const MARK: usize = 4;

/// The number of a message as the bytes it begins with: 24 bits of it in four ASCII characters.
#[inline]
pub(super) fn mark(number: u32) -> [u8; MARK] {
    let digit = |shift: u32| b'0' + (number >> shift & 0x3f) as u8;
    [digit(0), digit(6), digit(12), digit(18)]
}

/// As many equal frames as one connection has under way; only their marks change.
pub(super) struct Batch {
    frames: Vec<u8>,
    frame_len: usize,
    /// Where in a frame the payload begins.
    payload: usize,
    key: [u8; MARK],
    /// Bytes of a mark that fit into a message.
    marked: usize,
}

impl Batch {
    /// All frames use one random key: a new key per frame is the client's cost, not the server's.
    pub(super) fn new(in_flight: usize, size: usize, text: bool) -> Self {
        let [a, b, c, d, ..] = RandomState::new().build_hasher().finish().to_ne_bytes();
        let key = [a, b, c, d];
        let mut frame = Vec::new();
        write_masked(&mut frame, FIN | opcode(text), key, &vec![b'x'; size]);
        Self {
            frames: frame.repeat(in_flight),
            frame_len: frame.len(),
            payload: Header::parse(&frame).map_or(0, |header| header.len),
            key,
            marked: size.min(MARK),
        }
    }

    /// The frames of `count` messages (at most the number made for) from `first` on.
    #[inline]
    pub(super) fn frames(&mut self, first: u32, count: usize) -> &[u8] {
        let frames = &mut self.frames[..count * self.frame_len];
        let mut number = first;
        for frame in frames.chunks_exact_mut(self.frame_len) {
            let mark = u32::from_ne_bytes(mark(number)) ^ u32::from_ne_bytes(self.key);
            let place = &mut frame[self.payload..self.payload + self.marked];
            place.copy_from_slice(&mark.to_ne_bytes()[..self.marked]);
            number = number.wrapping_add(1);
        }
        frames
    }
}

pub(super) fn opcode(text: bool) -> u8 {
    if text { TEXT } else { BINARY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::echo;

    #[test]
    fn each_message_begins_with_its_number() {
        for size in [0, 1, 3, 4, 5, 200] {
            let mut bytes = Batch::new(3, size, true).frames(64, 2).to_vec();
            let reply = echo(&mut bytes).unwrap().reply;
            let mut reply = &bytes[reply];
            for number in [64, 65] {
                let header = Header::parse(reply).unwrap();
                let mut expected = vec![b'x'; size];
                let marked = size.min(4);
                expected[..marked].copy_from_slice(&mark(number)[..marked]);
                assert_eq!(reply[header.len..header.frame_len()], expected);
                reply = &reply[header.frame_len()..];
            }
            assert!(reply.is_empty());
        }
    }

    #[test]
    fn marks_are_text_and_differ() {
        for number in [0, 1, 63, 64, 0xff_ffff, 0x100_0000, u32::MAX] {
            assert!(mark(number).is_ascii());
            assert_ne!(mark(number), mark(number.wrapping_add(1)));
        }
    }
}

//! The messages, prepared once: only their numbers change.

use plugsock_ws::frame::{self, Opcode};
use plugsock_ws::{Kind, mask};

use super::random::Random;

/// Bytes of a message's number.
const NUMBER: usize = 4;

/// The number of a message as it stands in it: its lowest 24 bits in four ASCII characters.
#[inline]
pub(super) fn digits(number: u32) -> [u8; NUMBER] {
    let digit = |shift: u32| b'0' + (number >> shift & 0x3f) as u8;
    [digit(0), digit(6), digit(12), digit(18)]
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another kind or another length than what was sent.
    Shape,
    /// Another number than the next one of its connection.
    Order,
    /// Other bytes than those that were sent.
    Altered,
}

/// What is in every message: a tag, which may be empty, a number, a filling.
#[derive(Debug)]
pub(super) struct Messages {
    kind: Kind,
    payload: Vec<u8>,
    /// Where in a payload the number begins.
    tag: usize,
    /// Bytes of a number that fit.
    numbered: usize,
    /// Masked frames, as many as one connection sends at once.
    frames: Vec<u8>,
    frame_size: usize,
    /// Bytes of a frame's header.
    header: usize,
    /// The key as it falls on a number.
    key: u32,
}

impl Messages {
    /// `count` frames of `size` bytes of payload, which begins with `tag`. All have one random key:
    /// a new one for each frame would be the generator's cost, not the server's.
    pub(super) fn new(count: u32, size: usize, kind: Kind, tag: &[u8]) -> Self {
        let mut payload = tag.to_vec();
        payload.extend_from_slice(&digits(0));
        payload.extend_from_slice(&filling(size.saturating_sub(payload.len())));
        payload.truncate(size);
        let numbered = size.saturating_sub(tag.len()).min(NUMBER);

        let key = Random::new().key();
        let mut frame = Vec::new();
        frame::encode_masked(Opcode::from(kind), true, &payload, key, &mut frame);
        let mut rotated = [0; NUMBER];
        mask::apply(key, tag.len() as u64, &mut rotated);
        Self {
            kind,
            tag: tag.len(),
            numbered,
            frames: frame.repeat(count as usize),
            frame_size: frame.len(),
            header: frame.len() - payload.len(),
            payload,
            key: u32::from_ne_bytes(rotated),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The masked frames of `count` messages, at most as many as made for, from `first` on.
    #[inline]
    pub(super) fn frames(&mut self, first: u32, count: u32) -> &[u8] {
        let frames = &mut self.frames[..count as usize * self.frame_size];
        let mut number = first;
        for frame in frames.chunks_exact_mut(self.frame_size) {
            let masked = u32::from_ne_bytes(digits(number)) ^ self.key;
            let at = self.header + self.tag;
            // With a constant length this is one store.
            if self.numbered == NUMBER {
                frame[at..at + NUMBER].copy_from_slice(&masked.to_ne_bytes());
            } else {
                let masked = &masked.to_ne_bytes()[..self.numbered];
                frame[at..at + self.numbered].copy_from_slice(masked);
            }
            number = number.wrapping_add(1);
        }
        frames
    }

    /// The payload of one message, to be encoded elsewhere.
    pub(super) fn payload(&mut self, number: u32) -> &[u8] {
        let digits = &digits(number)[..self.numbered];
        self.payload[self.tag..self.tag + self.numbered].copy_from_slice(digits);
        &self.payload
    }

    /// Compares an answer with the message of this number.
    #[inline]
    pub(super) fn judge(&self, kind: Kind, answer: &[u8], number: u32) -> Option<Fault> {
        if kind != self.kind || answer.len() != self.payload.len() {
            return Some(Fault::Shape);
        }
        // The usual case, with as few comparisons as it takes.
        if self.tag == 0
            && let (Some((found, rest)), Some((_, filling))) =
                (answer.split_first_chunk::<NUMBER>(), self.payload.split_first_chunk::<NUMBER>())
            && *found == digits(number)
            && rest == filling
        {
            return None;
        }
        let (tag, rest) = answer.split_at(self.tag);
        let (digits_, filling) = rest.split_at(self.numbered);
        if digits_ != &digits(number)[..self.numbered] {
            return Some(Fault::Order);
        }
        let same = tag == &self.payload[..self.tag]
            && filling == &self.payload[self.tag + self.numbered..];
        (!same).then_some(Fault::Altered)
    }
}

/// A message that was published, as one receiver got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Nothing of ours: somebody joined, perhaps.
    Other,
    /// The next one.
    Right,
    /// The next one, but not as it was sent.
    Wrong(Fault),
    /// One that came before.
    Repeated,
    /// A later one than the next: this is its number in the lowest 24 bits.
    Later(u32),
}

impl Messages {
    /// Looks for what was published in what came. A server may put words before and behind it, such
    /// as the sender's name; the message itself must be whole. `hint` is where the last one began.
    #[inline]
    pub(super) fn delivery(
        &self,
        kind: Kind,
        came: &[u8],
        next: u32,
        hint: &mut usize,
    ) -> Delivery {
        let tag = &self.payload[..self.tag];
        if !came.get(*hint..).is_some_and(|rest| rest.starts_with(tag)) {
            match came.windows(tag.len().max(1)).position(|window| window == tag) {
                Some(at) => *hint = at,
                None => return Delivery::Other,
            }
        }
        let Some(found) = came.get(*hint..*hint + self.payload.len()) else {
            return Delivery::Wrong(Fault::Shape);
        };
        match self.judge(kind, found, next) {
            None => Delivery::Right,
            Some(Fault::Order) => {
                let number = number(&found[self.tag..self.tag + self.numbered]);
                match number.wrapping_sub(next) & 0xff_ffff {
                    ..0x80_0000 => Delivery::Later(number),
                    _ => Delivery::Repeated,
                }
            }
            Some(fault) => Delivery::Wrong(fault),
        }
    }
}

/// The 24 bits that [`digits`] stand for; nonsense for other bytes.
fn number(digits: &[u8]) -> u32 {
    digits
        .iter()
        .rev()
        .fold(0, |number, digit| number << 6 | u32::from(digit.wrapping_sub(b'0') & 0x3f))
}

/// ASCII that compresses about as well as what applications send: to a third.
fn filling(size: usize) -> Vec<u8> {
    const WORDS: [&str; 8] =
        ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven"];
    let mut text = String::with_capacity(size + 64);
    // The same for every run, so that runs can be compared.
    let mut chance = 1_u32;
    while text.len() < size {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (id, word) = (chance >> 8, WORDS[(chance >> 29) as usize]);
        text += &format!("{{\"id\":{id},\"name\":\"{word}\",\"value\":{}.5}},", chance >> 22);
    }
    text.truncate(size);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use plugsock_ws::{Event, Input, Limits, Machine, Role};

    use super::*;

    /// What a server reads out of frames.
    fn unmasked(frames: &[u8]) -> Vec<(Kind, Vec<u8>)> {
        let mut frames = frames.to_vec();
        let mut input = Input::new(&mut frames);
        let mut server = Machine::new(Role::Server);
        let mut found = Vec::new();
        while let Some(event) = server.next(&Limits::default(), &mut input).unwrap() {
            let Event::Message { kind, payload } = event else { panic!("{event:?}") };
            found.push((kind, payload.to_vec()));
        }
        found
    }

    #[test]
    fn each_message_bears_its_number() {
        for tag in ["", "a", "tagged: "] {
            for size in [0, 1, 3, 4, 5, 11, 12, 125, 126, 70_000] {
                let size = size.max(tag.len());
                let mut messages = Messages::new(3, size, Kind::Text, tag.as_bytes());
                let found = unmasked(messages.frames(64, 2));
                assert_eq!(found.len(), 2);
                for ((kind, payload), number) in found.iter().zip(64..) {
                    assert_eq!(payload.len(), size);
                    assert_eq!(messages.judge(*kind, payload, number), None, "{tag} {size}");
                    assert_eq!(payload, messages.payload(number));
                    assert!(payload.is_ascii() && payload.starts_with(tag.as_bytes()));
                }
            }
        }
    }

    #[test]
    fn what_is_not_what_was_sent_is_told() {
        let mut messages = Messages::new(1, 10, Kind::Binary, b"");
        let right = messages.payload(7).to_vec();
        let altered = |at: usize| {
            let mut other = right.clone();
            other[at] ^= 1;
            other
        };
        assert_eq!(messages.judge(Kind::Text, &right, 7), Some(Fault::Shape));
        assert_eq!(messages.judge(Kind::Binary, &right[..9], 7), Some(Fault::Shape));
        assert_eq!(messages.judge(Kind::Binary, &right, 8), Some(Fault::Order));
        assert_eq!(messages.judge(Kind::Binary, &altered(3), 7), Some(Fault::Order));
        assert_eq!(messages.judge(Kind::Binary, &altered(4), 7), Some(Fault::Altered));
        assert_eq!(messages.judge(Kind::Binary, &altered(9), 7), Some(Fault::Altered));
        assert_eq!(messages.judge(Kind::Binary, &right, 7), None);
    }

    #[test]
    fn what_was_published_is_found_among_other_words() {
        let mut messages = Messages::new(1, 40, Kind::Text, b"tag:");
        let right = messages.payload(7).to_vec();
        let mut hint = 0;
        let mut judge = |came: &[u8], next| messages.delivery(Kind::Text, came, next, &mut hint);
        assert_eq!(judge(b"* guest-1 joined, 2 here.", 7), Delivery::Other);
        assert_eq!(judge(b"", 7), Delivery::Other);
        assert_eq!(judge(&right, 7), Delivery::Right);
        let named = [b"guest-1: ", &right[..], b" (edited)"].concat();
        assert_eq!(judge(&named, 7), Delivery::Right);
        assert_eq!(judge(&named, 7), Delivery::Right);
        assert_eq!(judge(&right, 7), Delivery::Right);
        assert_eq!(judge(&named, 8), Delivery::Repeated);
        assert_eq!(judge(&named, 6), Delivery::Later(7));
        assert_eq!(judge(&named, 7 + (1 << 24)), Delivery::Right);
        assert_eq!(judge(&right[..39], 7), Delivery::Wrong(Fault::Shape));
        let mut altered = right.clone();
        altered[39] ^= 1;
        assert_eq!(judge(&altered, 7), Delivery::Wrong(Fault::Altered));
        let binary = messages.delivery(Kind::Binary, &right, 7, &mut hint);
        assert_eq!(binary, Delivery::Wrong(Fault::Shape));
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for value in [0, 1, 63, 64, 4_095, 4_096, 0xff_ffff] {
            assert_eq!(number(&digits(value)), value);
        }
        assert_eq!(number(&digits(0x100_0000)), 0);
    }

    #[test]
    fn numbers_are_text_and_differ_from_their_neighbours() {
        for number in [0, 1, 63, 64, 0xff_ffff, 0x100_0000, u32::MAX] {
            assert!(digits(number).is_ascii());
            assert_ne!(digits(number), digits(number.wrapping_add(1)));
        }
    }
}

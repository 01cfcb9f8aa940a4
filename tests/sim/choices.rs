//! Where a run's decisions come from: a seed, or the bytes of a fuzzer.

use std::sync::LazyLock;

/// A stream of decisions. The same source gives the same run.
#[derive(Debug)]
pub(crate) struct Choices<'a>(Source<'a>);

#[derive(Debug)]
enum Source<'a> {
    /// The state of xorshift64*; never 0.
    Seed(u64),
    /// Once they are used up every decision is the first alternative.
    Bytes(&'a [u8]),
}

/// Content for payloads, made once: copying from it is cheaper than making it anew.
struct Pool {
    bytes: Vec<u8>,
    text: String,
}

/// More than the longest message twice, so that messages differ.
const POOL_SIZE: usize = 512 << 10;

static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let mut random = Choices::from_seed(6455);
    let mut text = String::new();
    while text.len() < POOL_SIZE {
        let letters = ['a', '\0', '\u{7f}', 'é', '\u{7ff}', '€', '\u{ffff}', '😀', '\u{10ffff}'];
        let letter = letters[random.below(letters.len())];
        text.extend(std::iter::repeat_n(letter, 1 + random.below(3)));
    }
    let bytes = (0..POOL_SIZE / 8).flat_map(|_| random.bits().to_be_bytes()).collect();
    Pool { bytes, text }
});

impl Choices<'static> {
    pub(crate) const fn from_seed(seed: u64) -> Self {
        Self(Source::Seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1))
    }
}

impl<'a> Choices<'a> {
    /// Few bytes decide much: a number below 257 takes one, others take four.
    pub(crate) const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(Source::Bytes(bytes))
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let bits = match &mut self.0 {
            Source::Bytes(bytes) if end <= 256 => match bytes.split_first() {
                Some((first, rest)) => {
                    *bytes = rest;
                    u64::from(*first)
                }
                None => 0,
            },
            _ => self.bits() >> 32,
        };
        usize::try_from(bits).unwrap_or_default() % end
    }

    /// True once in `often`. Bytes that are used up say no.
    pub(crate) fn once_in(&mut self, often: usize) -> bool {
        self.below(often) == often - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A masking key; now and then the one that changes nothing.
    pub(crate) fn key(&mut self) -> [u8; 4] {
        if self.once_in(16) {
            return [0; 4];
        }
        let [_, _, _, _, key @ ..] = (self.bits() >> 32).to_be_bytes();
        key
    }

    pub(crate) fn bytes(&mut self, len: usize) -> &'static [u8] {
        let start = self.below(POOL_SIZE - len);
        &POOL.bytes[start..start + len]
    }

    /// A word of a fixed stock: 3 to 31 bytes at the place `start` of it.
    pub(crate) fn word(&self, start: usize) -> &'static [u8] {
        &POOL.bytes[start..start + 3 + start % 29]
    }

    /// Exactly `len` bytes, mostly of code points of two to four bytes.
    pub(crate) fn text(&mut self, len: usize) -> String {
        let start = POOL.text.floor_char_boundary(self.below(POOL_SIZE - len));
        let end = POOL.text.floor_char_boundary(start + len);
        let mut text = POOL.text[start..end].to_owned();
        text.extend(std::iter::repeat_n('b', len - text.len()));
        text
    }

    fn bits(&mut self) -> u64 {
        match &mut self.0 {
            Source::Seed(state) => {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                state.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Source::Bytes(bytes) => {
                let (taken, rest) = bytes.split_at(bytes.len().min(4));
                *bytes = rest;
                taken.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)) << 32
            }
        }
    }
}

//! Reproducible chance.

/// xorshift64*: small, seeded, the same everywhere.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap() % limit
    }

    pub(crate) fn key(&mut self) -> [u8; 4] {
        self.next().to_be_bytes()
    }

    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        u32::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32).unwrap()
    }
}

/// So many bytes of words, as compressible as JSON is: to a half or less, but never far beyond.
pub(crate) fn prose(random: &mut Random, len: usize) -> String {
    let mut words = Random::new(1);
    let letter = |random: &mut Random| char::from(b'a' + u8::try_from(random.below(26)).unwrap());
    let words: Vec<String> =
        (0..64).map(|_| (0..9).map(|_| letter(&mut words)).chain(['_']).collect()).collect();
    let mut text = String::new();
    while text.len() < len {
        text.push_str(&words[random.below(words.len())]);
    }
    text.truncate(len);
    text
}

//! Keys and nonces of a client (RFC 6455 §5.3): unpredictable to the network, cheap to make.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// xorshift64*, with a seed from the operating system.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        Self(RandomState::new().build_hasher().finish() | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A masking key.
    pub(super) fn key(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.next().to_be_bytes();
        [a, b, c, d]
    }

    /// For a handshake's key (RFC 6455 §4.1).
    pub(super) fn nonce(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }
}

//! The key of the opening handshake and its answer (RFC 6455 §4.1, §4.2.2).

use tungstenite::handshake::derive_accept_key;

/// A `Sec-WebSocket-Key`: 16 bytes in base64, kept as it stands on the wire.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Key([u8; Key::SIZE]);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl Key {
    /// Bytes on the wire: 22 digits and two of padding.
    pub const SIZE: usize = 24;

    /// The key of a client, from 16 random bytes.
    pub fn from_nonce(nonce: [u8; 16]) -> Self {
        let mut key = [b'='; Self::SIZE];
        let mut digits = key.iter_mut();
        for group in nonce.chunks(3) {
            let mut bits = 0;
            for shift in 0..3 {
                bits = bits << 8 | group.get(shift).map_or(0, |&byte| usize::from(byte));
            }
            for (at, digit) in (0..=group.len()).zip(&mut digits) {
                let index = bits >> (18 - 6 * at) & 63;
                *digit = ALPHABET.get(index).copied().unwrap_or_default();
            }
        }
        Self(key)
    }

    /// `None` if `value` is not the base64 of 16 bytes. The four unused bits of the last digit
    /// may be set: decoders differ on them and the answer does not depend on them.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let key: [u8; Self::SIZE] = value.try_into().ok()?;
        let digits = key.strip_suffix(b"==")?;
        let is_digit = |digit: &u8| digit.is_ascii_alphanumeric() || matches!(digit, b'+' | b'/');
        digits.iter().all(is_digit).then_some(Self(key))
    }

    /// As it stands on the wire.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The `Sec-WebSocket-Accept` that answers this key.
    pub fn answer(&self) -> String {
        derive_accept_key(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_6455_section_1_3() {
        let key = Key::from_nonce(*b"the sample nonce");
        assert_eq!(key.as_bytes(), b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(key.answer(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(Key::parse(key.as_bytes()), Some(key));
    }

    #[test]
    fn only_sixteen_bytes_in_base64_are_a_key() {
        for bad in [
            &b""[..],
            b"abc",
            b"dGhlIHNhbXBsZSBub25jZQ=",
            b"dGhlIHNhbXBsZSBub25jZQ===",
            b"dGhlIHNhbXBsZSBub25jZTEy",
            b"dGhlIHNhbXBsZSBub25jZTE=",
            b"dGhlIHNhbXBsZSBub2=jZQ==",
            b"dGhlIHNhbXBsZSBub2-jZQ==",
        ] {
            assert_eq!(Key::parse(bad), None, "{bad:?}");
        }
    }
}

//! Masking: payload XOR a repeated four-byte key (RFC 6455 §5.3). Applied twice it is undone.

/// Masks or unmasks `bytes`, which start `offset` bytes into their frame's payload.
///
/// Cost: one pass in words that the compiler turns into vector instructions.
pub fn apply(key: [u8; 4], offset: u64, bytes: &mut [u8]) {
    let [a, b, c, d] = key;
    let rotated = match offset % 4 {
        0 => [a, b, c, d],
        1 => [b, c, d, a],
        2 => [c, d, a, b],
        _ => [d, a, b, c],
    };
    let [a, b, c, d] = rotated;
    let wide = [a, b, c, d, a, b, c, d];
    let word = u64::from_ne_bytes(wide);

    let (chunks, tail) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(wide) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition in RFC 6455 §5.3, byte by byte.
    fn oracle(key: [u8; 4], offset: usize, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().enumerate().map(|(i, byte)| byte ^ key[(offset + i) % 4]).collect()
    }

    #[test]
    fn agrees_with_the_definition_at_every_length_and_offset() {
        let plain: Vec<u8> = (0..=255).collect();
        for len in 0..80 {
            for offset in 0..9 {
                let mut bytes = plain[..len].to_vec();
                apply([0x12, 0x34, 0x56, 0x78], offset as u64, &mut bytes);
                assert_eq!(bytes, oracle([0x12, 0x34, 0x56, 0x78], offset, &plain[..len]));
            }
        }
    }

    #[test]
    fn unmasks_the_example_of_rfc_6455_section_5_7() {
        let mut bytes = [0x7f, 0x9f, 0x4d, 0x51, 0x58];
        apply([0x37, 0xfa, 0x21, 0x3d], 0, &mut bytes);
        assert_eq!(&bytes, b"Hello");
    }

    #[test]
    fn an_offset_beyond_32_bits_is_only_a_rotation() {
        let mut bytes = [0; 4];
        apply([1, 2, 3, 4], (1 << 40) + 3, &mut bytes);
        assert_eq!(bytes, [4, 1, 2, 3]);
    }
}

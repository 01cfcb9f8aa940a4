//! UTF-8 over seams: a code point may straddle fragments and receives (RFC 6455 §5.6, §8.1).

use crate::Error;

/// Checks what follows the first `valid` bytes, which are known to be valid UTF-8, and returns
/// how many are valid now. At most the last three bytes, the start of a code point, stay open.
///
/// Fails as soon as no continuation could make the bytes valid. Cost: each byte is looked at
/// once, those of an open code point at most four times.
pub(crate) fn check(bytes: &[u8], valid: usize) -> Result<usize, Error> {
    match std::str::from_utf8(bytes.get(valid..).unwrap_or_default()) {
        Ok(_) => Ok(bytes.len()),
        Err(error) if error.error_len().is_none() => Ok(valid + error.valid_up_to()),
        Err(_) => Err(Error::InvalidUtf8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` one at a time; the number of bytes after which it failed, if it did.
    fn fails_after(bytes: &[u8]) -> Option<usize> {
        let mut valid = 0;
        for end in 1..=bytes.len() {
            match check(&bytes[..end], valid) {
                Ok(now) => valid = now,
                Err(_) => return Some(end),
            }
        }
        None
    }

    #[test]
    fn bad_bytes_fail_as_soon_as_provable() {
        assert_eq!(fails_after(&[0xed, 0xa0, 0x80]), Some(2), "surrogate");
        assert_eq!(fails_after(&[0xc0, 0x80]), Some(1), "overlong");
        assert_eq!(fails_after(&[0xe0, 0x9f, 0x80]), Some(2), "overlong");
        assert_eq!(fails_after(&[0xf4, 0x90]), Some(2), "beyond U+10FFFF");
        assert_eq!(fails_after(&[0xf5]), Some(1), "beyond U+10FFFF");
        assert_eq!(fails_after(&[0x61, 0x80]), Some(2), "stray continuation");
        assert_eq!(fails_after(&[0xce, 0x41]), Some(2), "cut code point");
    }

    #[test]
    fn every_code_point_passes_byte_by_byte() {
        for point in ('\0'..=char::MAX).step_by(7).chain(['\u{7f}', '\u{80}', '\u{7ff}', '\u{800}'])
        {
            let mut buffer = [0; 4];
            assert_eq!(fails_after(point.encode_utf8(&mut buffer).as_bytes()), None, "{point:?}");
        }
    }

    #[test]
    fn an_open_code_point_is_not_yet_valid() {
        assert_eq!(check(&[0x61, 0xf0, 0x90, 0x80], 0), Ok(1));
        assert_eq!(check(&[0x61, 0xf0, 0x90, 0x80, 0x80], 1), Ok(5));
    }
}

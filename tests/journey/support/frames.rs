//! Byte strings as they stand in a bug report.

/// A frame with this first byte and the masking key 0, so that its payload reads in clear. The
/// length has its shortest form.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    masked(first, payload, [0; 4])
}

/// The same with another key.
pub(crate) fn masked(first: u8, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut bytes = vec![first];
    match payload.len() {
        len @ 0..=125 => bytes.push(0x80 | u8::try_from(len).unwrap()),
        len @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            bytes.push(0x80 | 127);
            bytes.extend((len as u64).to_be_bytes());
        }
    }
    headed(&bytes, payload, key)
}

/// A header as it is given, for lengths that are not those of the payload, then the masking key
/// and the payload.
pub(crate) fn headed(header: &[u8], payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let masked = payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
    header.iter().copied().chain(key).chain(masked).collect()
}

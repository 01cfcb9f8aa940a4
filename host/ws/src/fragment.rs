//! Messages that leave in several frames (RFC 6455 §5.4), and a walk through frames again.

use crate::Kind;
use crate::frame::{Header, Opcode, Role};

/// Appends a whole message in unmasked frames of at most `size` bytes of payload each, at least 1.
///
/// `compressed` says that the payload was [compressed](crate::deflate) and sets RSV1 on the first
/// frame (RFC 7692 §6.1). Control frames may stand between the frames.
pub fn encode(kind: Kind, compressed: bool, payload: &[u8], size: usize, out: &mut Vec<u8>) {
    let mut opcode = Opcode::from(kind);
    let mut compressed = compressed;
    let mut rest = payload;
    loop {
        let (part, later) = rest.split_at(rest.len().min(size.max(1)));
        let fin = later.is_empty();
        Header { fin, compressed, opcode, key: None, len: part.len() as u64 }.encode(out);
        out.extend_from_slice(part);
        if fin {
            return;
        }
        (opcode, compressed, rest) = (Opcode::Continuation, false, later);
    }
}

/// The frames in `bytes`, which hold whole unmasked frames: header and payload of each. Ends
/// early where they do not.
pub fn frames(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, size) = Header::parse_as(Role::Client, true, rest).ok()??;
        let len = usize::try_from(header.len).ok()?;
        let payload = rest.get(size..)?.get(..len)?;
        rest = rest.get(size + len..)?;
        debug_assert!(header.key.is_none());
        Some((header, payload))
    })
}

/// How many messages end in `bytes`, which hold whole unmasked frames.
pub fn messages(bytes: &[u8]) -> u64 {
    let ends = |header: &Header| header.fin && !header.opcode.is_control();
    frames(bytes).filter(|(header, _)| ends(header)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_leaves_in_frames_of_the_size_and_not_one_more() {
        let payload: Vec<u8> = (0..=255).cycle().take(1_000).collect();
        for (len, expected) in [(0, 1), (1, 1), (300, 1), (301, 2), (600, 2), (601, 3), (1_000, 4)]
        {
            let mut out = Vec::new();
            encode(Kind::Binary, true, &payload[..len], 300, &mut out);
            let found: Vec<_> = frames(&out).collect();
            assert_eq!(found.len(), expected, "{len}");
            let joined: Vec<u8> = found.iter().flat_map(|(_, part)| part.iter().copied()).collect();
            assert_eq!(joined, payload[..len]);
            for (place, (header, part)) in found.iter().enumerate() {
                assert!(part.len() <= 300);
                assert_eq!(header.fin, place + 1 == expected);
                assert_eq!(header.compressed, place == 0);
                let opcode = if place == 0 { Opcode::Binary } else { Opcode::Continuation };
                assert_eq!(header.opcode, opcode);
            }
        }
    }

    #[test]
    fn a_walk_ends_where_the_frames_do() {
        let mut out = Vec::new();
        encode(Kind::Text, false, b"whole", 10, &mut out);
        for cut in 0..out.len() {
            assert_eq!(frames(&out[..cut]).count(), 0);
        }
        assert_eq!(frames(&out).count(), 1);
        crate::frame::ping(b"", &mut out).unwrap();
        encode(Kind::Text, false, b"in two frames", 10, &mut out);
        assert_eq!(frames(&out).count(), 4);
        assert_eq!(messages(&out), 2);
        assert_eq!(frames(b"HTTP/1.1 101 Switching Protocols\r\n").count(), 0);
    }
}

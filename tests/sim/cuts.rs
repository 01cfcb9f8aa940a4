//! A fixed script of byte strings, each cut in three at every pair of offsets.

use plugsock_ws::deflate::Codec;
use plugsock_ws::handshake::Failure;
use plugsock_ws::{Kind, Limits, Machine, Role};

use crate::reference::{FIN, RSV1, Unit, Verdict, frame};
use crate::replay::{answer, ask, deliver};
use crate::terms;

/// Frames as first byte and payload, and what is to be reported of them.
type Row = (&'static [(u8, &'static [u8])], &'static str);

const TEXT: u8 = FIN | 1;
const BINARY: u8 = FIN | 2;
const CLOSE: u8 = FIN | 8;
const PING: u8 = FIN | 9;
const PONG: u8 = FIN | 10;

const LIMITS: Limits = Limits { max_frame_size: 130, max_message_size: 140 };

const ROWS: &[Row] = &[
    (&[(TEXT, b"Hello"), (BINARY, b""), (TEXT, b"")], "text Hello, binary, text"),
    (&[(BINARY, &[b'x'; 125])], "binary of 125"),
    (&[(BINARY, &[b'x'; 126]), (TEXT, b"y")], "binary of 126, text y"),
    (&[(BINARY, &[b'x'; 130])], "binary of 130"),
    (&[(TEXT, b"a"), (BINARY, &[b'x'; 131])], "text a, error 1009"),
    (&[(2, &[b'x'; 130]), (0, b"0123456789"), (FIN, b"")], "binary of 140"),
    (&[(2, &[b'x'; 130]), (0, b"01234567890")], "error 1009"),
    (&[(1, b"hel"), (PING, b"k"), (FIN, b"lo")], "ping k, text hello"),
    (&[(1, b""), (0, b""), (PONG, b"p"), (FIN, b"")], "pong p, text"),
    (
        &[(2, b"ab"), (PING, b""), (0, b"cd"), (PONG, b"q"), (FIN, b"e")],
        "ping, pong q, binary abcde",
    ),
    (&[(1, b"\xce"), (0, b"\xba"), (0, b"\xcf"), (FIN, b"\x8c")], "text \u{3ba}\u{3cc}"),
    (&[(1, b"\xf0"), (PING, b"x"), (0, b"\x9f\x98"), (FIN, b"\x80")], "ping x, text \u{1f600}"),
    (&[(1, b"\xf4"), (FIN, b"\x90")], "error 1007"),
    (&[(TEXT, b"ok\xce")], "error 1007"),
    (&[(1, b"ok\xce"), (FIN, b"")], "error 1007"),
    (&[(TEXT, b"\xed\xa0\x80"), (TEXT, b"late")], "error 1007"),
    (&[(BINARY, b"\xed\xa0\x80")], "binary \u{fffd}\u{fffd}\u{fffd}"),
    (&[(1, b"ab"), (TEXT, b"cd")], "error 1002"),
    (&[(FIN, b"xx")], "error 1002"),
    (&[(0, b"")], "error 1002"),
    (&[(PING, b"a"), (9, b"")], "ping a, error 1002"),
    (&[(0xc1, b"\xf2\x48"), (TEXT, b"late")], "error 1002"),
    (&[(TEXT, b"a"), (FIN | 11, b"")], "text a, error 1002"),
    (&[(PING, &[b'x'; 125])], "ping of 125"),
    (&[(PING, &[b'x'; 126])], "error 1002"),
    (&[(TEXT, b"a"), (CLOSE, b""), (TEXT, b"late")], "text a, close"),
    (&[(CLOSE, b"\x03\xe8bye"), (PING, b"late")], "close 1000 bye"),
    (&[(1, b"half"), (CLOSE, b"\x0f\xa0"), (FIN, b"late")], "close 4000"),
    (&[(CLOSE, b"\x03")], "error 1002"),
    (&[(CLOSE, b"\x03\xed")], "error 1002"),
    (&[(CLOSE, b"\x03\xe8\xc3(")], "error 1007"),
];

const TEXT_1: u8 = RSV1 | TEXT;
const BINARY_1: u8 = RSV1 | BINARY;

/// Under an agreement without context takeover. `Hello` is compressed as in RFC 7692 §7.2.3.
const COMPRESSED: &[Row] = &[
    (&[(TEXT_1, b"\xf2\x48\xcd\xc9\xc9\x07\0"), (TEXT, b"Hello")], "text Hello, text Hello"),
    (
        &[(RSV1 | 1, b"\xf2\x48\xcd"), (PING, b"k"), (0, b"\xc9"), (FIN, b"\xc9\x07\0")],
        "ping k, text Hello",
    ),
    (&[(TEXT_1, b"\xf3\x48\xcd\xc9\xc9\x07\0\0")], "text Hello"),
    (&[(TEXT_1, b"\xf2\x48\x05\0\0\0\xff\xff\xca\xc9\xc9\x07\0")], "text Hello"),
    (&[(BINARY_1, b"\0\x05\0\xfa\xffHello\0")], "binary Hello"),
    (&[(TEXT_1, b"\0"), (BINARY_1, b"\0"), (TEXT, b"")], "text, binary, text"),
    (&[(BINARY_1, b"\x01")], "binary"),
    (&[(BINARY_1, b""), (TEXT, b"late")], "error 1007"),
    (&[(BINARY_1, b"\x01\x09\0\xf6\xff")], "error 1007"),
    (&[(RSV1 | 2, b""), (FIN, b"")], "error 1007"),
    (&[(TEXT, b"a"), (TEXT_1, b"\xf2\0\x11\0\0")], "text a, error 1007"),
    (&[(TEXT_1, b"\xf2\x48\xcd\xc9\xc9\x07")], "error 1007"),
    (&[(BINARY_1, b"\x06")], "error 1007"),
    (&[(BINARY_1, b"\0\x01\0\xfe\xff\xce\0")], "binary \u{fffd}"),
    (&[(TEXT_1, b"\0\x01\0\xfe\xff\xce\0")], "error 1007"),
    (&[(RSV1 | 1, b"\xf2\x48"), (RSV1 | FIN, b"\xcd\xc9\xc9\x07\0")], "error 1002"),
    (&[(RSV1 | 1, b"\xf2\x48"), (RSV1 | PING, b"")], "error 1002"),
    (&[(RSV1 | CLOSE, b"")], "error 1002"),
    (&[(0x20 | TEXT_1, b"\0")], "error 1002"),
    (&[(RSV1 | 2, b"\0"), (CLOSE, b"\x0f\xa0"), (FIN, b"")], "close 4000"),
    // 140 and 141 times x: the limit, and one more.
    (&[(BINARY_1, b"\xaa\xa8\x18\x3c\x00\x00")], "binary of 140"),
    (&[(BINARY_1, b"\xaa\xa8\x18\x44\x00\x00")], "error 1009"),
];

/// Under an agreement with context takeover.
const REFERRING: &[Row] = &[
    (
        &[(TEXT_1, b"\xf2\x48\xcd\xc9\xc9\x07\0"), (TEXT_1, b"\xf2\0\x11\0\0")],
        "text Hello, text Hello",
    ),
    // What was not compressed does not count.
    (&[(TEXT, b"Hello"), (TEXT_1, b"\xf2\0\x11\0\0")], "text Hello, error 1007"),
    // A final block ends nothing but itself.
    (
        &[(TEXT_1, b"\xf2\x48\xcd\xc9\xc9\x07\0"), (TEXT_1, b"\x03\0\xf2\0\x11\0\0")],
        "text Hello, text Hello",
    ),
    (&[(TEXT_1, b"\xf3\x48\xcd\xc9\xc9\x07\0\xf2\0\x11\0\0")], "text HelloHello"),
];

/// Frames of a client, byte by byte, that [`frame`] would not write.
const RAW: &[(&[u8], &str)] = &[
    (b"\x81\x02hi", "error 1002"),
    (b"\x82\xfe\0\x7d\0\0\0\0", "error 1002"),
    (b"\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", "error 1002"),
    (b"\x82\xff\x80\0\0\0\0\0\0\x05\0\0\0\0", "error 1002"),
    (b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", "error 1009"),
    (b"\x82\xfe\0\x83\0\0\0\0", "error 1009"),
    (b"\x8a\xfe\0\x7e\0\0\0\0", "error 1002"),
];

#[test]
fn frames_are_read_alike_at_every_pair_of_cuts() {
    for (frames, expected) in ROWS {
        for (role, key) in [(Role::Server, Some([0x12, 0xf4, 0x56, 0x78])), (Role::Client, None)] {
            let stream: Vec<_> =
                frames.iter().flat_map(|(first, payload)| frame(*first, key, payload)).collect();
            at_every_pair(&stream, |pieces| {
                let (units, verdict) = deliver(role, &LIMITS, None, pieces.into_iter(), None);
                assert_eq!(summary(&units, verdict), *expected, "{role:?}");
            });
        }
    }
}

#[test]
fn compressed_frames_are_read_alike_at_every_pair_of_cuts() {
    let alone = COMPRESSED.iter().map(|row| (0b11, row));
    for (terms, (frames, expected)) in alone.chain(REFERRING.iter().map(|row| (0b1111_1100, row))) {
        let agreed = terms::agreement(terms);
        for (role, key) in [(Role::Server, Some([0x12, 0xf4, 0x56, 0x78])), (Role::Client, None)] {
            let stream: Vec<_> =
                frames.iter().flat_map(|(first, payload)| frame(*first, key, payload)).collect();
            for closes_after in [None, Some(0), Some(1)] {
                at_every_pair(&stream, |pieces| {
                    let pieces = pieces.into_iter();
                    let (units, verdict) =
                        deliver(role, &LIMITS, agreed.as_ref(), pieces, closes_after);
                    if closes_after.is_none() {
                        assert_eq!(summary(&units, verdict), *expected, "{role:?}");
                    }
                });
            }
        }
    }
}

/// What a machine sent, each message with references to those before or without.
#[test]
fn our_own_messages_are_read_alike_at_every_pair_of_cuts() {
    let said = ["to be or not to be", "", "not to be or to be", "that is, that is, that is"];
    let mut sizes = Vec::new();
    for choice in [0b1111_1100, 0b10, 0b01, 0b11, 0b0000_0100] {
        let agreed = terms::agreement(choice).unwrap();
        let mut sender = Machine::with_agreement(Role::Server, agreed);
        let (mut codec, mut stream) = (Codec::default(), Vec::new());
        for text in said {
            sender.encode(Kind::Text, text.as_bytes(), &mut codec, &mut stream, None);
        }
        sizes.push(stream.len());
        at_every_pair(&stream, |pieces| {
            let limits = Limits::default();
            let pieces = pieces.into_iter();
            let (units, verdict) = deliver(Role::Client, &limits, Some(&agreed), pieces, None);
            assert_eq!(verdict, Verdict::Open);
            assert_eq!(units, said.map(|text| Unit::Text(text.into())));
        });
    }
    assert!(sizes[0] == sizes[1] && sizes[0] < sizes[2], "takeover saves: {sizes:?}");
}

#[test]
fn broken_headers_are_refused_at_every_pair_of_cuts() {
    for (stream, expected) in RAW {
        at_every_pair(stream, |pieces| {
            let (units, verdict) = deliver(Role::Server, &LIMITS, None, pieces.into_iter(), None);
            assert_eq!(summary(&units, verdict), *expected);
        });
    }
}

/// Our own close frame goes out before the first event, or after it, wherever the bytes are cut.
#[test]
fn after_our_close_all_is_dropped_alike_at_every_pair_of_cuts() {
    for (frames, _) in ROWS {
        let stream: Vec<_> =
            frames.iter().flat_map(|(first, payload)| frame(*first, None, payload)).collect();
        for closes_after in 0..2 {
            at_every_pair(&stream, |pieces| {
                deliver(Role::Client, &LIMITS, None, pieces.into_iter(), Some(closes_after));
            });
        }
    }
}

const REQUEST: &str = "GET /a?b HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Version: 13\r\n\r\n";

const ANSWER: &str = "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[test]
fn heads_are_read_alike_at_every_pair_of_cuts() {
    for (text, expected) in [
        (format!("{REQUEST}\u{81}"), Some(Ok(Some(REQUEST.len())))),
        (REQUEST.replace("GET", "PUT"), Some(Err(405))),
        (REQUEST.replace("Key", "Kex"), Some(Err(400))),
        (REQUEST.replace("13", "8"), Some(Err(426))),
        (REQUEST.replace("Host: t", "Host : t"), Some(Err(400))),
        (REQUEST.replace("websocket\r", "websocket"), Some(Err(400))),
        (REQUEST.replace("/a", &"/a".repeat(30)), Some(Err(414))),
        ("GET /x HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(), Some(Ok(None))),
        ("GET /x HTTP/1.1\r\nHost: t\r\n\r".to_owned(), None),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a:b\r\n".repeat(11)), Some(Err(431))),
    ] {
        at_every_pair(text.as_bytes(), |pieces| {
            assert_eq!(ask(pieces.into_iter()), expected, "{text}");
        });
    }
    for (text, expected) in [
        (format!("{ANSWER}\u{81}"), Some(Ok(None))),
        (ANSWER.replace("101", "503"), Some(Err(Failure::Status(503)))),
        (ANSWER.replace("s3p", "S3p"), Some(Err(Failure::Accept))),
        (ANSWER.replace("\r\n\r\n", "\r\n\r"), None),
    ] {
        at_every_pair(text.as_bytes(), |pieces| {
            assert_eq!(answer(pieces.into_iter()), expected, "{text}");
        });
    }
}

/// Calls `read` with the bytes in three pieces, for every two offsets. Empty pieces are among them.
fn at_every_pair(bytes: &[u8], mut read: impl FnMut([&[u8]; 3])) {
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            read([&bytes[..first], &bytes[first..second], &bytes[second..]]);
        }
    }
}

fn summary(units: &[Unit], verdict: Verdict) -> String {
    let mut words: Vec<_> = units.iter().map(ToString::to_string).collect();
    if let Verdict::Error(code) = verdict {
        words.push(format!("error {code}"));
    }
    words.join(", ")
}

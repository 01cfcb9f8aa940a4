//! A fixed script of byte strings, each cut in three at every pair of offsets.

use plugsock_ws::handshake::Failure;
use plugsock_ws::{Limits, Role};

use crate::reference::{FIN, Unit, Verdict, frame};
use crate::replay::{answer, ask, deliver};

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
                let (units, verdict) = deliver(role, &LIMITS, pieces.into_iter(), None);
                assert_eq!(summary(&units, verdict), *expected, "{role:?}");
            });
        }
    }
}

#[test]
fn broken_headers_are_refused_at_every_pair_of_cuts() {
    for (stream, expected) in RAW {
        at_every_pair(stream, |pieces| {
            let (units, verdict) = deliver(Role::Server, &LIMITS, pieces.into_iter(), None);
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
                deliver(Role::Client, &LIMITS, pieces.into_iter(), Some(closes_after));
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

//! Handshake faults seen in other servers, each with the bytes that show it.

use plugsock_ws::handshake::{
    HeadBuffer, HeadLimits, Key, Offer, Progress, Refusal, ResponseHead, Upgrade, accept,
    choose_subprotocol,
};
use plugsock_ws::{Error, Limits, Machine, Role};

use crate::support::{Seen, cuts, feed, frames, text};

const ACCEPT: &str = "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

/// The valid head, line by line, without the empty line.
const LINES: [&str; 6] = [
    "GET /ws HTTP/1.1",
    "Host: t",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
];

/// The valid head with the line that starts with `start` replaced, or with `by` added.
fn head(start: &str, by: &str) -> Vec<u8> {
    let mut lines = LINES.to_vec();
    match lines.iter_mut().find(|line| !start.is_empty() && line.starts_with(start)) {
        Some(line) => *line = by,
        None => lines.push(by),
    }
    lines.retain(|line| !line.is_empty());
    (lines.join("\r\n") + "\r\n\r\n").into_bytes()
}

/// The response of a server that supports the subprotocol `b`, and the bytes after the head.
fn respond(pieces: &[&[u8]]) -> (String, Vec<u8>) {
    let (mut response, mut rest) = (Vec::new(), Vec::new());
    let mut buffer = HeadBuffer::new();
    for (at, piece) in pieces.iter().enumerate() {
        let answer = match buffer.push(&HeadLimits::default(), piece) {
            Ok(Progress::Partial) => continue,
            Ok(Progress::Complete { consumed }) => {
                rest.extend_from_slice(&piece[consumed..]);
                rest.extend(pieces[at + 1..].concat());
                answer(&buffer)
            }
            Err(refusal) => Err(refusal),
        };
        match answer {
            Ok(accepted) => response = accepted,
            Err(refusal) => refusal.write(&mut response),
        }
        break;
    }
    (String::from_utf8_lossy(&response).into_owned(), rest)
}

fn answer(buffer: &HeadBuffer) -> Result<Vec<u8>, Refusal> {
    let request = buffer.request()?;
    let upgrade = Upgrade::from_request(&request)?.ok_or_else(Refusal::upgrade_required)?;
    let subprotocol = choose_subprotocol(upgrade.subprotocols(), &["b"]);
    let mut out = Vec::new();
    assert_eq!(accept(&upgrade.key(), subprotocol, &[], &mut out), Ok(()));
    Ok(out)
}

/// The response to `bytes`, the same however they are cut.
fn response(bytes: &[u8]) -> String {
    let (first, _) = respond(&[bytes]);
    assert!(!first.is_empty(), "no answer to {}", String::from_utf8_lossy(bytes));
    for pieces in cuts(bytes) {
        assert_eq!(respond(&pieces).0, first);
    }
    first
}

fn accepts(bytes: &[u8]) -> String {
    let response = response(bytes);
    assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
    assert!(response.contains(ACCEPT), "{response}");
    assert!(response.ends_with("\r\n\r\n"));
    response
}

fn refuses(status: u16, bytes: &[u8]) -> String {
    let response = response(bytes);
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    assert!(response.contains("close\r\n"), "{response}");
    response
}

#[test]
fn bl_06_tokens_names_and_white_space_are_read_as_http_says() {
    accepts(&head("", ""));
    accepts(&head("Connection", "Connection: keep-alive,Upgrade"));
    accepts(&head("Connection", "Connection: keep-alive\r\nConnection: upgrade"));
    accepts(&head("Upgrade", "UPGRADE: WebSocket"));
    accepts(&head("Upgrade", "Upgrade: h2c, websocket"));
    accepts(&head("Sec-WebSocket-Key", "sec-websocket-key:\tdGhlIHNhbXBsZSBub25jZQ== "));
}

#[test]
fn bl_06_what_only_looks_right_is_refused() {
    refuses(400, &head("Connection", "Connection: not-upgrade"));
    refuses(400, &head("Connection", "Connection: \"Upgrade"));
    refuses(400, &head("Upgrade", "Upgrade: websocket13"));
    refuses(400, &head("", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="));
    refuses(400, &head("", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="));
    refuses(400, &head("Host", "Host : t"));
    refuses(400, &head("Connection", "Connection: keep-alive,\r\n Upgrade"));
    refuses(400, &head("", "X: a\rb"));
    refuses(400, &head("", "X: a\nY: b"));
    refuses(400, &head("", "Origin: http://a\r\nOrigin: http://b"));
}

#[test]
fn bl_07_only_a_proper_request_is_upgraded() {
    let post = refuses(405, &head("GET", "POST /ws HTTP/1.1"));
    assert!(post.contains("\r\nAllow: GET\r\n"), "{post}");
    refuses(400, &head("GET", "GET /ws HTTP/1.0"));
    refuses(400, &head("GET", "GET /ws HTTP/2.0"));
    refuses(400, &head("GET", "GET * HTTP/1.1"));
    refuses(400, &head("Host", ""));
    refuses(400, &head("", "Host: u"));
    refuses(400, &head("Sec-WebSocket-Key", "Sec-WebSocket-Key: abc"));
    refuses(400, &head("Sec-WebSocket-Key", ""));
    refuses(400, &head("Upgrade", ""));
    refuses(400, &head("Connection", ""));
    refuses(400, &head("", "Content-Length: 5"));
    refuses(400, &head("", "Transfer-Encoding: chunked"));
    accepts(&head("GET", "GET http://t/ws HTTP/1.1"));
}

#[test]
fn bl_07_what_is_supported_is_said() {
    for version in ["Sec-WebSocket-Version: 8", "Sec-WebSocket-Version: 13, 8", ""] {
        let response = refuses(426, &head("Sec-WebSocket-Version", version));
        assert!(response.contains("\r\nSec-WebSocket-Version: 13\r\n"), "{response}");
    }
    let plain = refuses(426, b"GET /ws HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(plain.contains("\r\nUpgrade: websocket\r\n"), "{plain}");
    assert!(plain.contains("\r\nConnection: Upgrade"), "{plain}");
    refuses(400, &head("", "Sec-WebSocket-Version: 13"));
}

#[test]
fn bl_08_a_huge_header_is_refused_at_the_limit() {
    let mut buffer = HeadBuffer::new();
    let limits = HeadLimits::default();
    let start = b"GET / HTTP/1.1\r\nX: ";
    buffer.push(&limits, start).unwrap();
    for _ in 0..(limits.max_size - start.len() - 1) {
        assert_eq!(buffer.push(&limits, b"a"), Ok(Progress::Partial));
    }
    assert_eq!(buffer.push(&limits, b"a").unwrap_err().status(), 431);

    let whole = [start.as_slice(), &vec![b'a'; 20 << 20]].concat();
    assert_eq!(HeadBuffer::new().push(&limits, &whole).unwrap_err().status(), 431);
}

#[test]
fn bl_08_a_long_head_passes_byte_by_byte() {
    let padding = format!("X: {}", "a".repeat(8000));
    accepts(&head("Host", &format!("Host: t\r\n{padding}")));
}

#[test]
fn bl_08_headers_before_the_upgrade_do_not_hide_it() {
    let limits = HeadLimits::default();
    let with = |count: usize| {
        let junk = ["Host: t"].into_iter().chain(std::iter::repeat_n("X: y", count));
        respond(&[&head("Host", &junk.collect::<Vec<_>>().join("\r\n"))]).0
    };
    assert!(with(limits.max_headers - 5).starts_with("HTTP/1.1 101 "));
    assert!(with(limits.max_headers - 4).starts_with("HTTP/1.1 431 "));
    assert!(with(2000).starts_with("HTTP/1.1 431 "));
}

#[test]
fn bl_08_a_huge_target_is_refused() {
    let target = format!("GET /{} HTTP/1.1", "a".repeat(64 << 10));
    let (response, _) = respond(&[&head("GET", &target)]);
    assert!(response.starts_with("HTTP/1.1 414 "), "{response}");
}

#[test]
fn bl_10_frames_after_the_head_are_given_back() {
    let key = [5, 6, 7, 8];
    let early = frames("81 85 [K] 65 61 72 6C 79 · 89 81 [K] 6B", key);
    let bytes = [head("", ""), early].concat();
    for pieces in cuts(&bytes) {
        let (response, rest) = respond(&pieces);
        assert!(response.starts_with("HTTP/1.1 101 "));
        let run = feed(&mut Machine::new(Role::Server), &Limits::default(), &[&rest]);
        assert_eq!((run.seen, run.error), (vec![text("early"), Seen::Ping(b"k".to_vec())], None));
    }
}

#[test]
fn bl_10_frames_do_not_count_as_head() {
    let (head, end) = (head("", ""), 20);
    let frames = vec![0x82; 20 << 10];
    let (first, last) = head.split_at(head.len() - end);
    let (response, rest) = respond(&[first, &[last, &frames].concat()]);
    assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
    assert_eq!(rest, frames);
}

#[test]
fn bl_11_one_offered_subprotocol_is_chosen_or_none() {
    let chosen = |offer: &str| {
        let response = accepts(&head("", offer));
        let (_, after) = response.split_once("\r\nSec-WebSocket-Protocol: ")?;
        after.split("\r\n").next().map(str::to_owned)
    };
    let b = Some("b".to_owned());
    assert_eq!(chosen("Sec-WebSocket-Protocol: a, b"), b);
    assert_eq!(chosen("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b"), b);
    assert_eq!(chosen("Sec-WebSocket-Protocol: B"), None);
    assert_eq!(chosen("Sec-WebSocket-Protocol: zzz"), None);
    assert_eq!(chosen(""), None);
    refuses(400, &head("", "Sec-WebSocket-Protocol: a b"));
    refuses(400, &head("", "Sec-WebSocket-Protocol: a, \"b\""));
    refuses(400, &head("", "Sec-WebSocket-Protocol: ,"));
}

#[test]
fn bl_12_no_extension_offer_breaks_the_handshake() {
    let semicolons = ";".repeat(10 << 10);
    for offer in [
        "constructor",
        ",;x",
        "x-a; v=\"1, permessage-deflate\"",
        "x; v=\"unclosed",
        "permessage-deflate; server_max_window_bits=8, permessage-deflate",
        "x\r\nSec-WebSocket-Extensions: permessage-deflate",
    ] {
        let response = accepts(&head("", &format!("Sec-WebSocket-Extensions: {offer}")));
        assert!(!response.contains("Sec-WebSocket-Extensions"), "{response}");
    }
    let bytes = head("", &format!("Sec-WebSocket-Extensions: {semicolons}"));
    assert!(respond(&[&bytes]).0.starts_with("HTTP/1.1 101 "));
}

#[test]
fn bl_13_a_bad_first_frame_behind_the_head_is_an_ordinary_error() {
    let bytes = [head("", ""), frames("B1 80 [K]", [1, 2, 3, 4])].concat();
    for pieces in cuts(&bytes) {
        let (response, rest) = respond(&pieces);
        assert!(response.starts_with("HTTP/1.1 101 "));
        let run = feed(&mut Machine::new(Role::Server), &Limits::default(), &[&rest]);
        assert_eq!((run.seen, run.error), (vec![], Some(Error::ReservedBits)));
    }
}

#[test]
fn a_tls_client_is_told_at_its_first_byte() {
    refuses(400, b"\x16\x03\x01\x02\x00\x01");
}

#[test]
fn client_and_server_agree() {
    let offer = Offer {
        host: "example.test:8080",
        target: "/ws?x=1",
        key: Key::from_nonce([7; 16]),
        subprotocols: &["a", "b"],
        fields: &[],
    };
    let mut request = Vec::new();
    offer.write(&mut request).unwrap();
    let (answer, rest) = respond(&[&request]);
    assert!(rest.is_empty());
    for pieces in cuts(answer.as_bytes()) {
        let mut head = ResponseHead::new();
        let mut progress = Progress::Partial;
        for piece in pieces {
            progress = head.push(&HeadLimits::default(), piece).unwrap();
        }
        assert!(matches!(progress, Progress::Complete { .. }));
        assert_eq!(offer.verify(&head), Ok(Some("b")));
    }
}

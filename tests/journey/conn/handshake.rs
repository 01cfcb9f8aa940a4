//! From the request's bytes to an open connection, or a refusal.

use std::io::Write;
use std::time::Duration;

use super::compression::DEFLATE;
use crate::support::{
    Client, Got, HEAD, Request, Site, Stage, answer, connect, exchange, frame, masked, read_all,
    spawn,
};

/// A WebSocket client from elsewhere.
#[test]
fn tungstenite_is_understood() {
    let served = Site::new().plugin("echo").start();
    for path in ["echo", "builtin"] {
        let url = format!("ws://{}/{path}", served.address());
        let (mut socket, response) = tungstenite::connect(url).unwrap();
        assert_eq!(response.status(), 101);
        for size in [0, 1, 125, 126, 65_535, 65_536, 1 << 20] {
            for message in [
                tungstenite::Message::text("x".repeat(size)),
                tungstenite::Message::binary(vec![0xA5; size]),
            ] {
                socket.send(message.clone()).unwrap();
                assert_eq!(socket.read().unwrap(), message);
            }
        }
        socket.close(None).unwrap();
        assert!(socket.read().unwrap().is_close());
        assert!(socket.read().is_err());
    }
}

/// The usual head with a change.
fn replaced(from: &str, to: &str) -> String {
    assert!(HEAD.contains(from), "{from}");
    format!("{}\r\n", HEAD.replacen(from, to, 1))
}

/// The usual head and more fields, which end with a line break.
fn with(fields: &str) -> String {
    format!("{HEAD}{fields}\r\n")
}

/// Requests by the change that they make and the status of the answer.
fn play(changes: &[(&str, &str, u16)]) {
    let mut stage = Stage::new(Site::new());
    for (from, to, status) in changes {
        let (head, status) = (replaced(from, to), *status);
        stage.request(&Request { what: to, head, status, fields: &[] });
    }
    stage.end();
}

const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

#[test]
fn bl_06_tokens_names_and_white_space_are_read_as_http_says() {
    play(&[
        ("Connection: Upgrade", "Connection: keep-alive,Upgrade", 101),
        ("Connection: Upgrade", "Connection: keep-alive\r\nconnection: upgrade", 101),
        ("Upgrade: websocket", "UPGRADE: WebSocket", 101),
        (KEY, "sec-websocket-key:\tdGhlIHNhbXBsZSBub25jZQ== ", 101),
    ]);
}

#[test]
fn bl_06_what_only_looks_right_is_refused() {
    play(&[
        ("Connection: Upgrade", "Connection: not-upgrade", 400),
        (KEY, &format!("{KEY}\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="), 400),
        ("Host: t", "Host : t", 400),
        ("Host: t", "Host: t\r\nX : y", 400),
        ("Host: t", "Host: t\r\n folded", 400),
        ("Connection: Upgrade", "Connection: keep-alive,\r\n Upgrade", 400),
    ]);
}

#[test]
fn bl_07_only_a_proper_request_is_upgraded() {
    play(&[
        ("HTTP/1.1", "HTTP/1.0", 400),
        ("Host: t\r\n", "", 400),
        ("Host: t", "Host: t\r\nHost: u", 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "abc", 400),
        (&format!("{KEY}\r\n"), "", 400),
        ("Upgrade: websocket\r\n", "", 400),
        ("Connection: Upgrade\r\n", "", 400),
        ("/echo", "/nowhere", 404),
        ("/echo", "/Echo", 404),
        ("/echo", "/echo/", 404),
    ]);
}

#[test]
fn bl_07_what_is_supported_is_said() {
    let mut stage = Stage::new(Site::new());
    let version = "Sec-WebSocket-Version: 13\r\n";
    for (what, head, status, field) in [
        ("POST", replaced("GET", "POST"), 405, ("Allow", "GET")),
        ("version 8", replaced("13", "8"), 426, ("Sec-WebSocket-Version", "13")),
        ("no version", replaced(version, ""), 426, ("Sec-WebSocket-Version", "13")),
        (
            "a plain GET",
            "GET /echo HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(),
            426,
            ("Upgrade", "websocket"),
        ),
    ] {
        let fields = &[(field.0, Some(field.1))];
        stage.request(&Request { what, head, status, fields });
    }
    stage.end();
}

#[test]
fn bl_08_what_is_too_large_is_refused_at_the_limit() {
    let mut stage = Stage::new(Site::new());
    let long_target = format!("/{}", "x".repeat(64 << 10));
    for (what, head, status) in [
        ("2,000 headers in front", replaced("Upgrade: w", &junk(2_000, "Upgrade: w")), 431),
        ("too many headers", replaced("Upgrade: w", &junk(96, "Upgrade: w")), 431),
        ("as many headers as may be", replaced("Upgrade: w", &junk(95, "Upgrade: w")), 101),
        ("a target of 64 KiB", replaced("/echo", &long_target), 414),
        ("one byte more than may be", padded((16 << 10) + 1), 431),
        ("a head as long as may be", padded(16 << 10), 101),
    ] {
        stage.request(&Request { what, head, status, fields: &[] });
    }
    stage.end();
}

#[test]
fn bl_08_a_header_of_20_mb_is_refused_and_not_read() {
    let mut stage = Stage::new(Site::new());
    let head = with(&format!("X: {}\r\n", "x".repeat(20 << 20)));
    stage.request(&Request { what: "20 MiB", head, status: 431, fields: &[] });
    let peak = stage.process().peak_kib();
    let resident = stage.process().resident_kib();
    assert!(peak < resident + (10 << 10), "{peak} KiB at its peak, {resident} KiB now");
    stage.end();
}

#[test]
fn bl_08_a_long_head_may_come_byte_by_byte_from_many() {
    // So many writes may take some time.
    let mut stage = Stage::new(Site::new().set("server.handshake_timeout", "5m"));
    let head = padded(8 << 10).into_bytes();
    let mut sockets: Vec<_> = (0..20).map(|_| connect(stage.address())).collect();
    for (place, byte) in head.iter().enumerate() {
        sockets.iter_mut().for_each(|socket| socket.write_all(&[*byte]).unwrap());
        if place % 1_000 == 0 {
            stage.bystander().echo("between the bytes");
        }
    }
    for mut socket in sockets {
        socket.write_all(&frame(0x88, b"\x03\xe8")).unwrap();
        let answer = read_all(socket);
        assert!(answer.starts_with(b"HTTP/1.1 101 "));
        assert!(answer.ends_with(b"\r\n\r\n\x88\x02\x03\xe8"));
    }
    stage.expect_told(20, 1000, "8 KiB heads");
    stage.expect_calm("8 KiB heads");
    stage.end();
}

/// So many header fields and then this.
fn junk(count: usize, last: &str) -> String {
    format!("{}{last}", "X: y\r\n".repeat(count))
}

/// A head of this size.
fn padded(size: usize) -> String {
    let head = replaced("/echo", "/ledger");
    let filler = size - head.len() - "X: \r\n".len();
    let head = head.replacen("Host", &format!("X: {}\r\nHost", "x".repeat(filler)), 1);
    assert_eq!(head.len(), size);
    head
}

#[test]
fn bl_09_one_deadline_for_the_handshake_that_bytes_do_not_renew() {
    let mut stage = Stage::new(Site::new().set("server.handshake_timeout", "1s"));
    let mut upgraded: Vec<_> = (0..20).map(|_| Client::open(stage.address(), "/ledger")).collect();
    let silent: Vec<_> = (0..200).map(|_| connect(stage.address())).collect();
    let dripping: Vec<_> = (0..200)
        .map(|_| {
            let mut socket = connect(stage.address());
            socket.write_all(b"GET /echo HTTP/1.1\r\nX: ").unwrap();
            socket
        })
        .collect();
    let mut open: Vec<_> = dripping.iter().map(|socket| socket.try_clone().unwrap()).collect();
    let dripper = spawn(move || {
        while !open.is_empty() {
            open.retain_mut(|socket| socket.write_all(b"x").is_ok());
            plugsock::task::sleep(Duration::from_millis(30));
        }
    });
    for socket in silent.into_iter().chain(dripping) {
        assert_eq!(read_all(socket), b"", "no answer to half a head");
    }
    dripper.join().unwrap();
    // The deadline of the handshake ends with it.
    for client in &mut upgraded {
        client.echo("still here");
        client.close(1000, "");
    }
    drop(upgraded);
    stage.expect_told(20, 1000, "silence");
    stage.expect_calm("silence");
    stage.end();
}

/// Frames in the same segment as the head, or cut anywhere.
#[test]
fn bl_10_frames_behind_the_head_are_handled_wherever_tcp_cuts() {
    let mut stage = Stage::new(Site::new());
    for key in [[0; 4], [0x9D, 0x21, 0xE6, 0x5B]] {
        let frames =
            [masked(0x81, b"early", key), masked(0x89, b"k", key), masked(0x88, b"\x03\xe8", key)];
        let head = with("").replacen("/echo", "/ledger", 1);
        let bytes = [head.as_bytes(), &frames.concat()].concat();
        let judge = |socket, how: &str| {
            let answer = answer(socket);
            assert_eq!(answer.status, 101, "{how}");
            // The pong need not wait for the handler.
            let pong_first = b"\x8a\x01k\x81\x05early\x88\x02\x03\xe8";
            let echo_first = b"\x81\x05early\x8a\x01k\x88\x02\x03\xe8";
            let body = &answer.body;
            assert!(body == pong_first || body == echo_first, "{how}: {body:x?}");
        };
        let address = stage.address();
        let count = stage.play(&bytes, || connect(address), judge);
        stage.expect_told(count, 1000, "early frames");
        stage.expect_calm("early frames");
    }
    stage.end();
}

#[test]
fn bl_10_frames_do_not_count_as_head() {
    let mut stage = Stage::new(Site::new().set("server.max_header_size", "1KiB"));
    let head = padded(1 << 10).into_bytes();
    let payload = [9; 20_000];
    let frames = [frame(0x82, &payload), frame(0x88, b"\x03\xe8")].concat();
    for split in [0, 1, head.len() - 4, head.len() - 1, head.len()] {
        let mut socket = connect(stage.address());
        socket.write_all(&head[..split]).unwrap();
        stage.bystander().echo("the first part has come");
        socket.write_all(&[&head[split..], &frames].concat()).unwrap();
        let answer = answer(socket);
        assert_eq!(answer.status, 101, "split at {split}");
        let echoed = [&[0x82, 126, 0x4e, 0x20][..], &payload, b"\x88\x02\x03\xe8"].concat();
        assert!(answer.body == echoed, "split at {split}: the 20 KB behind the head are lost");
    }
    stage.expect_told(5, 1000, "20 KB behind the head");
    let (what, head) = ("one byte above the limit", padded((1 << 10) + 1));
    stage.request(&Request { what, head, status: 431, fields: &[] });
    stage.end();
}

#[test]
fn bl_11_one_of_the_offered_subprotocols_is_chosen_or_none() {
    let route = |path: &str, more: &str| {
        let route = format!("[[route]]\npath = \"{path}\"\nplugin = \"echo\"\n");
        format!("{route}subprotocols = [\"b\"]\n{more}")
    };
    let must = route("/must", "require_subprotocol = true\n");
    let site = Site::new().toml(&route("/b", "")).toml(&must);
    let mut stage = Stage::new(site);
    for (what, fields, chosen) in [
        ("a, b", "Sec-WebSocket-Protocol: a, b\r\n", Some("b")),
        ("two lines", "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n", Some("b")),
        ("B", "Sec-WebSocket-Protocol: B\r\n", None),
        ("zzz", "Sec-WebSocket-Protocol: zzz\r\n", None),
        ("no offer", "", None),
    ] {
        for (path, status) in [("/b", 101), ("/must", if chosen.is_some() { 101 } else { 400 })] {
            let head = with(fields).replacen("/echo", path, 1);
            let chosen = &[("Sec-WebSocket-Protocol", chosen)];
            stage.request(&Request { what, head, status, fields: chosen });
        }
    }
    stage.end();
}

#[test]
fn bl_12_no_offer_of_extensions_breaks_the_handshake() {
    let agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    let semicolons = ";".repeat(10 << 10);
    let quoted = "x-a; v=\"1, permessage-deflate\"";
    let second = format!("{DEFLATE}; server_max_window_bits=8, {DEFLATE}");
    let over_two_lines = format!("x-a\r\nSec-WebSocket-Extensions: {DEFLATE}");
    for enabled in ["true", "false"] {
        let mut stage = Stage::new(Site::new().set("compression.enabled", enabled));
        for (offer, accepted) in [
            ("constructor", false),
            (",;x", false),
            (quoted, false),
            ("x-a; v=\"unclosed", false),
            (&second, true),
            (&over_two_lines, true),
            (&semicolons, false),
        ] {
            let head = with(&format!("Sec-WebSocket-Extensions: {offer}\r\n"));
            let answer = (accepted && enabled == "true").then_some(agreed);
            let fields = &[("Sec-WebSocket-Extensions", answer)];
            stage.request(&Request { what: offer, head, status: 101, fields });
        }
        stage.end();
    }
}

#[test]
fn an_origin_must_be_a_known_one_if_there_is_one() {
    let site = Site::new().plugin("echo");
    let served = site.set("server.allowed_origins", "https://good.test").start();
    let with = |origin: &str| {
        exchange(served.address(), with(&format!("Origin: {origin}\r\n")).as_bytes()).status
    };
    assert_eq!(with("https://evil.test"), 403);
    assert_eq!(with("https://good.test.evil.test"), 403);
    assert_eq!(with("http://good.test"), 403);
    assert_eq!(with("null"), 403);
    let field = plugsock_ws::handshake::Field::new("Origin", b"https://good.test").unwrap();
    let socket = connect(served.address());
    Client::over(socket, "/echo", &[field]).unwrap().echo("a good one");
    Client::open(served.address(), "/echo").echo("not from a browser");
}

#[test]
fn garbage_is_refused_and_hurts_nobody() {
    let served = Site::new().plugin("echo").start();
    let mut bystander = Client::open(served.address(), "/echo");
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\0\0\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello",
        b"GET \xff\xfe HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
    ] {
        let mut socket = connect(served.address());
        socket.write_all(garbage).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = read_all(socket);
        let refused = answer.starts_with(b"HTTP/1.1 4") || answer.is_empty();
        assert!(refused, "{:?}", String::from_utf8_lossy(&answer));
        bystander.echo("still here");
    }
    assert_eq!(bystander_end(bystander), (1000, String::new()));
}

fn bystander_end(mut bystander: Client) -> (u16, String) {
    bystander.close(1000, "");
    match bystander.next() {
        Got::Close(code, reason) => (code, reason),
        other => panic!("{other:?}"),
    }
}

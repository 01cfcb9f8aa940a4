//! From the request's bytes to an open connection, or a refusal.

use std::io::Write;

use crate::support::{Client, Got, HEAD, Served, Site, connect, exchange, frame};

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

fn status(served: &Served, head: &str) -> u16 {
    exchange(served.address(), head.as_bytes()).status
}

#[test]
fn each_broken_rule_has_its_status() {
    let served = Site::new().plugin("echo").start();
    let replaced = |from: &str, to: &str| {
        assert!(HEAD.contains(from));
        status(&served, &format!("{}\r\n", HEAD.replace(from, to)))
    };
    assert_eq!(replaced("/echo", "/nowhere"), 404);
    assert_eq!(replaced("/echo", "/Echo"), 404);
    assert_eq!(replaced("/echo", "/echo/"), 404);
    assert_eq!(replaced("GET", "POST"), 405);
    assert_eq!(replaced("HTTP/1.1", "HTTP/1.0"), 400);
    assert_eq!(replaced("Host: t\r\n", ""), 400);
    assert_eq!(replaced("Host: t", "Host: t\r\nHost: u"), 400);
    assert_eq!(replaced("Host: t", "Host : t"), 400);
    assert_eq!(replaced("Host: t", "Host: t\r\n folded"), 400);
    assert_eq!(replaced("dGhlIHNhbXBsZSBub25jZQ==", "abc"), 400);
    assert_eq!(replaced("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""), 400);
    assert_eq!(replaced("Version: 13", "Version: 8"), 426);
    assert_eq!(replaced("Sec-WebSocket-Version: 13\r\n", ""), 426);
    assert_eq!(replaced("Connection: Upgrade", "Connection: not-upgrade"), 400);
    assert_eq!(replaced("Upgrade: websocket\r\n", ""), 400);
    assert_eq!(replaced("/echo", &format!("/{}", "x".repeat(16 << 10))), 414);
}

#[test]
fn what_is_supported_is_said() {
    let served = Site::new().start();
    let plain = exchange(served.address(), b"GET /builtin HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(plain.status, 426);
    assert_eq!(plain.field("Upgrade"), Some("websocket"));
    assert!(plain.field("Connection").unwrap().to_lowercase().contains("upgrade"));
    let old = HEAD.replace("/echo", "/builtin").replace("13", "8");
    let old = exchange(served.address(), format!("{old}\r\n").as_bytes());
    assert_eq!(old.field("Sec-WebSocket-Version"), Some("13"));
    let post = HEAD.replace("/echo", "/builtin").replace("GET", "POST");
    let post = exchange(served.address(), format!("{post}\r\n").as_bytes());
    assert_eq!((post.status, post.field("Allow")), (405, Some("GET")));
}

#[test]
fn tokens_may_stand_anywhere_in_their_lists() {
    let served = Site::new().plugin("echo").start();
    for (from, to) in [
        ("Connection: Upgrade", "Connection: keep-alive,Upgrade"),
        ("Connection: Upgrade", "Connection: keep-alive\r\nconnection: upgrade"),
        ("Upgrade: websocket", "UPGRADE: WebSocket"),
        (
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "sec-websocket-key:\tdGhlIHNhbXBsZSBub25jZQ== ",
        ),
    ] {
        assert!(HEAD.contains(from), "{from}");
        let mut socket = connect(served.address());
        socket.write_all(format!("{}\r\n", HEAD.replace(from, to)).as_bytes()).unwrap();
        socket.write_all(&frame(0x88, b"")).unwrap();
        let bytes = read_all(socket);
        assert!(bytes.starts_with(b"HTTP/1.1 101 "), "{to}");
        let head = String::from_utf8_lossy(&bytes);
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    }
}

#[test]
fn a_head_has_a_limit_that_frames_do_not_count_against() {
    let served = Site::new().plugin("echo").set("server.max_header_size", "1KiB").start();
    let padded = |size: usize| {
        let filler = size - HEAD.len() - "X: \r\n\r\n".len();
        format!("{HEAD}X: {}\r\n\r\n", "x".repeat(filler))
    };
    assert_eq!(padded(1024).len(), 1024);
    assert_eq!(status(&served, &padded(1025)), 431);
    assert_eq!(status(&served, &format!("{HEAD}X: {}", "x".repeat(1 << 20))), 431, "20 times read");

    let mut bytes = padded(1024).into_bytes();
    bytes.extend(frame(0x82, &[9; 20_000]));
    bytes.extend(frame(0x88, b"\x03\xe8"));
    let mut socket = connect(served.address());
    socket.write_all(&bytes).unwrap();
    let answer = read_all(socket);
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    let echoed = [&[0x82, 126, 0x4e, 0x20][..], &[9; 20_000], b"\x88\x02\x03\xe8"].concat();
    assert!(answer.ends_with(&echoed), "the 20 KB behind the head are lost");
}

#[test]
fn an_origin_must_be_a_known_one_if_there_is_one() {
    let site = Site::new().plugin("echo");
    let served = site.set("server.allowed_origins", "https://good.test").start();
    let with = |origin: &str| status(&served, &format!("{HEAD}Origin: {origin}\r\n\r\n"));
    assert_eq!(with("https://evil.test"), 403);
    assert_eq!(with("https://good.test.evil.test"), 403);
    assert_eq!(with("http://good.test"), 403);
    assert_eq!(with("null"), 403);
    let field = plugsock_ws::handshake::Field::new("Origin", b"https://good.test").unwrap();
    let socket = connect(served.address());
    Client::over(socket, "/echo", &[], &[field]).unwrap().echo("a good one");
    Client::open(served.address(), "/echo").echo("not from a browser");
}

#[test]
fn one_of_the_offered_subprotocols_is_chosen() {
    let route = "[[route]]\npath = \"/b\"\nbuiltin = \"echo\"\nsubprotocols = [\"b\"]\n\
        [[route]]\npath = \"/must\"\nbuiltin = \"echo\"\nsubprotocols = [\"b\"]\n\
        require_subprotocol = true\n";
    let served = Site::new().toml(route).start();
    let open = |path, offered: &[&str]| {
        let socket = connect(served.address());
        Client::over(socket, path, offered, &[]).map(|client| client.subprotocol)
    };
    let chosen = Ok(Some("b".to_owned()));
    assert_eq!(open("/b", &["a", "b"]), chosen);
    for offered in [&["B"][..], &["zzz"], &[]] {
        assert_eq!(open("/b", offered), Ok(None), "{offered:?}");
        assert_eq!(open("/must", offered), Err(400), "{offered:?}");
    }
    assert_eq!(open("/must", &["b"]), chosen);

    // The list over two lines.
    let head = HEAD.replace("/echo", "/b");
    let lines = "Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n";
    let mut socket = connect(served.address());
    socket.write_all(format!("{head}{lines}\r\n").as_bytes()).unwrap();
    socket.write_all(&frame(0x88, b"")).unwrap();
    let answer = String::from_utf8_lossy(&read_all(socket)).into_owned();
    assert_eq!(answer.matches("Sec-WebSocket-Protocol: b\r\n").count(), 1, "{answer}");
    assert_eq!(answer.to_lowercase().matches("sec-websocket-protocol").count(), 1, "{answer}");
}

#[test]
fn extensions_are_not_agreed_on_whatever_the_offer_looks_like() {
    let served = Site::new().plugin("echo").start();
    for offer in [
        "permessage-deflate; client_max_window_bits",
        "constructor",
        "x-a; v=\"1, permessage-deflate\"",
        "permessage-deflate; server_max_window_bits=8, permessage-deflate",
    ] {
        let mut socket = connect(served.address());
        let head = format!("{HEAD}Sec-WebSocket-Extensions: {offer}\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&frame(0x88, b"")).unwrap();
        let answer = String::from_utf8_lossy(&read_all(socket)).to_lowercase();
        assert!(answer.starts_with("http/1.1 101 "), "{offer}: {answer}");
        assert!(!answer.contains("sec-websocket-extensions"), "{offer}: {answer}");
    }
}

/// Frames in the same segment as the head, or cut anywhere.
#[test]
fn frames_behind_the_head_are_handled_wherever_tcp_cuts() {
    let served = Site::new().plugin("echo").start();
    let frames = [frame(0x81, b"early"), frame(0x89, b"k"), frame(0x88, b"\x03\xe8")].concat();
    let bytes = [format!("{HEAD}\r\n").as_bytes(), &frames].concat();
    let check = |socket, how: &str| {
        let answer = read_all(socket);
        assert!(answer.starts_with(b"HTTP/1.1 101 "), "{how}");
        let head = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let got = &answer[head + 4..];
        // The pong need not wait for the handler.
        let pong_first = b"\x8a\x01k\x81\x05early\x88\x02\x03\xe8";
        let echo_first = b"\x81\x05early\x8a\x01k\x88\x02\x03\xe8";
        assert!(got == pong_first || got == echo_first, "{how}: {got:x?}");
    };

    let mut socket = connect(served.address());
    socket.write_all(&bytes).unwrap();
    check(socket, "one write");

    let mut socket = connect(served.address());
    for byte in &bytes {
        socket.write_all(&[*byte]).unwrap();
    }
    check(socket, "a byte at a time");

    let sockets: Vec<_> = (1..bytes.len())
        .map(|cut| {
            let mut socket = connect(served.address());
            socket.write_all(&bytes[..cut]).unwrap();
            (cut, socket)
        })
        .collect();
    for (cut, mut socket) in sockets {
        socket.write_all(&bytes[cut..]).unwrap();
        check(socket, &format!("cut at {cut}"));
    }
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

fn read_all(mut socket: std::net::TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match std::io::Read::read_to_end(&mut socket, &mut bytes) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => panic!("{error}"),
        _ => bytes,
    }
}

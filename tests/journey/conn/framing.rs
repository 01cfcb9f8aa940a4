//! What frames may look like, and what becomes of those that may not.

use std::io::Write;

use plugsock_ws::frame::Opcode;

use crate::support::{Client, Got, Random, Site, frame, masked, with_key};

const MIB: usize = 1 << 20;

#[test]
fn every_size_comes_back_whole_up_to_the_limit() {
    let served = Site::new().plugin("echo").start();
    for path in ["/echo", "/builtin"] {
        let mut client = Client::open(served.address(), path);
        for size in [0, 1, 125, 126, 65_535, 65_536, MIB, 4 * MIB] {
            let text: String = ('a'..='z').cycle().take(size).collect();
            client.text(&text);
            assert!(client.next() == Got::Text(text), "{size} in text");
            let bytes: Vec<u8> = (0..=255).cycle().take(size).collect();
            client.binary(&bytes);
            assert!(client.next() == Got::Binary(bytes), "{size} in binary");
        }
        // Read to its end, though not kept: a reset would cost most clients the close code.
        client.binary(&vec![0; 4 * MIB + 1]);
        assert_eq!(client.expect_close().0, 1009);
    }
}

#[test]
fn a_message_too_large_is_refused_by_what_it_declares() {
    let site = Site::new().plugin("echo").set("limits.max_frame_size", "1000");
    let served = site.set("limits.max_message_size", "1000").start();
    let mut client = Client::open(served.address(), "/echo");
    client.raw(
        &[&frame(0x02, &[1; 400])[..], &frame(0x00, &[2; 400]), &frame(0x80, &[3; 200])].concat(),
    );
    let Got::Binary(whole) = client.next() else { panic!("1000 pass") };
    assert_eq!(whole.len(), 1000);
    client.raw(&frame(0x02, &[1; 400]));
    // Only the header: the payload is never waited for.
    client.raw(&with_key(&[0x80, 0x80 | 126, 0x02, 0x59], b""));
    assert_eq!(client.expect_close().0, 1009);
}

#[test]
fn control_frames_may_stand_between_fragments() {
    let served = Site::new().plugin("echo").start();
    let mut client = Client::open(served.address(), "/echo");
    client.raw(&[frame(0x01, b"hello"), frame(0x89, b"")].concat());
    assert_eq!(client.next(), Got::Pong(Vec::new()), "before the message ends");
    client.raw(&frame(0x80, b"world"));
    client.expect("helloworld");
    for byte in "κόσμε".as_bytes().iter().enumerate() {
        let first = if byte.0 == 0 { 0x01 } else { 0x00 };
        client.raw(&frame(first, &[*byte.1]));
    }
    client.raw(&frame(0x80, b""));
    client.expect("κόσμε");
}

/// Byte strings that break a rule, and the close code that says so.
fn faults() -> Vec<(&'static str, Vec<u8>, u16)> {
    let long = |first: u8, len: [u8; 8], payload: &[u8]| {
        with_key(&[&[first, 0xff][..], &len].concat(), payload)
    };
    vec![
        ("text in a message", [frame(0x01, b"ab"), frame(0x81, b"cd")].concat(), 1002),
        ("orphan continuation", frame(0x80, b"xx"), 1002),
        ("fragmented ping", frame(0x09, b""), 1002),
        ("fragmented ping with RSV1", frame(0x49, b""), 1002),
        ("ping with RSV1", frame(0xC9, b""), 1002),
        ("text with RSV1", frame(0xC1, b""), 1002),
        ("text with RSV2", frame(0xA1, b""), 1002),
        ("text with RSV3", frame(0x91, b""), 1002),
        ("opcode 3", frame(0x83, b""), 1002),
        ("opcode 11", frame(0x8B, b""), 1002),
        ("ping of 126", frame(0x89, &[0; 126]), 1002),
        ("no mask", b"\x81\x02hi".to_vec(), 1002),
        ("top bit of the length", long(0x82, [0x80, 0, 0, 0, 0, 0, 0, 0], b""), 1002),
        ("all bits of the length", long(0x82, [255, 255, 255, 255, 255, 255, 255, 252], b""), 1002),
        ("5 in 16 bits", with_key(&[0x82, 0xFE, 0, 5], b"12345"), 1002),
        ("5 in 64 bits", long(0x82, [0, 0, 0, 0, 0, 0, 0, 5], b"12345"), 1002),
        ("2^62 bytes", long(0x82, [0x40, 0, 0, 0, 0, 0, 0, 0], b""), 1009),
        ("cut code point", frame(0x81, b"\xce"), 1007),
        ("surrogate", frame(0x81, b"\xed\xa0\x80"), 1007),
        ("overlong", frame(0x81, b"\xc0\x80"), 1007),
        ("beyond Unicode", frame(0x81, b"\xf5"), 1007),
        ("bad over a seam", [frame(0x01, b"\xf4"), frame(0x80, b"\x90")].concat(), 1007),
        ("close of one byte", frame(0x88, b"\x03"), 1002),
        ("close 0", frame(0x88, &[0, 0]), 1002),
        ("close 999", frame(0x88, &[0x03, 0xE7]), 1002),
        ("close 1004", frame(0x88, &[0x03, 0xEC]), 1002),
        ("close 1005", frame(0x88, &[0x03, 0xED]), 1002),
        ("close 1006", frame(0x88, &[0x03, 0xEE]), 1002),
        ("close 1015", frame(0x88, &[0x03, 0xF7]), 1002),
        ("close 1024", frame(0x88, &[0x04, 0x00]), 1002),
        ("close 2999", frame(0x88, &[0x0B, 0xB7]), 1002),
        ("close 5000", frame(0x88, &[0x13, 0x88]), 1002),
        ("close 65535", frame(0x88, &[0xFF, 0xFF]), 1002),
        ("bad reason", frame(0x88, b"\x03\xe8\xc3\x28"), 1007),
    ]
}

#[test]
fn a_broken_rule_costs_that_connection_only_and_the_right_code_arrives() {
    let served = Site::new().plugin("echo").start();
    let mut bystander = Client::open(served.address(), "/echo");
    for path in ["/echo", "/builtin"] {
        for (what, bytes, code) in faults() {
            let mut client = Client::open(served.address(), path);
            client.raw(&bytes);
            // What is sent behind it must not make a reset overtake the close frame.
            let _ = client.socket.write_all(&[0x55; 100_000]);
            assert_eq!(client.expect_close().0, code, "{what}, one write");

            let mut client = Client::open(served.address(), path);
            for byte in &bytes {
                // The rule may be broken before the last byte.
                let _ = client.socket.write_all(&[*byte]);
            }
            assert_eq!(client.expect_close().0, code, "{what}, a byte at a time");
            bystander.echo(what);
        }
    }
}

#[test]
fn messages_before_a_fault_do_not_hide_it() {
    let served = Site::new().plugin("echo").start();
    for (what, bytes, code) in faults() {
        let mut client = Client::open(served.address(), "/echo");
        client.raw(&[frame(0x81, b"good"), bytes].concat());
        loop {
            match client.next() {
                Got::Text(text) => assert_eq!(text, "good", "{what}"),
                Got::Close(got, _) => break assert_eq!(got, code, "{what}"),
                other => panic!("{what}: {other:?}"),
            }
        }
    }
}

#[test]
fn any_masking_and_any_cut_gives_the_same_messages() {
    let served = Site::new().plugin("echo").start();
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut client = Client::open(served.address(), "/echo");
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let size = [0, 5, 125, 126, 3_000, 70_000][random.below(6)];
            let payload: Vec<u8> = (0..=255).cycle().take(size).collect();
            let parts = 1 + random.below(4);
            let mut chunks: Vec<&[u8]> =
                payload.chunks(payload.len().div_ceil(parts).max(1)).collect();
            if chunks.is_empty() {
                chunks.push(&[]);
            }
            let last = chunks.len() - 1;
            for (at, chunk) in chunks.iter().enumerate() {
                let opcode = if at == 0 { 0x02 } else { 0x00 };
                let fin = if at == last { 0x80 } else { 0x00 };
                bytes.extend(masked(opcode | fin, chunk, random.key()));
            }
            expected.push(Got::Binary(payload));
        }
        let mut rest = &bytes[..];
        let mut writer = client.socket.try_clone().unwrap();
        let cuts: Vec<usize> = (0..200).map(|_| 1 + random.below(7_000)).collect();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for cut in cuts.into_iter().cycle() {
                    let (now, later) = rest.split_at(cut.min(rest.len()));
                    writer.write_all(now).unwrap();
                    rest = later;
                    if rest.is_empty() {
                        return;
                    }
                }
            });
            for message in expected {
                assert!(client.next() == message, "seed {seed}");
            }
        });
    }
}

#[test]
fn pings_are_answered_with_their_own_body() {
    let served = Site::new().plugin("echo").start();
    let mut client = Client::open(served.address(), "/echo");
    for body in [&b""[..], b"k", &[0xff; 125]] {
        client.ping(body);
        assert_eq!(client.next(), Got::Pong(body.to_vec()));
    }
    client.send(Opcode::Pong, b"nobody asked");
    client.send(Opcode::Pong, b"");
    client.echo("still here");
}

#[test]
fn thousands_of_half_sent_messages_cost_what_was_sent() {
    let process = Site::new().plugin("echo").spawn();
    let base = process.resident_kib();
    // Each declares almost 4 MiB and sends only the header.
    let header = with_key(&[0x82, 0xFF, 0, 0, 0, 0, 0, 0x3F, 0xFF, 0xF0], b"");
    let clients: Vec<Client> = (0..2_000)
        .map(|_| {
            let mut client = Client::open(process.address(), "/echo");
            client.raw(&header);
            client
        })
        .collect();
    Client::open(process.address(), "/echo").echo("all were read");
    let grown = process.resident_kib().saturating_sub(base);
    assert!(grown < 32 << 10, "{grown} KiB for {} headers", clients.len());
}

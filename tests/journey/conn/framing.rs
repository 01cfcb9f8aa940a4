//! What frames may look like, and what becomes of those that may not.

use std::io::Write;

use plugsock_ws::deflate::{Compressor, Settings};
use plugsock_ws::extension::WindowBits;
use plugsock_ws::frame::Opcode;

use super::compression::DEFLATE;
use super::deflate::compressing;
use crate::support::{Case, Client, Got, Random, Site, Stage, frame, headed, masked};

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

fn text(text: &str) -> Got {
    Got::Text(text.to_owned())
}

fn play(site: Site, cases: &[Case]) {
    let mut stage = Stage::new(site);
    for case in cases {
        stage.check(case);
    }
    stage.end();
}

#[test]
fn bl_01_control_frames_and_messages_do_not_mix() {
    let pong = |body: &[u8]| Got::Pong(body.to_vec());
    play(
        Site::new(),
        &[
            Case::answers("a ping between fragments", &[pong(b""), text("helloworld")], |key| {
                let ping = masked(0x89, b"", key);
                [masked(0x01, b"hello", key), ping, masked(0x80, b"world", key)].concat()
            }),
            Case::answers("a pong between fragments", &[text("helloworld")], |key| {
                let pong = masked(0x8A, b"?", key);
                [masked(0x01, b"hello", key), pong, masked(0x80, b"world", key)].concat()
            }),
            Case::closes("a text in a message", 1002, |key| {
                [masked(0x01, b"ab", key), masked(0x81, b"cd", key)].concat()
            }),
            Case::closes("a binary message in a message", 1002, |key| {
                [masked(0x01, b"ab", key), masked(0x02, b"cd", key)].concat()
            }),
            Case::closes("an orphan continuation", 1002, |key| masked(0x80, b"xx", key)),
            Case::closes("one behind a whole message", 1002, |key| {
                [masked(0x81, b"ab", key), masked(0x80, b"xx", key)].concat()
            })
            .after(&[text("ab")]),
        ],
    );
}

#[test]
fn bl_01_a_ping_is_answered_before_the_message_ends() {
    let served = Site::new().plugin("echo").start();
    let mut client = Client::open(served.address(), "/echo");
    client.raw(&[frame(0x01, b"hello"), frame(0x89, b"")].concat());
    assert_eq!(client.next(), Got::Pong(Vec::new()));
    client.raw(&frame(0x80, b"world"));
    client.expect("helloworld");
}

#[test]
fn bl_02_header_bits_without_a_meaning_cost_the_connection() {
    let bare = [
        ("a fragmented ping", 0x09),
        ("a fragmented ping with RSV1", 0x49),
        ("a ping with RSV1", 0xC9),
        ("a pong with RSV1", 0xCA),
        ("a close frame with RSV1", 0xC8),
        ("a text with RSV2", 0xA1),
        ("a text with RSV3", 0x91),
        ("opcode 3", 0x83),
        ("opcode 7", 0x87),
        ("opcode 11", 0x8B),
        ("opcode 15", 0x8F),
    ];
    let mut cases = Vec::new();
    for offer in ["", DEFLATE] {
        let with = |case: Case| if offer.is_empty() { case } else { case.offering(offer) };
        for (what, first) in bare {
            let what = format!("{what} {offer}");
            cases.push(with(Case::closes(what, 1002, move |key| masked(first, b"", key))));
        }
        let long = |key| headed(b"\x89\xfe\x00\x7e", &[0; 126], key);
        cases.push(with(Case::closes("a ping of 126 bytes", 1002, long)));
        let unmasked = |_| b"\x81\x02hi".to_vec();
        cases.push(with(Case::closes("a frame without a mask", 1002, unmasked)));
    }
    play(compressing(), &cases);
}

#[test]
fn bl_03_lengths_in_the_wrong_form_or_above_the_limit_cost_the_connection() {
    let case = |what: &str, code, header: &[u8], payload: &'static [u8]| {
        let header = header.to_vec();
        Case::closes(what, code, move |key| headed(&header, payload, key))
    };
    let long = |what, code, len: u64, payload| {
        case(what, code, &[&[0x82, 0xFF], &len.to_be_bytes()[..]].concat(), payload)
    };
    play(
        Site::new(),
        &[
            long("the top bit of the length", 1002, 1 << 63, b""),
            long("nearly all bits of the length", 1002, u64::MAX - 3, b""),
            case("5 bytes in 16 bits", 1002, b"\x82\xfe\x00\x05", b"12345"),
            case("125 bytes in 16 bits", 1002, b"\x82\xfe\x00\x7d", b""),
            long("5 bytes in 64 bits", 1002, 5, b"12345"),
            long("65,535 bytes in 64 bits", 1002, 0xFFFF, b""),
            // Only the header: the payload is never waited for.
            long("2^62 bytes", 1009, 1 << 62, b""),
            long("one byte above the limit", 1009, 4 * MIB as u64 + 1, b""),
        ],
    );
}

#[test]
fn bl_03_a_message_too_large_is_refused_by_what_it_declares() {
    let site = Site::new().set("limits.max_frame_size", "1000");
    let whole: Vec<u8> = [[1; 400], [2; 400]].concat().into_iter().chain([3; 200]).collect();
    let two = |key| [masked(0x02, &[1; 400], key), masked(0x00, &[2; 400], key)].concat();
    play(
        site.set("limits.max_message_size", "1000"),
        &[
            Case::answers("exactly the limit", &[Got::Binary(whole)], move |key| {
                [two(key), masked(0x80, &[3; 200], key)].concat()
            }),
            // The header of 201 bytes, without them.
            Case::closes("one byte more", 1009, move |key| {
                [two(key), headed(b"\x80\xfe\x00\xc9", b"", key)].concat()
            }),
        ],
    );
}

#[test]
fn bl_04_text_is_utf_8_as_a_whole() {
    let mut cases = Vec::new();
    let fragments = |first: u8, payload: &[u8], key| -> Vec<u8> {
        let last = payload.len() - 1;
        let frame = |(place, byte): (usize, &u8)| {
            let opcode = if place == 0 { first } else { 0x00 };
            masked(opcode | if place == last { 0x80 } else { 0x00 }, &[*byte], key)
        };
        payload.iter().enumerate().flat_map(frame).collect()
    };
    let bad: [(&str, &[u8]); 6] = [
        ("bad over a seam", b"\xf4\x90"),
        ("a cut code point", b"ab\xce"),
        ("a surrogate", b"\xed\xa0\x80"),
        ("an overlong form", b"\xc0\x80"),
        ("beyond Unicode", b"\xf5"),
        ("bytes of no form", b"\xff\xfe"),
    ];
    let good = "κόσμε";
    cases.push(Case::answers("a byte per fragment", &[text(good)], move |key| {
        fragments(0x01, good.as_bytes(), key)
    }));
    let payload = deflated(good.as_bytes());
    cases.push(
        Case::answers("a compressed byte per fragment", &[text(good)], move |key| {
            fragments(0x41, &payload, key)
        })
        .offering(DEFLATE),
    );
    for (what, bytes) in bad {
        cases.push(Case::closes(what, 1007, move |key| masked(0x81, bytes, key)));
        let what = format!("{what}, in fragments");
        cases.push(Case::closes(&what, 1007, move |key| fragments(0x01, bytes, key)));
        let payload = deflated(bytes);
        let what = format!("{what}, compressed");
        let compressed = move |key| fragments(0x41, &payload, key);
        cases.push(Case::closes(what, 1007, compressed).offering(DEFLATE));
    }
    play(compressing(), &cases);
}

/// The payload of a compressed message.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(Settings::default(), WindowBits::MAX);
    compressor.compress(bytes).unwrap().to_vec()
}

#[test]
fn bl_05_close_frames_are_answered_by_the_rules() {
    let closing = |code: u16| move |key| masked(0x88, &code.to_be_bytes(), key);
    let mut cases = vec![
        Case::closes("one byte", 1002, |key| masked(0x88, b"\x03", key)),
        Case::closes("a reason that is not UTF-8", 1007, |key| {
            masked(0x88, b"\x03\xe8\xc3\x28", key)
        }),
        Case::closes("no code", 1005, |key| masked(0x88, b"", key)),
        Case::closes("24 bytes", 1000, |key| masked(0x88, b"\x03\xe8until the next time...", key)),
        Case::closes("125 bytes", 3000, |key| {
            masked(0x88, &[&b"\x0b\xb8"[..], &[b'r'; 123]].concat(), key)
        }),
    ];
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1024, 2999, 5000, 65535] {
        cases.push(Case::closes(format!("close {code}"), 1002, closing(code)));
    }
    for code in (1000..=1003).chain(1007..=1014).chain([3000, 4999]) {
        cases.push(Case::closes(format!("close {code}"), code, closing(code)));
    }
    play(Site::new(), &cases);
}

/// Whatever a client sends behind its mistake must not make a reset overtake the close frame.
#[test]
fn the_close_code_arrives_though_more_was_sent() {
    let served = Site::new().plugin("echo").start();
    for path in ["/echo", "/builtin"] {
        for first in [0x91, 0x83, 0x80] {
            let mut client = Client::open(served.address(), path);
            client.raw(&frame(first, b""));
            let _ = client.socket.write_all(&[0x55; 100_000]);
            assert_eq!(client.expect_close().0, 1002);
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
fn bl_03_thousands_of_half_sent_messages_cost_what_was_sent() {
    let process = Site::new().plugin("echo").spawn();
    let base = process.resident_kib();
    // Each declares almost 4 MiB and sends only the header.
    let header = headed(&[0x82, 0xFF, 0, 0, 0, 0, 0, 0x3F, 0xFF, 0xF0], b"", [0; 4]);
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

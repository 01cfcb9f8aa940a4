//! Compressed messages from clients, right and wrong (RFC 7692 §7.2, §8).

use plugsock_ws::deflate::{Compressor, Settings};
use plugsock_ws::extension::WindowBits;

use super::compression::{DEFLATE, OFFERS, site};
use crate::support::{Client, Got, frame};

const MIB: usize = 1 << 20;

/// So many zeros as one compressed binary frame.
fn zeros(count: usize) -> Vec<u8> {
    let mut compressor = Compressor::new(Settings { level: 9, mem_level: 9 }, WindowBits::MAX);
    frame(0xC2, compressor.compress(&vec![0; count]).unwrap())
}

#[test]
fn bl_15_the_limit_counts_inflated_bytes_and_the_limit_itself_passes() {
    let served = site().set("limits.max_message_size", "1MiB").set("limits.max_frame_size", "1MiB");
    let served = served.start();
    for path in ["/echo", "/builtin"] {
        let mut client = Client::open_offering(served.address(), path, DEFLATE);
        client.raw(&zeros(MIB));
        assert!(client.next() == Got::Binary(vec![0; MIB]));
        client.raw(&zeros(MIB + 1));
        assert_eq!(client.expect_close().0, 1009);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn bl_15_bombs_cost_neither_memory_nor_the_others_their_turn() {
    let process = site().set("compression.context_takeover", "true").spawn();
    let bomb = zeros(64 * MIB);
    assert!(bomb.len() < 70_000, "{}", bomb.len());
    let mut bystander = Client::open(process.address(), "/echo");
    let mut clients: Vec<Client> = (0..20)
        .map(|number| {
            let path = if number % 2 == 0 { "/echo" } else { "/builtin" };
            Client::open_offering(process.address(), path, DEFLATE)
        })
        .collect();
    for client in &mut clients {
        client.raw(&bomb);
    }
    for number in 0..50 {
        bystander.echo(&number.to_string());
    }
    for client in &mut clients {
        assert_eq!(client.expect_close().0, 1009);
    }
    bystander.echo("still here");
    let peak = process.peak_kib();
    assert!(peak < 200 << 10, "{peak} KiB");
}

#[test]
fn a_bomb_in_a_thousand_fragments_is_one_too() {
    let served = site().start();
    let mut compressor = Compressor::new(Settings::default(), WindowBits::MAX);
    let payload = compressor.compress(&vec![0; 16 * MIB]).unwrap().to_vec();
    let parts: Vec<&[u8]> = payload.chunks(payload.len().div_ceil(1_000)).collect();
    let mut bytes = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let first = if place == 0 { 0x42 } else { 0x00 };
        let fin = if place + 1 == parts.len() { 0x80 } else { 0x00 };
        bytes.extend(frame(first | fin, part));
    }
    let mut client = Client::open_offering(served.address(), "/echo", DEFLATE);
    client.raw(&bytes);
    assert_eq!(client.expect_close().0, 1009);
}

#[test]
fn what_is_not_deflate_or_bears_a_bit_in_vain_costs_the_connection() {
    let served = site().set("compression.context_takeover", "true").start();
    let mut bystander = Client::open_offering(served.address(), "/echo", DEFLATE);
    let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let cases = [
        ("a block of type 3", frame(0xC1, &[0xff; 20]), 1007),
        ("stored lengths that differ", frame(0xC2, &[0, 5, 0, 0, 0, 1]), 1007),
        ("a reference to before the start", frame(0xC1, &[0xf2, 0x00, 0x11, 0x00, 0x00]), 1007),
        ("BL-16 no byte at all", frame(0xC1, b""), 1007),
        ("text that is not UTF-8", frame(0xC1, &[0, 2, 0, 0xfd, 0xff, 0xc3, 0x28, 0]), 1007),
        ("ping with RSV1", frame(0xC9, b""), 1002),
        ("pong with RSV1", frame(0xCA, b""), 1002),
        ("close with RSV1", frame(0xC8, &[0x03, 0xE8]), 1002),
        ("text with RSV2", frame(0xE1, &hello), 1002),
        (
            "BL-17 RSV1 on a continuation",
            [frame(0x41, &hello[..4]), frame(0xC0, &hello[4..])].concat(),
            1002,
        ),
    ];
    for path in ["/echo", "/builtin"] {
        for (what, bytes, code) in &cases {
            let mut client = Client::open_offering(served.address(), path, DEFLATE);
            client.raw(bytes);
            let (got, reason) = client.expect_close();
            assert_eq!(got, *code, "{what}");
            assert!(!reason.is_empty(), "{what}");
            bystander.echo(what);
        }
        let mut client = Client::open(served.address(), path);
        client.raw(&frame(0xC1, &hello));
        assert_eq!(client.expect_close().0, 1002, "without an agreement");
    }
}

#[test]
fn bl_18_the_bytes_of_rfc_7692_are_read_as_agreed() {
    let hello = frame(0xC1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    let again = frame(0xC1, &[0xf2, 0x00, 0x11, 0x00, 0x00]);
    let served = site().set("compression.context_takeover", "true").start();
    for (words, _, keeps) in OFFERS {
        let offer = format!("{DEFLATE}{words}");
        let mut client = Client::open_offering(served.address(), "/echo", &offer);
        for _ in 0..2 {
            client.raw(&hello);
            client.expect("Hello");
        }
        // BL-16: an empty message between two others.
        client.raw(&frame(0xC1, &[0]));
        client.expect("");
        // BL-17: RSV1 counts for all fragments, and a ping may stand between them.
        client.raw(&[frame(0x41, &[0xf2, 0x48, 0xcd]), frame(0x89, b"p")].concat());
        assert_eq!(client.next(), Got::Pong(b"p".to_vec()));
        client.raw(&frame(0x80, &[0xc9, 0xc9, 0x07, 0x00]));
        client.expect("Hello");
        client.raw(&again);
        if keeps {
            client.expect("Hello");
        } else {
            assert_eq!(client.expect_close().0, 1007, "{offer}");
        }
    }
}

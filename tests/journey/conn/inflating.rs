//! Compressed messages from clients, right and wrong (RFC 7692 §7.2, §8).

use plugsock_ws::deflate::{Compressor, Settings};
use plugsock_ws::extension::WindowBits;

use super::compression::{DEFLATE, site};
use super::deflate::compressing;
use crate::support::{Client, Got, Site, Stage, frame};

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
fn bl_15_the_limit_does_not_depend_on_how_tcp_cuts() {
    let limit = |site: Site, key| site.set(key, "1MiB");
    let site = limit(limit(compressing(), "limits.max_message_size"), "limits.max_frame_size");
    let mut stage = Stage::new(site);
    let frames = [(zeros(MIB), true), (zeros(MIB + 1), false)];
    for (bytes, passes) in &frames {
        assert!(bytes.len() < 1_100, "{}", bytes.len());
        let address = stage.address();
        let judge = |mut client: Client, how: &str| {
            if *passes {
                assert!(client.next() == Got::Binary(vec![0; MIB]), "{how}");
                client.close(1009, "");
            }
            let got = client.next();
            assert!(matches!(got, Got::Close(1009, _)), "{how}: {got:?}");
        };
        let open = || Client::open_offering(address, "/ledger", DEFLATE);
        let count = stage.play(bytes, open, judge);
        stage.expect_told(count, 1009, "the limit");
        stage.expect_calm("the limit");
    }
    stage.end();
}

#[test]
#[cfg(target_os = "linux")]
fn bl_15_bombs_cost_neither_memory_nor_the_others_their_turn() {
    let process = site().set("compression.context_takeover", "true").spawn();
    let bomb = zeros(64 * MIB);
    assert!(bomb.len() < 70_000, "{}", bomb.len());
    let mut bystander = Client::open(process.address(), "/echo");
    bystander.echo("warm");
    let base = process.peak_kib();
    let mut clients: Vec<Client> = (0..50)
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
    // The limit of a message and the window, each, and a quarter for what the allocator holds.
    let bound = base + 50 * (4096 + 64) * 5 / 4;
    assert!(peak < bound, "{peak} KiB, {bound} are allowed");
}

#[test]
fn bl_15_a_bomb_in_a_thousand_fragments_is_one_too() {
    let served = site().start();
    let mut compressor = Compressor::new(Settings::default(), WindowBits::MAX);
    let payload = compressor.compress(&vec![0; 64 * MIB]).unwrap().to_vec();
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

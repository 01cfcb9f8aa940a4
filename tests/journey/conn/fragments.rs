//! Large messages leave in fragments (RFC 6455 §5.4), so that control frames need not wait.

use plugsock_ws::frame::{Header, Opcode};

use crate::support::{Client, Got, Random, Site, prose};

const DEFLATE: &str = "permessage-deflate";

fn site() -> Site {
    Site::new().plugin("echo").set("limits.fragment_size", "1KiB")
}

/// These frames must be one message in as few fragments as there can be.
#[track_caller]
fn assert_one_message(frames: &[Header], opcode: Opcode, compressed: bool) {
    let last = frames.len() - 1;
    for (place, frame) in frames.iter().enumerate() {
        let expected = if place == 0 { opcode } else { Opcode::Continuation };
        assert_eq!(frame.opcode, expected, "frame {place}");
        assert_eq!(frame.fin, place == last, "frame {place}");
        assert_eq!(frame.compressed, compressed && place == 0, "frame {place}");
        assert_eq!(frame.key, None);
        if place == last {
            assert!(frame.len <= 1_024);
        } else {
            assert_eq!(frame.len, 1_024, "frame {place}");
        }
    }
}

#[test]
fn a_message_leaves_in_as_many_fragments_as_it_needs() {
    let served = site().start();
    for path in ["/echo", "/builtin"] {
        let mut client = Client::open(served.address(), path);
        for (size, count) in
            [(0, 1), (1_023, 1), (1_024, 1), (1_025, 2), (2_048, 2), (2_049, 3), (10_000, 10)]
        {
            let text = prose(&mut Random::new(1), size);
            client.echo(&text);
            let frames = client.frames();
            assert_eq!(frames.len(), count, "{size} bytes, {path}");
            assert_one_message(&frames, Opcode::Text, false);
        }
        client.binary(&[1; 10_000]);
        assert_eq!(client.next(), Got::Binary(vec![1; 10_000]));
        assert_one_message(&client.frames(), Opcode::Binary, false);
    }
}

#[test]
fn only_the_first_fragment_says_that_the_message_is_compressed() {
    for takeover in ["true", "false"] {
        let site = site().set("compression.enabled", "true");
        let served = site.set("compression.context_takeover", takeover).start();
        for path in ["/echo", "/builtin"] {
            let mut client = Client::open_offering(served.address(), path, DEFLATE);
            for seed in 0..5 {
                let text = prose(&mut Random::new(seed), 10_000);
                client.echo(&text);
                let frames = client.frames();
                let size: u64 = frames.iter().map(|frame| frame.len).sum();
                assert!(size < 9_000, "{size}");
                assert_eq!(frames.len() as u64, size.div_ceil(1_024));
                assert!(frames.len() > 1);
                assert_one_message(&frames, Opcode::Text, true);
            }
            // Ten, where compression does not help.
            let mut random = Random::new(11);
            let noise: Vec<u8> = (0..2_500).flat_map(|_| random.key()).collect();
            client.binary(&noise);
            assert!(client.next() == Got::Binary(noise));
            let frames = client.frames();
            assert_eq!(frames.len(), 10);
            assert_one_message(&frames, Opcode::Binary, false);
        }
    }
}

/// Pings, one after the other's answer, while a message is read that is larger than what the
/// kernel keeps for the host.
#[test]
fn pings_are_answered_between_the_fragments_of_a_message() {
    const SIZE: usize = 8 << 20;
    // Without heartbeats the first frame that the client sees is the message's, so that its own
    // ping does not come with the end of the request.
    let site = site().set("compression.enabled", "true").set("heartbeat.enabled", "false");
    let site = site.set("limits.outbox_size", "32MiB");
    let site = site.set("limits.max_message_size", "8MiB").set("limits.max_frame_size", "8MiB");
    let served = site.start();
    let mut random = Random::new(17);
    let message: Vec<u8> = (0..SIZE / 4).flat_map(|_| random.key()).collect();
    for (path, offer) in [("/echo", ""), ("/builtin", ""), ("/echo", DEFLATE)] {
        let open = || match offer {
            "" => Client::open_with_buffers(served.address(), path, BUFFERS),
            offer => Client::open_offering_with_buffers(served.address(), path, offer, BUFFERS),
        };
        // The kernel may keep so much that the message has left before the host reads the ping.
        let between = (0..5).any(|_| pings_answered_within(&mut open(), &message) > 0);
        assert!(between, "none before the end of the message, {path} {offer}");
    }
}

/// Pings, one after the other's answer, until the message has come back. How many were answered
/// before its end.
fn pings_answered_within(client: &mut Client, message: &[u8]) -> u32 {
    client.binary(message);
    client.wait_for_frame();
    let mut answered = 0_u32;
    let whole = loop {
        let body = answered.to_be_bytes();
        client.ping(&body);
        match client.next() {
            Got::Pong(pong) => assert_eq!(pong, body),
            Got::Binary(whole) => break whole,
            other => panic!("{other:?}"),
        }
        answered += 1;
    };
    assert!(whole == message);
    assert_eq!(client.next(), Got::Pong(answered.to_be_bytes().to_vec()));
    let is_pong = |frame: &Header| frame.opcode == Opcode::Pong;
    let (pongs, frames): (Vec<Header>, Vec<Header>) =
        client.frames().into_iter().partition(is_pong);
    assert_eq!(pongs.len(), answered as usize + 1);
    assert_eq!(frames.len(), message.len() / 1_024);
    assert_one_message(&frames, Opcode::Binary, false);
    answered
}

/// Bytes in the client's kernel.
const BUFFERS: usize = 32 << 10;

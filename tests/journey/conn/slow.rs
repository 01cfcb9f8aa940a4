//! Peers that read slowly, or not at all, and peers that chatter.

use std::io::{Read, Write};
use std::time::Duration;

use plugsock::metrics::Counter;
use plugsock_ws::frame::Opcode;

use crate::support::{Client, Got, Site, frame, spawn};

/// It takes several times `close_timeout`, but it gets on.
#[test]
fn whoever_reads_slowly_still_gets_all_and_the_close_code() {
    let site = Site::new().plugin("farewell").set("server.close_timeout", "400ms");
    let served = site.set("limits.outbox_size", "8MiB").start();
    let mut client = Client::open_narrow(served.address(), "/farewell");
    let large = vec![7; 1 << 20];
    client.binary(&large);
    client.text("close 4000 bye");
    let mut come = Vec::new();
    let mut part = vec![0; 8 * 1024];
    let close = [&[0x88, 5][..], &4000_u16.to_be_bytes(), b"bye"].concat();
    while !come.ends_with(&close) {
        let n = client.socket.read(&mut part).unwrap();
        assert!(n > 0, "ended after {} bytes without a close frame", come.len());
        come.extend_from_slice(&part[..n]);
        plugsock::task::sleep(Duration::from_millis(10));
    }
    assert!(come.len() > large.len());
    client.close(4000, "");
    assert_eq!(client.socket.read(&mut part).unwrap(), 0);
}

#[test]
fn whoever_reads_nothing_is_gone_in_time_however_much_it_says() {
    let site = Site::new().plugin("farewell").set("limits.slow_consumer", "drop-newest");
    let site = site.set("heartbeat.interval", "100ms").set("heartbeat.timeout", "500ms");
    let served = site.start();
    let mut watcher = Client::open(served.address(), "/farewell");
    watcher.text("watch");
    watcher.expect("watching");
    let mut client = Client::open_narrow(served.address(), "/farewell");
    client.binary(&vec![7; 300_000]);
    let chatter = spawn(move || {
        let ping = frame(0x89, b"alive");
        // Until it is cut off.
        while client.socket.write_all(&ping).is_ok() {
            plugsock::task::sleep(Duration::from_millis(20));
        }
    });
    // Answers pings meanwhile.
    watcher.expect("left 1006");
    chatter.join().unwrap();
    watcher.echo("and whoever reads stays");
}

/// It answers pings, so it is there; but what it holds of the host's memory it holds in vain.
#[test]
fn bl_03_a_message_that_is_begun_must_be_gone_on_with() {
    let site = Site::new().plugin("echo").set("heartbeat.interval", "100ms");
    let served = site.set("heartbeat.timeout", "500ms").start();
    let half_a_frame = &frame(0x81, b"half of this comes")[..12];
    for begun in [half_a_frame, &half_a_frame[..1], &frame(0x01, b"a fragment")] {
        let mut client = Client::open(served.address(), "/echo");
        client.raw(begun);
        // It cannot send pongs inside a frame, but between two.
        if begun.len() < 13 {
            client.ignore_pings();
        }
        let end = loop {
            match client.next() {
                Got::Ping(_) => {}
                end => break end,
            }
        };
        assert!(matches!(end, Got::Close(1008, _)) || begun.len() < 13, "{end:?}");
    }
}

/// Slowly, or with a bit of the next message behind each one: whoever goes on is let.
#[test]
fn bl_24_whoever_goes_on_with_a_message_stays() {
    let step = Duration::from_millis(50);
    let site = Site::new().plugin("echo").set("heartbeat.interval", "50ms");
    let served = site.set("heartbeat.timeout", "300ms").start();
    let mut steady = Client::open(served.address(), "/echo");
    steady.ignore_pings();
    let large = frame(0x82, &[7; 40_000]);
    for part in large.chunks(large.len().div_ceil(30)) {
        steady.raw(part);
        plugsock::task::sleep(step);
    }
    expect_behind_pings(&mut steady, &Got::Binary(vec![7; 40_000]));

    let message = frame(0x81, &[b'x'; 50]);
    let stream: Vec<u8> = message.repeat(30);
    let (mut sent, mut whole) = (20, 0);
    steady.raw(&stream[..sent]);
    while sent < stream.len() {
        plugsock::task::sleep(step);
        let until = (sent + message.len()).min(stream.len());
        steady.raw(&stream[sent..until]);
        sent = until;
        whole += 1;
        expect_behind_pings(&mut steady, &Got::Text("x".repeat(50)));
    }
    assert_eq!(whole, 30);
}

fn expect_behind_pings(client: &mut Client, expected: &Got) {
    loop {
        match client.next() {
            Got::Ping(_) => {}
            got => break assert!(got == *expected),
        }
    }
}

/// The messages before a plugin's close do not fit, but its close frame does.
#[test]
fn a_close_behind_messages_that_do_not_fit_is_sent() {
    for policy in ["close", "drop-newest", "drop-oldest"] {
        let site = Site::new().plugin("farewell").set("limits.slow_consumer", policy);
        let served = site.set("limits.outbox_size", "64KiB").start();
        for _ in 0..5 {
            let mut client = Client::open_narrow(served.address(), "/farewell");
            let message = client.encode(Opcode::Binary, &[7; 40_000]);
            let mut bytes = message.repeat(8);
            bytes.extend(client.encode(Opcode::Text, b"close 4000 bye"));
            client.raw(&bytes);
            let code = loop {
                match client.next() {
                    Got::Binary(whole) => assert_eq!(whole.len(), 40_000),
                    Got::Close(code, _) => break code,
                    other => panic!("{policy}: {other:?}"),
                }
            };
            // Where the handlers' answers came in several turns, the peer was too slow before.
            assert!(code == 4000 || (policy == "close" && code == 1008), "{policy}: {code}");
        }
    }
}

#[test]
fn each_verdict_on_a_slow_peer_is_counted_and_the_sum_is_right() {
    let verdicts = [Counter::ClosedAsSlow, Counter::DroppedNewest, Counter::DroppedOldest];
    for (policy, verdict) in ["close", "drop-newest", "drop-oldest"].into_iter().zip(verdicts) {
        let site = Site::new().plugin("chat").set("limits.slow_consumer", policy);
        // With one shard, whatever the talker has heard was carried out for the slow one, too.
        let site = site.set("limits.outbox_size", "64KiB").set("server.shards", "1");
        let served = site.start();
        let mut slow = Client::open_narrow(served.address(), "/chat?room=r&name=slow");
        slow.expect("* slow joined, 1 here.");
        let mut talker = Client::open(served.address(), "/chat?room=r&name=talker");
        for client in [&mut slow, &mut talker] {
            client.expect("* talker joined, 2 here.");
        }
        let words = "x".repeat(1_000);
        let mut said = 0;
        while served.count(verdict) < 10 && (verdict != Counter::ClosedAsSlow || said < 1_000) {
            talker.text(&words);
            // The slow one may be gone by now, which the room is told.
            while !talker.next_text().ends_with(&words) {}
            said += 1;
        }
        for other in verdicts.iter().filter(|one| **one != verdict) {
            assert_eq!(served.count(*other), 0, "{policy}");
        }
        if verdict == Counter::ClosedAsSlow {
            assert_eq!(served.count(verdict), 1, "once per connection");
            continue;
        }
        let heard = said - served.count(verdict);
        for _ in 0..heard {
            assert!(slow.next_text().ends_with(&words));
        }
        talker.text("the end");
        slow.expect("talker: the end");
    }
}

#[test]
fn bl_26_too_many_control_frames_in_a_second_are_a_breach_of_policy() {
    let served = Site::new().plugin("echo").set("limits.max_control_rate", "10").start();
    for opcode in [Opcode::Ping, Opcode::Pong] {
        let mut client = Client::open(served.address(), "/echo");
        let one = client.encode(opcode, b"x");
        client.raw(&one.repeat(10));
        if opcode == Opcode::Ping {
            (0..10).for_each(|_| assert_eq!(client.next(), Got::Pong(b"x".to_vec())));
        }
        client.echo("ten are fine");
        client.raw(&one.repeat(11));
        let code = loop {
            match client.next() {
                Got::Pong(_) => {}
                Got::Close(code, _) => break code,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(code, 1008);
    }
}

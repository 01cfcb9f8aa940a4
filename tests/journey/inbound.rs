//! Step 4: order, and what happens where more comes than can be handled.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plugsock::metrics::Counter;
use plugsock_ws::frame::Opcode;

use crate::support::{Client, Got, Random, Records, Site, eventually, frame, spawn};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

#[test]
fn many_connections_with_many_messages_in_flight_each_keep_their_order() {
    let served = Site::new().plugin("echo").start();
    for path in ["/echo", "/builtin"] {
        let mut clients: Vec<Client> =
            (0..200).map(|_| Client::open(served.address(), path)).collect();
        let text = |client: usize, number: usize| format!("{client}:{number}");
        for (i, client) in clients.iter_mut().enumerate() {
            let mut bytes = Vec::new();
            for number in 0..16 {
                bytes.extend(client.encode(Opcode::Text, text(i, number).as_bytes()));
            }
            client.raw(&bytes);
        }
        for number in 0..50 {
            for (i, client) in clients.iter_mut().enumerate() {
                client.expect(&text(i, number));
                if number + 16 < 50 {
                    client.text(&text(i, number + 16));
                }
            }
        }
    }
}

/// Handlers that take from no time to milliseconds, two threads, eight in flight.
#[test]
fn slow_handlers_do_not_change_the_order() {
    let served = Site::new().plugin("sleepy").set("workers.queue_size", "64").start();
    let script = |client: u64| {
        let mut random = Random::new(client);
        (0..300).map(move |number| match random.below(40) {
            0 => ("sleep 1".to_owned(), "slept".to_owned()),
            1 => ("sleep 3".to_owned(), "slept".to_owned()),
            2 => ("spin 1".to_owned(), "spun".to_owned()),
            _ => (number.to_string(), number.to_string()),
        })
    };
    let mut clients: Vec<Client> =
        (0..200).map(|_| Client::open(served.address(), "/sleepy")).collect();
    for (i, client) in (0..).zip(&mut clients) {
        let messages: Vec<u8> =
            script(i).flat_map(|(message, _)| frame(0x81, message.as_bytes())).collect();
        client.raw(&messages);
    }
    for (i, client) in (0..).zip(&mut clients) {
        for (_, answer) in script(i) {
            client.expect(&answer);
        }
    }
    assert_eq!(served.count(Counter::HandlerFailures), 0);
}

/// 200 messages on 200 connections, a fifth of the report's either way, and one in four sleeps.
#[test]
fn bl_42_hooks_come_in_order_and_one_at_a_time_whatever_the_pool() {
    const CLIENTS: usize = 200;
    const MESSAGES: usize = 200;
    let site = Site::new().plugin("recorder").set("limits.outbox_size", "64MiB");
    let site = site.set("workers.pool_size", "16").set("workers.queue_size", "64");
    let served = site.set("workers.call_deadline", "30s").start();
    let mut records = Records::watch(served.address());
    let script = |client: usize| {
        let mut random = Random::new(client as u64);
        (0..MESSAGES).map(move |number| match random.below(24) {
            ms @ 0..6 => format!("sleep {ms} {number}"),
            _ => number.to_string(),
        })
    };
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|i| {
            let path = format!("/recorder?name={i}&open-ms={}", if i % 20 == 0 { 50 } else { 0 });
            let mut client = Client::open(served.address(), &path);
            let sent = if i % 10 == 0 { MESSAGES / 2 } else { MESSAGES };
            let messages = script(i).take(sent);
            let bytes: Vec<u8> = messages.flat_map(|text| frame(0x81, text.as_bytes())).collect();
            client.raw(&bytes);
            client
        })
        .collect();
    for i in (0..CLIENTS).rev() {
        if i % 10 == 0 {
            clients.remove(i).reset();
        }
    }
    clients.iter_mut().for_each(|client| client.close(1000, ""));
    records.until_ended(CLIENTS);
    records.settle();

    let codes = records.close_codes();
    assert_eq!(codes.len(), CLIENTS);
    for i in 0..CLIENTS {
        let (name, cut_off) = (i.to_string(), i % 10 == 0);
        assert_eq!(codes[&*name], if cut_off { 1006 } else { 1000 }, "{name}");
        // Of those that are cut off, what the kernel still held is lost.
        let hooks = records.of(&name);
        let handled = hooks.iter().filter(|hook| hook.starts_with("message ")).count();
        let sent = if cut_off { 0..=MESSAGES / 2 } else { MESSAGES..=MESSAGES };
        assert!(sent.contains(&handled), "{name}: {handled}");
        let mut expected = vec!["open".to_owned()];
        for text in script(i).take(handled) {
            expected.extend(text.starts_with("sleep ").then(|| "begin".to_owned()));
            expected.push(format!("message {text}"));
        }
        let end = expected.len();
        assert!(hooks[..end] == expected, "{name}: {hooks:?}");
        assert_eq!(hooks[end..].len(), 1, "{name}: {hooks:?}");
    }
    let overlaps = |pair: &[(String, String)]| {
        pair[0].1 == "begin" && pair[1].1 == "begin" && pair[0].0 != pair[1].0
    };
    assert!(records.all.windows(2).any(overlaps), "connections do not run side by side");
}

#[test]
fn connections_that_break_off_half_way_end_once_and_disturb_nobody() {
    let served = Site::new().plugin("farewell").start();
    let mut watcher = Client::open(served.address(), "/farewell");
    watcher.text("watch");
    watcher.expect("watching");
    let mut clients: Vec<Client> =
        (0..200).map(|_| Client::open(served.address(), "/farewell")).collect();
    let messages: Vec<u8> =
        (0..300).flat_map(|n: u32| frame(0x81, n.to_string().as_bytes())).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        let sent = if i % 10 == 0 { messages.len() / 2 } else { messages.len() };
        client.raw(&messages[..sent]);
    }
    let mut ends = vec!["left 1006"; 20];
    for (i, mut client) in clients.into_iter().enumerate() {
        match i % 10 {
            0 => client.reset(),
            kind => {
                (0..300).for_each(|n| client.expect(&n.to_string()));
                if kind < 6 {
                    client.close(1000, "");
                    ends.push("left 1000");
                } else {
                    client.close_without_code();
                    ends.push("left 1005");
                }
                client.expect_close();
            }
        }
    }
    let mut told: Vec<String> = (0..200).map(|_| watcher.next_text()).collect();
    told.sort();
    ends.sort_unstable();
    assert_eq!(told, ends);
    watcher.echo("nobody else has left");
    assert_eq!((served.count(Counter::Opened), served.count(Counter::Closed)), (201, 200));
}

#[test]
fn the_smallest_queues_are_slow_but_right() {
    for (own, all) in [("1", "1"), ("2", "4"), ("64", "1"), ("1", "4096")] {
        let site = Site::new().plugin("sleepy").set("workers.queue_size", all);
        let served = site.set("workers.queue_per_connection", own).start();
        let mut clients: Vec<Client> =
            (0..20).map(|_| Client::open(served.address(), "/sleepy")).collect();
        let messages: Vec<u8> =
            (0..200).flat_map(|n: u32| frame(0x81, n.to_string().as_bytes())).collect();
        for client in &mut clients {
            client.raw(&frame(0x81, b"sleep 1"));
            client.raw(&messages);
        }
        for client in &mut clients {
            client.expect("slept");
            (0..200).for_each(|n| client.expect(&n.to_string()));
            client.close(1000, "");
            assert_eq!(client.expect_close().0, 1000);
        }
    }
}

#[test]
fn bytes_are_bounded_too() {
    let site = Site::new().plugin("sleepy").set("limits.max_frame_size", "64KiB");
    let site = site.set("limits.max_message_size", "64KiB");
    let served = site.set("workers.queue_bytes", "64KiB").start();
    let mut clients: Vec<Client> =
        (0..20).map(|_| Client::open(served.address(), "/sleepy")).collect();
    for (i, client) in (0..).zip(&mut clients) {
        client.raw(&frame(0x81, b"sleep 5"));
        for _ in 0..5 {
            client.binary(&vec![i; 64 * KIB]);
        }
    }
    for (i, client) in (0..).zip(&mut clients) {
        client.expect("slept");
        for _ in 0..5 {
            assert!(client.next() == Got::Binary(vec![i; 64 * KIB]));
        }
    }
}

/// The client is stopped by TCP; it is not closed for being ahead of its own reading.
#[test]
fn who_writes_without_reading_is_held_back_and_answered_in_the_end() {
    let served = Site::new().plugin("echo").start();
    for path in ["/builtin", "/echo"] {
        for size in [KIB, 4 * KIB, 100 * KIB, 255 * KIB, 300 * KIB, MIB, 4 * MIB] {
            let number = (16 * MIB / size).max(12);
            let mut client = Client::open_with_buffers(served.address(), path, 64 * KIB);
            let socket = client.socket.try_clone().unwrap();
            let (written, writer) = write_on_and_on(socket, size, number);
            until_it_stops(&written);
            let ahead = written.load(Ordering::SeqCst);
            assert!(ahead < number, "{path}: all of {number} × {size} bytes were taken");
            for n in 0..number {
                match client.next() {
                    Got::Binary(bytes) => {
                        assert_eq!(bytes.len(), size);
                        assert!(
                            bytes.iter().all(|byte| usize::from(*byte) == n % 251),
                            "{path} {n}"
                        );
                    }
                    other => panic!("{path}, {size} bytes, message {n}: {other:?}"),
                }
            }
            writer.join().unwrap();
        }
    }
    assert_eq!(served.count_slow(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_slow_handler_stops_the_client_and_not_the_host() {
    let site = Site::new().plugin("sleepy").plugin("echo");
    let process = site.set("workers.call_deadline", "1h").set("server.drain_timeout", "0s").spawn();
    let base = process.resident_kib();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut client = Client::open(process.address(), "/sleepy");
            client.text("sleep 3600000");
            let socket = client.socket.try_clone().unwrap();
            let (written, writer) = write_on_and_on(socket, 10 * KIB, 5_000);
            (client, written, writer)
        })
        .collect();
    for (_, written, _) in &clients {
        until_it_stops(written);
        assert!(written.load(Ordering::SeqCst) < 5_000, "50 MB were taken");
    }
    let mut other = Client::open(process.address(), "/echo");
    (0..1_000).for_each(|n| other.echo(&n.to_string()));
    // Of 200 MB the host holds its queues and the kernel, elsewhere, its buffers.
    let grown = process.resident_kib().saturating_sub(base);
    assert!(grown < 48 << 10, "{grown} KiB");
    drop(process);
    for (_, _, writer) in clients {
        writer.join().unwrap();
    }
}

#[test]
fn pings_are_answered_while_a_handler_runs() {
    let served = Site::new().plugin("sleepy").set("workers.call_deadline", "1h");
    let served = served.set("server.drain_timeout", "50ms").start();
    let mut client = Client::open(served.address(), "/sleepy");
    client.text("sleep 3600000");
    for number in 0..20_u8 {
        client.ping(&[number; 125]);
        assert_eq!(client.next(), Got::Pong(vec![number; 125]));
    }
}

#[test]
fn what_came_before_the_end_of_the_stream_is_handled() {
    for queue in ["1", "64"] {
        let site = Site::new().plugin("chat").set("workers.queue_per_connection", queue);
        let served = site.start();
        let mut listener = Client::open(served.address(), "/chat?name=listener");
        listener.expect("* listener joined, 1 here.");
        for round in 0..20 {
            let mut hasty = Client::open(served.address(), "/chat?name=hasty");
            let messages: Vec<u8> =
                (0..200).flat_map(|n: u32| frame(0x81, n.to_string().as_bytes())).collect();
            hasty.raw(&messages);
            hasty.finish();
            listener.expect("* hasty joined, 2 here.");
            for n in 0..200 {
                assert_eq!(listener.next_text(), format!("hasty: {n}"), "round {round}, {queue}");
            }
            listener.expect("* hasty left, 1 here.");
        }
    }
}

/// A host whose clients are all in the middle of something, but none has anything to do.
#[test]
#[cfg(target_os = "linux")]
fn a_host_that_waits_does_not_compute() {
    let site = Site::new().plugin("sleepy").plugin("farewell").set("workers.call_deadline", "1h");
    let site = site.set("server.close_timeout", "1h").set("server.handshake_timeout", "1h");
    let process = site.set("workers.queue_per_connection", "2").spawn();
    let address = process.address();
    let half_head = crate::support::connect(address);
    (&half_head).write_all(b"GET /").unwrap();
    let idle = Client::open(address, "/sleepy");
    let mut closed = Client::open(address, "/farewell");
    closed.text("close 4000 x");
    assert!(matches!(closed.next(), Got::Close(4000, _)));
    let mut lingering = Client::open(address, "/sleepy");
    lingering.close(1000, "");
    assert!(matches!(lingering.next(), Got::Close(1000, _)));
    let stalled: Vec<Client> = (0..3)
        .map(|kind| {
            let mut client = Client::open(address, "/sleepy");
            client.text("sleep 3600000");
            (0..100).for_each(|_| client.text("behind"));
            match kind {
                0 => client.finish(),
                1 => client.close(1000, ""),
                _ => {}
            }
            client
        })
        .collect();
    let mut deaf = Client::open_narrow(address, "/builtin");
    deaf.socket.set_nonblocking(true).unwrap();
    while deaf.socket.write(&frame(0x82, &[7; 60_000])).is_ok() {}
    plugsock::task::sleep(Duration::from_millis(300));
    let before = process.computed();
    plugsock::task::sleep(Duration::from_secs(1));
    let computed = process.computed() - before;
    assert!(computed < 20, "{computed} of 100 ticks");
    drop((half_head, idle, closed, lingering, stalled, deaf));
}

/// Writes numbered messages of one size; returns how many are written, and the thread.
fn write_on_and_on(
    mut socket: TcpStream,
    size: usize,
    number: usize,
) -> (Arc<AtomicUsize>, std::thread::JoinHandle<()>) {
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let writer = spawn(move || {
        for n in 0..number {
            let byte = u8::try_from(n % 251).unwrap();
            match socket.write_all(&frame(0x82, &vec![byte; size])) {
                Ok(()) => counter.fetch_add(1, Ordering::SeqCst),
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("held back too long"),
                // The host has gone: the test is over, or says so itself.
                Err(_) => return,
            };
        }
    });
    (written, writer)
}

/// Waits until the writer gets no further.
fn until_it_stops(written: &AtomicUsize) {
    let mut before = usize::MAX;
    eventually("a writer that is stopped", || {
        plugsock::task::sleep(Duration::from_millis(150));
        let now = written.load(Ordering::SeqCst);
        std::mem::replace(&mut before, now) == now
    });
}

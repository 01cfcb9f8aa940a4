//! Step 6, where a client reads more slowly than it is sent to, or not at all.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plugsock::metrics::Counter;
use plugsock_ws::frame::Opcode;

use crate::support::{Client, Got, Served, Site, eventually, frame, spawn};

const KIB: usize = 1 << 10;
/// Bytes that wait for one connection, at most, and the messages that are judged as one.
const OUTBOX: usize = 64 * KIB;
const CHUNK: usize = 16 * KIB;
const SIZE: usize = 1_000;

/// With one shard, what a publisher was told is done has been carried out for everybody.
fn site() -> Site {
    let site = Site::new().plugin("publisher").set("limits.outbox_size", "64KiB");
    site.set("server.shards", "1")
}

/// A client that gets what is published and whose kernel keeps little; and its id.
fn sleeper(address: SocketAddr) -> (Client, String) {
    let mut sleeper = Client::open_narrow(address, "/publisher?feed");
    sleeper.text("id");
    let id = sleeper.next_text();
    (sleeper, id)
}

/// Numbered messages, published by one call.
fn publish(publisher: &mut Client, first: usize, count: usize, size: usize) {
    publisher.text(&format!("publish {first} {count} {size}"));
    publisher.expect("done");
}

fn buffered(publisher: &mut Client, id: &str) -> usize {
    publisher.text(&format!("buffered {id}"));
    publisher.next_text().parse().unwrap()
}

/// Publishes until the sleeper's kernel is full, so that something waits in the host; then a
/// thousand messages in one call. Returns the publisher and how many messages there were.
fn flood(served: &Served, id: &str) -> (Client, usize) {
    let mut publisher = Client::open(served.address(), "/publisher");
    let mut said = 0;
    while buffered(&mut publisher, id) == 0 {
        publish(&mut publisher, said, 10, SIZE);
        said += 10;
        assert!(said < 20_000, "20 MB wait somewhere");
    }
    assert_eq!(served.count_slow(), 0);
    publish(&mut publisher, said, 1_000, SIZE);
    eventually("a verdict", || served.count_slow() > 0);
    (publisher, said + 1_000)
}

/// The next message must be whole; its number, or what came instead.
fn number(client: &mut Client, size: usize) -> Result<usize, Got> {
    match client.next() {
        Got::Text(text) => {
            assert_eq!(text.len(), size, "torn");
            assert!(text[10..].bytes().all(|byte| byte == b'x'), "torn");
            Ok(text[..10].parse().unwrap())
        }
        other => Err(other),
    }
}

/// A reader that stops while a gigabyte is published, in messages of 10 KB. Besides its outbox,
/// some megabytes may be on their way between the host's threads.
#[test]
#[cfg(target_os = "linux")]
fn bl_21_a_reader_that_stops_costs_its_outbox_and_no_more() {
    for policy in ["close", "drop-newest", "drop-oldest"] {
        let process = site().set("limits.slow_consumer", policy).spawn();
        let mut publisher = Client::open(process.address(), "/publisher");
        publish(&mut publisher, 0, 100, 10_000);
        let base = process.resident_kib();
        let (_sleeper, id) = sleeper(process.address());
        for call in 0..1_000 {
            publish(&mut publisher, call * 100, 100, 10_000);
            let waiting = buffered(&mut publisher, &id);
            assert!(waiting < OUTBOX + CHUNK, "{policy}: {waiting}");
        }
        let grown = process.peak_kib().saturating_sub(base);
        assert!(grown < 128 << 10, "{policy}: {grown} KiB for 1 GB");
    }
}

#[test]
fn bl_21_a_slow_consumer_is_closed_and_told_why() {
    let served = site().set("server.close_timeout", "20s").start();
    let (mut sleeper, id) = sleeper(served.address());
    let (mut publisher, said) = flood(&served, &id);
    publisher.text(&format!("send {id} 0 1 10"));
    publisher.expect("the connection is not open");
    assert_eq!(buffered(&mut publisher, &id), 0);
    let mut heard = 0;
    let end = loop {
        match number(&mut sleeper, SIZE) {
            Ok(number) => assert_eq!(number, heard, "a gap"),
            Err(end) => break end,
        }
        heard += 1;
    };
    assert!(heard < said);
    assert!(matches!(end, Got::Close(1008, _)), "{end:?}");
    sleeper.close(1008, "");
    sleeper.expect_end();
    eventually("its end", || served.count(Counter::Closed) == 1);
    assert_eq!(served.count(Counter::ClosedAsSlow), 1);
    publish(&mut publisher, 0, 1, SIZE);
}

#[test]
fn bl_21_a_slow_consumer_that_never_reads_is_gone_after_the_close_timeout() {
    let served = site().set("server.close_timeout", "200ms").start();
    let (sleeper, id) = sleeper(served.address());
    let (mut publisher, _) = flood(&served, &id);
    eventually("its end", || served.count(Counter::Closed) == 1);
    publish(&mut publisher, 0, 1, SIZE);
    drop(sleeper);
}

#[test]
fn bl_21_the_newest_are_dropped_where_the_operator_wants_that() {
    let served = site().set("limits.slow_consumer", "drop-newest").start();
    let (mut sleeper, id) = sleeper(served.address());
    let (mut publisher, said) = flood(&served, &id);
    let waiting = buffered(&mut publisher, &id);
    assert!((OUTBOX..OUTBOX + CHUNK).contains(&waiting), "{waiting}");
    // A handler is not told that its message will be dropped: it has been taken by then.
    publisher.text(&format!("send {id} 0 1 10"));
    publisher.expect("done");
    assert!(buffered(&mut publisher, &id) <= waiting);
    // The oldest were kept, without a gap.
    let mut heard = 0;
    while buffered(&mut publisher, &id) > 0 {
        assert_eq!(number(&mut sleeper, SIZE), Ok(heard));
        heard += 1;
    }
    // There is room again.
    publish(&mut publisher, said, 1, SIZE);
    let next = loop {
        match number(&mut sleeper, SIZE).unwrap() {
            next if next == heard => heard += 1,
            next => break next,
        }
    };
    assert_eq!(next, said);
    assert!(heard < said, "nothing was dropped");
    assert_eq!(served.count(Counter::Closed), 0);
}

#[test]
fn bl_21_the_oldest_are_dropped_where_the_operator_wants_that() {
    let served = site().set("limits.slow_consumer", "drop-oldest").start();
    let (mut sleeper, id) = sleeper(served.address());
    let (mut publisher, said) = flood(&served, &id);
    let waiting = buffered(&mut publisher, &id);
    assert!((1..OUTBOX + CHUNK).contains(&waiting), "{waiting}");
    let mut numbers = Vec::new();
    while numbers.last() != Some(&(said - 1)) {
        numbers.push(number(&mut sleeper, SIZE).unwrap());
    }
    assert!(numbers.is_sorted_by(|a, b| a < b));
    assert!(numbers.len() < said, "nothing was dropped");
    // What an outbox holds of the newest is there without a gap.
    let tail: Vec<usize> = (said - (OUTBOX - CHUNK) / (SIZE + 4)..said).collect();
    assert!(numbers.ends_with(&tail), "{:?}", &numbers[numbers.len() - tail.len()..]);
    publish(&mut publisher, said, 1, SIZE);
    assert_eq!(number(&mut sleeper, SIZE), Ok(said));
    assert_eq!(served.count(Counter::Closed), 0);
}

/// So many that read all, one that reads nothing and whose outbox is full, and a publisher. They
/// have been sent as many messages as the number says.
fn one_stalls(served: &Served, number: usize) -> (Vec<Client>, Client, Client, usize) {
    let fast = (0..number).map(|_| Client::open(served.address(), "/publisher?feed")).collect();
    let (stalled, id) = sleeper(served.address());
    let mut publisher = Client::open(served.address(), "/publisher");
    publisher.text(&format!("send {id} 0 10000 {SIZE}"));
    publisher.expect("done");
    eventually("a full outbox", || served.count_slow() > 0);
    (fast, stalled, publisher, 10_000)
}

/// Publishes, and everybody must hear it.
fn say(publisher: &mut Client, fast: &mut [Client], numbers: Range<usize>) {
    publish(publisher, numbers.start, numbers.len(), SIZE);
    for client in fast {
        numbers.clone().for_each(|n| assert_eq!(number(client, SIZE), Ok(n)));
    }
}

/// One of a hundred stalls, and the others miss nothing of 2,000 messages of 1 KB. The report has
/// 60,000 and compares their times.
#[test]
fn bl_22_one_that_stalls_holds_up_nobody() {
    let site = Site::new().plugin("publisher").set("limits.outbox_size", "256KiB");
    let served = site.set("limits.slow_consumer", "drop-newest").start();
    let (mut fast, _stalled, mut publisher, first) = one_stalls(&served, 99);
    for first in (first..first + 2_000).step_by(100) {
        say(&mut publisher, &mut fast, first..first + 100);
    }
    assert_eq!(served.count(Counter::Closed), 0);
}

#[test]
fn bl_22_one_that_stalls_is_gone_in_the_end() {
    let site = site().set("limits.slow_consumer", "drop-newest").set("server.close_timeout", "1h");
    let site = site.set("heartbeat.interval", "500ms").set("heartbeat.timeout", "2s");
    let served = site.start();
    let (mut fast, mut stalled, mut publisher, mut next) = one_stalls(&served, 5);
    eventually("the end of the one that stalls", || {
        say(&mut publisher, &mut fast, next..next + 1);
        next += 1;
        served.count(Counter::Closed) == 1
    });
    say(&mut publisher, &mut fast, next..next + 100);
    let mut heard = 0;
    let end = loop {
        match number(&mut stalled, SIZE) {
            Ok(number) => assert_eq!(number, heard, "a gap"),
            Err(end) => break end,
        }
        heard += 1;
    };
    assert_eq!(end, Got::End, "a close frame that nobody reads is not waited for");
    assert_eq!(served.count(Counter::Closed), 1);
}

/// Sixteen publishers of 1 MB each, pings both ways and a plugin's close, for one slow reader. The
/// host's send buffer has no setting; the reader's small one makes its writes short. Its pings
/// come every 10 ms, the least that can be set, not every millisecond.
#[test]
fn bl_23_many_writers_make_one_stream_of_whole_frames() {
    const WRITERS: usize = 16;
    const SIZE: usize = 1_000_000;
    let site = Site::new().plugin("publisher").set("limits.outbox_size", "32MiB");
    let site = site.set("limits.fragment_size", "16KiB").set("server.shards", "1");
    let site = site.set("limits.max_control_rate", "65534");
    let served = site.set("heartbeat.interval", "10ms").set("heartbeat.timeout", "30s").start();
    let (mut reader, id) = sleeper(served.address());
    let stop = Arc::new(AtomicBool::new(false));
    let pinging = {
        let (mut socket, stop) = (reader.socket.try_clone().unwrap(), Arc::clone(&stop));
        spawn(move || {
            let mut sent = 0_u32;
            while !stop.load(Ordering::SeqCst) {
                sent += 1;
                if socket.write_all(&frame(0x89, &sent.to_be_bytes())).is_err() {
                    break;
                }
                plugsock::task::sleep(Duration::from_millis(1));
            }
            sent
        })
    };
    assert!(matches!(reader.next(), Got::Pong(_)));
    let address = served.address();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            spawn(move || {
                let mut publisher = Client::open(address, "/publisher");
                publish(&mut publisher, number, 1, SIZE);
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let mut publisher = Client::open(address, "/publisher");
    publisher.text(&format!("close {id} 4000"));
    publisher.expect("done");

    let (mut numbers, mut pongs) = (Vec::new(), vec![0]);
    let code = loop {
        match reader.next() {
            Got::Text(text) => {
                assert_eq!(text.len(), SIZE);
                numbers.push(text[..10].parse::<usize>().unwrap());
            }
            Got::Pong(body) => pongs.push(u32::from_be_bytes(body.try_into().unwrap())),
            Got::Close(code, _) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 4000);
    // Pings that come from now on are not answered.
    reader.close(4000, "");
    reader.expect_end();
    stop.store(true, Ordering::SeqCst);
    let sent = pinging.join().unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..WRITERS).collect::<Vec<_>>());
    assert!(pongs.is_sorted_by(|a, b| a < b), "a pong twice, or an old one behind a newer one");
    assert!(pongs.last() <= Some(&sent));
    assert_whole_frames(&mut reader, WRITERS);
}

/// Fragments of one message with nothing but control frames between, in the whole stream.
fn assert_whole_frames(reader: &mut Client, messages: usize) {
    let (mut within, mut whole, mut between) = (false, 0, 0);
    let frames = reader.frames();
    for frame in &frames {
        if frame.opcode.is_control() {
            assert!(frame.fin && frame.len <= 125);
            between += usize::from(within);
            continue;
        }
        assert_eq!(frame.opcode == Opcode::Continuation, within, "another message began");
        within = !frame.fin;
        whole += usize::from(frame.fin);
    }
    // The first one is the reader's id.
    assert_eq!(whole, messages + 1);
    assert!(between > 0, "no pong within a message");
    assert_eq!(frames.last().map(|frame| frame.opcode), Some(Opcode::Close));
}

//! Step 5: handlers of plugins that only compute. Nobody can suspend their calls.

use plugsock::metrics::Counter;

use crate::support::{Client, Got, Random, Site, frame};

/// Four endless handlers, a hundred quick ones beside them: all of the quick ones' messages are
/// answered before any of the four is stopped.
#[test]
fn a_handler_that_computes_delays_its_own_connection_only() {
    let site = Site::new().plugin("spinner").plugin("echo").plugin("sleepy");
    let site = site.set("workers.call_deadline", "20s").set("server.drain_timeout", "50ms");
    let served = site.start();
    let mut slow: Vec<Client> =
        (0..4).map(|_| Client::open(served.address(), "/spinner")).collect();
    for client in &mut slow {
        client.text("loop");
        client.text("behind it");
    }
    let mut quick: Vec<Client> =
        (0..100).map(|_| Client::open(served.address(), "/echo")).collect();
    for number in 0..20 {
        quick.iter_mut().for_each(|client| client.text(&number.to_string()));
        quick.iter_mut().for_each(|client| client.expect(&number.to_string()));
    }
    Client::open(served.address(), "/spinner").echo("another instance");
    // Calls that can be suspended are not held up either.
    let mut waiting = Client::open(served.address(), "/sleepy");
    waiting.text("sleep 50");
    waiting.expect("slept");
    assert_eq!(served.count(Counter::HandlerFailures), 0, "deadline before answers");
    for client in &mut slow {
        client.socket.set_nonblocking(true).unwrap();
        let error = std::io::Read::read(&mut client.socket, &mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "answered");
    }
}

#[test]
fn past_its_deadline_it_is_stopped_and_its_connection_lives() {
    let single = "instances = \"single\"";
    let site = Site::new().plugin("spinner").plugin_as("single", "spinner", single);
    let served = site.set("workers.call_deadline", "200ms").start();
    let mut clients: Vec<Client> = (0..8)
        .map(|number| {
            let path = if number % 4 == 0 { "/single" } else { "/spinner" };
            let mut client = Client::open(served.address(), path);
            client.text("before");
            client.text("loop");
            client.text("behind");
            client
        })
        .collect();
    for client in &mut clients {
        client.expect("before");
        client.expect("behind");
        client.echo("and on");
    }
    assert_eq!(served.count(Counter::HandlerFailures), 8);
}

/// There is nobody to take over.
#[test]
fn with_one_place_only_it_is_still_cut_and_the_rest_served() {
    let site = Site::new().plugin("spinner").plugin("echo").set("workers.threads", "1");
    let site = site.set("workers.pool_size", "1").set("workers.call_deadline", "100ms");
    let served = site.start();
    let mut slow: Vec<Client> =
        (0..3).map(|_| Client::open(served.address(), "/spinner")).collect();
    for client in &mut slow {
        client.text("loop");
        client.text("behind");
    }
    Client::open(served.address(), "/echo").echo("in its turn");
    slow.iter_mut().for_each(|client| client.expect("behind"));
    assert_eq!(served.count(Counter::HandlerFailures), 3);
}

/// Most calls are quick and some take several ticks, so that threads take over from one another all
/// the time.
#[test]
#[cfg(target_os = "linux")]
fn order_holds_while_threads_take_over_and_there_are_never_more_than_places() {
    let site = Site::new().plugin("spinner").set("workers.pool_size", "6");
    let process = site.set("workers.call_deadline", "30s").spawn();
    let mut clients: Vec<Client> =
        (0..20).map(|_| Client::open(process.address(), "/spinner")).collect();
    let mut random = Random::new(5);
    let mut expected = Vec::new();
    for client in &mut clients {
        let texts: Vec<String> = (0..50)
            .map(|number| match random.below(10) {
                0 => format!("spin {}", 1 + random.below(3)),
                _ => format!("number {number}"),
            })
            .collect();
        client.raw(&texts.iter().flat_map(|text| frame(0x81, text.as_bytes())).collect::<Vec<_>>());
        expected.push(texts);
    }
    for (client, texts) in clients.iter_mut().zip(expected) {
        for text in texts {
            client.expect(&text.replace("spin", "spun"));
        }
    }
    let workers = process.threads().iter().filter(|name| name.starts_with("worker-")).count();
    assert!(workers <= 6, "{workers} threads");
}

/// One I/O thread, and so little to do that it runs the handlers itself. While one of them never
/// returns the sockets are served, and so they are while a second one does not.
#[test]
fn a_handler_on_the_io_thread_does_not_keep_the_sockets() {
    let site = Site::new().plugin("spinner").plugin("echo").set("server.shards", "1");
    let site = site.set("workers.threads", "1").set("workers.pool_size", "4");
    let site = site.set("workers.call_deadline", "20s").set("server.drain_timeout", "50ms");
    let served = site.start();
    let mut echo = Client::open(served.address(), "/echo");
    echo.echo("before");
    for number in 0..3 {
        let mut slow = Client::open(served.address(), "/spinner");
        slow.text("loop");
        slow.ping(b"still there?");
        assert_eq!(slow.next(), Got::Pong(b"still there?".to_vec()));
        // What waits behind it is for the workers, and others are answered as before.
        slow.text("behind it");
        for text in 0..100 {
            echo.echo(&format!("{text} beside {number}"));
        }
        Client::open(served.address(), "/spinner").echo("another instance");
    }
    assert_eq!(served.count(Counter::HandlerFailures), 0, "deadline before answers");
}

/// Little at a time is handled by the I/O thread, much by the workers, and what takes long by
/// whoever has begun it: one connection's messages pass through all of them, in order.
#[test]
fn order_holds_between_the_io_thread_and_the_workers() {
    let site = Site::new().plugin("spinner").set("server.shards", "1");
    let served = site.set("workers.call_deadline", "30s").start();
    let mut random = Random::new(11);
    let mut clients: Vec<Client> =
        (0..4).map(|_| Client::open(served.address(), "/spinner")).collect();
    let mut number = 0;
    for _ in 0..60 {
        let mut expected = Vec::new();
        for client in &mut clients {
            let many = [1, 2, 20, 200][random.below(4)];
            let texts: Vec<String> = (0..many)
                .map(|_| match random.below(200) {
                    0 => format!("spin {}", 1 + random.below(3)),
                    _ => {
                        number += 1;
                        format!("number {number}")
                    }
                })
                .collect();
            client.raw(
                &texts.iter().flat_map(|text| frame(0x81, text.as_bytes())).collect::<Vec<_>>(),
            );
            expected.push(texts);
        }
        for (client, texts) in clients.iter_mut().zip(expected) {
            texts.iter().for_each(|text| client.expect(&text.replace("spin", "spun")));
        }
    }
    assert_eq!(served.count(Counter::HandlerFailures), 0);
}

//! Step 5: handlers that are slow, trap, loop or want too much.

use plugsock::metrics::Counter;

use crate::support::{Client, Got, Site, eventually, frame, spawn};

/// Four slow handlers per thread's lanes, a hundred quick ones beside them: all of the quick ones'
/// messages are answered before any slow handler is.
#[test]
fn a_slow_handler_delays_its_own_connection_only() {
    for command in ["loop", "sleep 3600000", "spin 3600000"] {
        let site = Site::new().plugin("sleepy").plugin("echo");
        let site = site.set("workers.call_deadline", "20s").set("server.drain_timeout", "50ms");
        let served = site.start();
        let mut slow: Vec<Client> = (0..4)
            .map(|_| {
                let mut client = Client::open(served.address(), "/sleepy");
                client.text(command);
                client.text("behind it");
                client
            })
            .collect();
        let mut quick: Vec<Client> =
            (0..100).map(|_| Client::open(served.address(), "/echo")).collect();
        for number in 0..20 {
            quick.iter_mut().for_each(|client| client.text(&number.to_string()));
            quick.iter_mut().for_each(|client| client.expect(&number.to_string()));
        }
        // The same plugin's other connections are served, too.
        Client::open(served.address(), "/sleepy").echo("another instance");
        assert_eq!(served.count(Counter::HandlerFailures), 0, "{command}: deadline before answers");
        for client in &mut slow {
            client.socket.set_nonblocking(true).unwrap();
            let mut byte = [0];
            let error = std::io::Read::read(&mut client.socket, &mut byte).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{command}: answered");
        }
    }
}

#[test]
fn a_handler_past_its_deadline_is_stopped_and_its_connection_lives() {
    let served = Site::new().plugin("sleepy").set("workers.call_deadline", "300ms").start();
    let commands = ["loop", "sleep 3600000", "spin 3600000"];
    let mut clients: Vec<Client> = commands
        .iter()
        .flat_map(|command| std::iter::repeat_n(command, 4))
        .map(|command| {
            let mut client = Client::open(served.address(), "/sleepy");
            client.text("before");
            client.text(command);
            client.text("behind");
            client
        })
        .collect();
    for client in &mut clients {
        client.expect("before");
        client.expect("behind");
        client.echo("and on");
    }
    assert_eq!(served.count(Counter::HandlerFailures), 12);
}

#[test]
fn with_few_handlers_in_flight_slow_ones_are_still_cut_and_the_rest_served() {
    let site = Site::new().plugin("sleepy").plugin("echo").set("workers.threads", "1");
    let site = site.set("workers.pool_size", "1").set("workers.call_deadline", "200ms");
    let served = site.start();
    let mut slow: Vec<Client> = ["loop", "sleep 3600000", "loop"]
        .iter()
        .map(|command| {
            let mut client = Client::open(served.address(), "/sleepy");
            client.text(command);
            client.text("behind");
            client
        })
        .collect();
    Client::open(served.address(), "/echo").echo("in its turn");
    slow.iter_mut().for_each(|client| client.expect("behind"));
    assert_eq!(served.count(Counter::HandlerFailures), 3);
}

#[test]
fn a_trap_costs_its_message_and_nothing_else() {
    let served = Site::new().plugin("trap-tenth").plugin("echo").start();
    let mut bystander = Client::open(served.address(), "/echo");
    let mut clients: Vec<Client> =
        (0..20).map(|_| Client::open(served.address(), "/trap-tenth")).collect();
    let messages: Vec<u8> =
        (0..200).flat_map(|n: u32| frame(0x81, n.to_string().as_bytes())).collect();
    for client in &mut clients {
        client.raw(&messages);
    }
    for client in &mut clients {
        for n in (0..200).filter(|n| n % 10 != 0) {
            client.expect(&n.to_string());
        }
        client.echo("alive");
        bystander.echo("untouched");
    }
    assert_eq!(served.count(Counter::HandlerFailures), 20 * 20);
}

#[test]
fn a_trap_closes_its_connection_where_the_operator_wants_that() {
    let keys = "on_failure = \"close\"";
    let served = Site::new().plugin_as("strict", "trap-tenth", keys).start();
    let mut bystander = Client::open(served.address(), "/strict");
    for _ in 0..3 {
        let mut client = Client::open(served.address(), "/strict");
        client.text("fine");
        client.text("boom");
        client.text("behind");
        client.expect("fine");
        assert_eq!(client.next(), Got::Close(1011, "the plugin failed".to_owned()));
        client.close(1011, "");
        client.expect_end();
        bystander.echo("untouched");
    }
    assert_eq!(served.count(Counter::HandlerFailures), 3);
}

#[test]
#[cfg(target_os = "linux")]
fn a_glutton_harms_neither_its_connection_nor_the_host() {
    let process = Site::new().plugin("glutton").plugin("echo").spawn();
    let mut bystander = Client::open(process.address(), "/echo");
    bystander.echo("warm");
    let base = process.resident_kib();
    for command in ["grow", "stack", "grow", "stack"] {
        let mut clients: Vec<Client> =
            (0..10).map(|_| Client::open(process.address(), "/glutton")).collect();
        clients.iter_mut().for_each(|client| client.text(command));
        bystander.echo(command);
        clients.iter_mut().for_each(|client| client.echo("lives on"));
    }
    // Eight instances of at most 64 MiB, whose memory is given back.
    let grown = process.resident_kib().saturating_sub(base);
    assert!(grown < 256 << 10, "{grown} KiB");
}

#[test]
#[cfg(target_os = "linux")]
fn a_flood_from_one_handler_meets_its_budget() {
    let process = Site::new().plugin("glutton").plugin("echo").spawn();
    let base = process.resident_kib();
    let mut client = Client::open(process.address(), "/glutton");
    client.text("flood");
    let mut bystander = Client::open(process.address(), "/echo");
    (0..100).for_each(|n| bystander.echo(&n.to_string()));
    // It runs out of time, or its budget ends before: nothing of it, or a bounded part, leaves.
    client.text("behind");
    let mut bytes = 0;
    loop {
        match client.next() {
            Got::Binary(part) => bytes += part.len(),
            Got::Text(text) if text == "behind" => break,
            Got::Text(text) => assert!(text.starts_with("flooded, "), "{text}"),
            Got::Close(code, _) => break assert_eq!(code, 1008),
            other => panic!("{other:?}"),
        }
    }
    assert!(bytes <= 16 << 20, "{bytes}");
    bystander.echo("served on");
    let grown = process.resident_kib().saturating_sub(base);
    assert!(grown < 256 << 10, "{grown} KiB");
}

#[test]
fn a_single_instance_counts_over_all_connections_and_a_pool_does_not_promise_to() {
    let single = "instances = \"single\"";
    let site = Site::new().plugin_as("single", "counter", single).plugin("counter");
    let served = site.set("workers.threads", "4").start();
    let address = served.address();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            spawn(move || {
                let mut client = Client::open(address, "/single");
                (0..50).for_each(|_| client.text("count me"));
                let numbers: Vec<u64> =
                    (0..50).map(|_| client.next_text().parse().unwrap()).collect();
                assert!(numbers.is_sorted());
                numbers
            })
        })
        .collect();
    let mut numbers: Vec<u64> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=1_000).collect::<Vec<u64>>());

    let mut client = Client::open(address, "/counter");
    client.text("count me");
    let number: u64 = client.next_text().parse().unwrap();
    assert!(number >= 1);
}

#[test]
fn a_single_instance_that_traps_is_replaced() {
    let single = "instances = \"single\"";
    let served = Site::new().plugin_as("single", "trap-tenth", single).start();
    let mut clients: Vec<Client> =
        (0..5).map(|_| Client::open(served.address(), "/single")).collect();
    for round in 1..5 {
        clients.iter_mut().for_each(|client| client.text("boom"));
        clients.iter_mut().for_each(|client| client.echo(&format!("round {round}")));
    }
    eventually("20 failures", || served.count(Counter::HandlerFailures) == 20);
}

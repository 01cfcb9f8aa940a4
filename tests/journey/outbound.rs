//! Step 6: what handlers ask for reaches whom it should, and nobody else.

use std::collections::HashMap;

use plugsock::metrics::Counter;

use crate::support::{Client, Got, Served, Site, eventually, frame};

fn chat(served: &Served, room: &str, name: &str) -> Client {
    Client::open(served.address(), &format!("/chat?room={room}&name={name}"))
}

#[test]
fn everyone_in_a_room_hears_everyone_in_order() {
    const CLIENTS: usize = 100;
    let served = Site::new().plugin("chat").set("workers.threads", "4").start();
    let mut clients: Vec<Client> = Vec::new();
    for number in 0..CLIENTS {
        let mut client = chat(&served, "tea", &format!("c{number}"));
        let here = number + 1;
        let joined = format!("* c{number} joined, {here} here.");
        client.expect(&joined);
        clients.iter_mut().for_each(|earlier| earlier.expect(&joined));
        clients.push(client);
    }
    let mut elsewhere = chat(&served, "coffee", "x");
    elsewhere.expect("* x joined, 1 here.");

    for client in &mut clients {
        let messages: Vec<u8> =
            (0..5).flat_map(|n: u32| frame(0x81, n.to_string().as_bytes())).collect();
        client.raw(&messages);
    }
    for client in &mut clients {
        let mut next: HashMap<String, u32> = HashMap::new();
        for _ in 0..CLIENTS * 5 {
            let text = client.next_text();
            let (name, number) = text.split_once(": ").unwrap();
            let expected = next.entry(name.to_owned()).or_default();
            assert_eq!(number, expected.to_string(), "from {name}");
            *expected += 1;
        }
        assert_eq!(next.len(), CLIENTS);
    }

    // Any instance may serve a connection; the name is the connection's own.
    clients[0].text("/name Ada");
    clients.iter_mut().for_each(|client| client.expect("* c0 is now Ada."));
    clients[0].text("it is me");
    clients.iter_mut().for_each(|client| client.expect("Ada: it is me"));

    for left in (50..CLIENTS).rev() {
        let mut client = clients.pop().unwrap();
        client.text("bye");
        if left % 2 == 0 {
            client.close(1000, "");
        } else {
            eventually(
                "its own words",
                || matches!(client.next(), Got::Text(text) if text.ends_with("bye")),
            );
            client.reset();
        }
        for other in &mut clients {
            other.expect(&format!("c{left}: bye"));
            other.expect(&format!("* c{left} left, {left} here."));
        }
    }
    elsewhere.text("nothing heard of it");
    elsewhere.expect("x: nothing heard of it");
    drop(clients);
    eventually("an empty room", || served.count(Counter::Closed) == 100);
    let mut new = chat(&served, "tea", "new");
    new.expect("* new joined, 1 here.");
}

#[test]
fn subscribing_twice_or_from_a_dying_connection_leaves_nothing_behind() {
    let served = Site::new().plugin("farewell").start();
    let mut watcher = Client::open(served.address(), "/farewell");
    watcher.text("watch");
    watcher.text("watch");
    watcher.expect("watching");
    watcher.expect("watching");
    watcher.text("members");
    watcher.expect("1");
    for _ in 0..200 {
        let mut client = Client::open(served.address(), "/farewell");
        client.text("watch");
        client.reset();
    }
    for _ in 0..200 {
        watcher.expect("left 1006");
    }
    watcher.text("members");
    watcher.expect("1");
}

#[test]
fn a_plugin_reaches_its_own_connections_only() {
    let site = Site::new().plugin("wanderer").plugin_as("other", "wanderer", "");
    let served = site.start();
    let mut wanderer = Client::open(served.address(), "/wanderer");
    let mut sister = Client::open(served.address(), "/wanderer");
    let mut stranger = Client::open(served.address(), "/other");
    let id = |client: &mut Client| {
        client.text("id");
        client.next_text()
    };
    let (own, sisters, strangers) = (id(&mut wanderer), id(&mut sister), id(&mut stranger));

    wanderer.text(&format!("send {sisters} hello sister"));
    wanderer.expect("done");
    sister.expect("hello sister");

    let made_up = ["0", "999", "18446744073709551615", "72057594037927936"].map(str::to_owned);
    let gone = {
        let mut gone = Client::open(served.address(), "/wanderer");
        let id = id(&mut gone);
        gone.close(1000, "");
        gone.expect_close();
        id
    };
    for target in made_up.iter().chain([&strangers, &gone]) {
        for verb in ["send", "close", "join"] {
            wanderer.text(&format!("{verb} {target} intruder"));
            let answer = wanderer.next_text();
            assert_ne!(answer, "done", "{verb} {target}");
            assert!(!answer.is_empty());
        }
    }
    stranger.echo("nothing has come before this");
    sister.echo("nor here");

    wanderer.text(&format!("close {sisters} go"));
    wanderer.expect("done");
    assert_eq!(sister.expect_close(), (1000, "go".to_owned()));
    // Nothing leaves behind the close frame, not even the answer.
    wanderer.text(&format!("close {own} me too"));
    assert_eq!(wanderer.expect_close(), (1000, "me too".to_owned()));
}

/// Two in a room, of whom one does not read. The other talks until the host takes action, and
/// some more. Returns the sleeper and how much was said.
fn talk_to_a_sleeper(served: &Served) -> (Client, Client, usize) {
    let mut sleeper = Client::open_narrow(served.address(), "/chat?room=tea&name=sleeper");
    sleeper.expect("* sleeper joined, 1 here.");
    let mut talker = chat(served, "tea", "talker");
    talker.expect("* talker joined, 2 here.");
    let filler = "x".repeat(4_000);
    let mut said = 0;
    let mut enough = usize::MAX;
    while said < enough {
        talker.text(&format!("{said} {filler}"));
        let heard = loop {
            match talker.next_text() {
                // Shards carry a message out by themselves: a notice of the sleeper's arrival may
                // reach the talker's shard after the talker.
                notice if notice.starts_with("* ") => assert!(
                    ["* sleeper joined, 1 here.", "* sleeper left, 1 here."].contains(&&*notice),
                    "{notice}"
                ),
                heard => break heard,
            }
        };
        assert!(heard.starts_with(&format!("talker: {said} x")), "the talker missed something");
        said += 1;
        assert!(said < 20_000, "80 MB wait somewhere");
        if enough == usize::MAX && served.count_slow() > 0 {
            enough = said + 100;
        }
    }
    (sleeper, talker, said)
}

/// The numbers that the sleeper has heard, and what came after them.
fn wake_up(sleeper: &mut Client, last: Option<usize>) -> (Vec<usize>, Got) {
    let mut numbers = Vec::new();
    loop {
        match sleeper.next() {
            Got::Text(text) if text.starts_with("* ") => {}
            Got::Text(text) if text.starts_with("talker: ") => {
                let number = text.split(' ').nth(1).unwrap().parse().unwrap();
                assert_eq!(text.len(), format!("talker: {number} ").len() + 4_000, "torn");
                numbers.push(number);
                if last == Some(number) {
                    return (numbers, Got::Text(text));
                }
            }
            other => return (numbers, other),
        }
    }
}

#[test]
fn a_slow_consumer_is_closed_and_told_why() {
    let site = Site::new().plugin("chat").set("limits.outbox_size", "64KiB");
    let served = site.set("server.close_timeout", "20s").start();
    let (mut sleeper, mut talker, said) = talk_to_a_sleeper(&served);
    let (numbers, end) = wake_up(&mut sleeper, None);
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>(), "a gap");
    assert!(numbers.len() < said);
    assert!(matches!(end, Got::Close(1008, _)), "{end:?}");
    sleeper.close(1008, "");
    sleeper.expect_end();
    eventually("its end", || served.count(Counter::Closed) == 1);
    talker.text("alone");
    let mut heard = talker.next_text();
    if heard == "* sleeper left, 1 here." {
        heard = talker.next_text();
    }
    assert_eq!(heard, "talker: alone");
}

#[test]
fn a_slow_consumer_that_never_reads_is_dropped_after_the_close_timeout() {
    let site = Site::new().plugin("chat").set("limits.outbox_size", "64KiB");
    let served = site.set("server.close_timeout", "200ms").start();
    let (sleeper, mut talker, _) = talk_to_a_sleeper(&served);
    eventually("its end", || served.count(Counter::Closed) == 1);
    talker.text("alone");
    eventually("the talker", || talker.next_text() == "talker: alone");
    drop(sleeper);
}

#[test]
fn the_newest_are_dropped_where_the_operator_wants_that() {
    let site = Site::new().plugin("chat").set("limits.outbox_size", "64KiB");
    let served = site.set("limits.slow_consumer", "drop-newest").start();
    let (mut sleeper, mut talker, said) = talk_to_a_sleeper(&served);
    // What waits is read until there is room again, and then the next one arrives.
    let first: Vec<usize> = (0..16)
        .map(|_| {
            loop {
                let text = sleeper.next_text();
                if text.starts_with("talker: ") {
                    break text.split(' ').nth(1).unwrap().parse().unwrap();
                }
            }
        })
        .collect();
    assert_eq!(first, (0..16).collect::<Vec<_>>(), "the oldest were kept");
    let mut socket = sleeper.socket.try_clone().unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let mut drained = Vec::new();
    let _ = std::io::Read::read_to_end(&mut socket, &mut drained);
    assert!(drained.len() < said * 4_000, "nothing was dropped");
    talker.text("awake?");
    let mut tail = vec![0; 1_000];
    socket.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    let n = std::io::Read::read(&mut socket, &mut tail).unwrap();
    assert!(tail[..n].ends_with(b"talker: awake?"), "{:?}", String::from_utf8_lossy(&tail[..n]));
    assert_eq!(served.count(Counter::Closed), 0);
}

#[test]
fn the_oldest_are_dropped_where_the_operator_wants_that() {
    let site = Site::new().plugin("chat").set("limits.outbox_size", "64KiB");
    let served = site.set("limits.slow_consumer", "drop-oldest").start();
    let (mut sleeper, mut talker, said) = talk_to_a_sleeper(&served);
    let (numbers, _) = wake_up(&mut sleeper, Some(said - 1));
    assert!(numbers.is_sorted());
    assert!(numbers.len() < said, "nothing was dropped");
    // The newest are whole: at least half of an outbox.
    let tail: Vec<usize> = (said - 8..said).collect();
    assert!(numbers.ends_with(&tail), "{:?}", &numbers[numbers.len() - 8..]);
    talker.text("awake?");
    talker.expect("talker: awake?");
    sleeper.expect("talker: awake?");
    assert_eq!(served.count(Counter::Closed), 0);
}

/// Only the newest ping need be answered, so a flood costs the host nothing.
#[test]
#[cfg(target_os = "linux")]
fn a_flood_of_pings_from_a_client_that_does_not_read() {
    let site = Site::new().plugin("echo").set("limits.max_control_rate", "1000000");
    let process = site.spawn();
    let mut bystander = Client::open(process.address(), "/echo");
    bystander.echo("warm");
    let base = process.resident_kib();
    let mut flooder = Client::open_narrow(process.address(), "/echo");
    let pings: Vec<u8> = (0..500).flat_map(|_| frame(0x89, &[b'p'; 125])).collect();
    for _ in 0..400 {
        flooder.raw(&pings);
    }
    bystander.echo("during the flood");
    let grown = process.resident_kib().saturating_sub(base);
    assert!(grown < 16 << 10, "{grown} KiB for 25 MB of pings");
    flooder.ping(b"the last one");
    // The newest pong may overtake older ones.
    while flooder.next() != Got::Pong(b"the last one".to_vec()) {}
    flooder.text("back again");
    eventually("its own words", || flooder.next() == Got::Text("back again".to_owned()));
}

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

/// Joining, leaving and publishing by the same handlers, from all connections at once and from
/// their ends: who is in hears exactly what is said while in.
#[test]
fn a_member_hears_what_is_published_between_joining_and_leaving() {
    const PASSES: usize = 101;
    let site = Site::new().plugin_as("turnstile", "turnstile", "instances = \"single\"");
    let served = site.start();
    let mut clients: Vec<Client> =
        (0..12).map(|_| Client::open(served.address(), "/turnstile")).collect();
    for pass in 0..PASSES {
        for client in &mut clients {
            client.text("pass");
        }
        if pass % 20 == 19 {
            clients.pop().unwrap().close(1000, "");
            clients.pop().unwrap().reset();
        }
    }
    eventually("their ends", || served.count(Counter::Closed) == 10);
    let last = &mut clients[0];
    last.text("all");
    for client in &mut clients {
        // What a member is to hear next; none outside.
        let mut next: Option<usize> = None;
        let mut passes = 0;
        loop {
            let said = client.next_text();
            match said.split_once(' ') {
                Some(("in", count)) => {
                    assert_eq!(next, None);
                    next = count.parse().ok();
                }
                Some(("out", count)) => assert_eq!(next.take(), count.parse().ok()),
                Some(_) => panic!("{said}"),
                None if said == "all" => break,
                None => {
                    assert_eq!(said.parse().ok(), next);
                    client.expect("frame");
                    next = next.map(|next| next + 1);
                    continue;
                }
            }
            passes += 1;
        }
        assert_eq!(passes, PASSES);
        assert!(next.is_some(), "an odd number of passes");
    }
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

/// More than a shard writes to in one turn, and more messages than one.
#[test]
fn thousands_hear_each_publish_once_in_order_and_the_counts_add_up() {
    const MEMBERS: usize = 1_500;
    let served = Site::new().plugin("publisher").set("server.shards", "1").start();
    let mut members: Vec<Client> =
        (0..MEMBERS).map(|_| Client::open(served.address(), "/publisher?feed")).collect();
    // Whoever is answered has joined.
    members.iter_mut().for_each(|member| member.text("id"));
    members.iter_mut().for_each(|member| drop(member.next_text()));
    let gone = members.split_off(MEMBERS - 100);
    gone.into_iter().for_each(Client::reset);
    eventually("their end", || served.count(Counter::Closed) == 100);
    let mut publisher = Client::open(served.address(), "/publisher");
    for round in 0..3 {
        publisher.text(&format!("publish {} 16 100", round * 16));
        publisher.expect("done");
    }
    for member in &mut members {
        for number in 0..48 {
            assert_eq!(member.next_text()[..10].parse::<usize>().unwrap(), number);
        }
    }
    assert_eq!(served.count(Counter::Delivered), 48 * (MEMBERS as u64 - 100));
    assert_eq!(served.count_slow(), 0);
}

//! A chat with rooms: what a client writes goes to everyone in its room.
//!
//! Room and name come from the query (`?room=tea&name=Ada`); `/name Ada` renames. The name lives
//! in the connection's attachment, because any instance may serve the next message.

use plugsock_plugin::{Channel, Close, Connection, EffectError, Message, Plugin, register};

/// In characters.
const NAME_LIMIT: usize = 32;
/// In characters; at most 128 bytes, so within the limit for a channel's name.
const ROOM_LIMIT: usize = 32;
/// In bytes of UTF-8.
const TEXT_LIMIT: usize = 4 << 10;

#[derive(Default)]
struct Chat;

impl Plugin for Chat {
    fn on_open(&mut self, conn: Connection) {
        log_failure(join(conn));
    }

    fn on_message(&mut self, conn: Connection, message: Message) {
        log_failure(match message.as_text() {
            None => conn.send_text("* Only text, please."),
            Some(text) if text.len() > TEXT_LIMIT => {
                conn.send(format!("* A message has at most {TEXT_LIMIT} bytes."))
            }
            Some(text) => match text.strip_prefix("/name") {
                Some(name) if name.is_empty() || name.starts_with(' ') => rename(conn, name),
                _ => say(conn, text.trim()),
            },
        });
    }

    fn on_close(&mut self, conn: Connection, _close: Close) {
        let room = room_of(conn);
        let room = Channel::new(&room);
        let left = format!("* {} left, {} here.", name_of(conn), room.subscribers());
        log_failure(room.publish(left));
    }
}

register!(Chat);

fn join(conn: Connection) -> Result<(), EffectError> {
    if let Some(name) = query(conn, "name").and_then(valid_name) {
        conn.set_attachment(name.as_bytes())?;
    }
    let room = room_of(conn);
    let room = Channel::new(&room);
    conn.subscribe(room.name())?;
    // This call's own subscription is not counted yet.
    let here = room.subscribers() + 1;
    room.publish(format!("* {} joined, {here} here.", name_of(conn)))
}

fn rename(conn: Connection, name: &str) -> Result<(), EffectError> {
    let Some(name) = valid_name(name.to_owned()) else {
        return conn.send_text("* A name has 1 to 32 characters, no colon and no star: /name Ada");
    };
    let before = name_of(conn);
    conn.set_attachment(name.as_bytes())?;
    Channel::new(&room_of(conn)).publish(format!("* {before} is now {name}."))
}

fn say(conn: Connection, text: &str) -> Result<(), EffectError> {
    if text.is_empty() {
        return Ok(());
    }
    Channel::new(&room_of(conn)).publish(format!("{}: {text}", name_of(conn)))
}

fn name_of(conn: Connection) -> String {
    match conn.attachment().map(String::from_utf8) {
        Some(Ok(name)) => name,
        // Ids are large numbers; four digits are enough to tell guests apart.
        _ => format!("guest-{}", (conn.id() ^ (conn.id() >> 24)) % 10_000),
    }
}

fn room_of(conn: Connection) -> String {
    query(conn, "room").and_then(|room| tidy(&room, ROOM_LIMIT)).unwrap_or_else(|| "lobby".into())
}

fn query(conn: Connection, name: &str) -> Option<String> {
    conn.upgrade_request()?.query_param(name)
}

/// A colon ends a name and a star begins a notice: neither may be faked.
fn valid_name(name: String) -> Option<String> {
    tidy(&name, NAME_LIMIT).filter(|name| !name.contains([':', '*']))
}

/// One line without white space at its ends; `None` if nothing or too much is left.
fn tidy(text: &str, limit: usize) -> Option<String> {
    let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
    (1..=limit).contains(&text.chars().count()).then_some(text)
}

fn log_failure(result: Result<(), EffectError>) {
    if let Err(error) = result {
        eprintln!("chat: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::Chat;
    use plugsock_plugin::testing::Host;
    use plugsock_plugin::{Connection, Message};

    fn texts(host: &mut Host<Chat>, conn: Connection) -> Vec<String> {
        let sent = host.sent(conn);
        sent.iter().map(|message| message.as_text().unwrap().to_owned()).collect()
    }

    #[test]
    fn people_in_a_room_hear_each_other() {
        let mut host = Host::<Chat>::new();
        let ada = host.open("/chat?room=tea&name=*");
        let bob = host.open("/chat?room=tea&name=B%C3%B6b");
        let eve = host.open("/chat");
        assert_eq!(texts(&mut host, ada), ["* guest-1 joined, 1 here.", "* Böb joined, 2 here."]);
        assert_eq!(texts(&mut host, eve), ["* guest-3 joined, 1 here."]);
        host.receive(ada, "/name Ada");
        host.receive(ada, "hello");
        assert_eq!(
            texts(&mut host, bob),
            ["* Böb joined, 2 here.", "* guest-1 is now Ada.", "Ada: hello"]
        );
        host.close(ada, 1001, "");
        assert_eq!(texts(&mut host, bob), ["* Ada left, 1 here."]);
        assert_eq!(texts(&mut host, eve), [""; 0]);
    }

    #[test]
    fn lengths_are_held_in_characters_and_bytes() {
        let mut host = Host::<Chat>::new();
        let conn = host.open("/");
        let _ = host.sent(conn);
        let name = "é".repeat(32);
        host.receive(conn, format!("/name {name}"));
        assert_eq!(texts(&mut host, conn), [format!("* guest-1 is now {name}.")]);
        for bad in ["/name", "/name   ", "/name * a", "/name a: b", &format!("/name {name}é")] {
            host.receive(conn, bad);
            assert!(texts(&mut host, conn)[0].starts_with("* A name has 1 to 32 characters"));
        }
        host.receive(conn, "x".repeat(4096));
        assert_eq!(texts(&mut host, conn)[0].len(), 64 + ": ".len() + 4096);
        host.receive(conn, "x".repeat(4097));
        assert_eq!(texts(&mut host, conn), ["* A message has at most 4096 bytes."]);
        host.receive(conn, Message::Binary(vec![1]));
        assert_eq!(texts(&mut host, conn), ["* Only text, please."]);
    }
}

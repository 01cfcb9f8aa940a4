//! Meddles with connections that it was not called for: "send ID TEXT" sends to the connection
//! with that id, "close ID" closes it, "join ID" subscribes it to the channel "lured"; the answer
//! is "done" or the error. "id" is answered with the connection's own id; everything else is
//! echoed.

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Connection, Message, Plugin, register};

#[derive(Default)]
struct Wanderer;

impl Plugin for Wanderer {
    fn on_message(&mut self, conn: Connection, message: Message) {
        let (verb, rest) = command(&message);
        let (id, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let result = match (verb, id.parse().map(Connection::from_id)) {
            ("id", _) => return reply(conn, &conn.id().to_string()),
            ("send", Ok(other)) => other.send_text(text).map_err(|error| error.to_string()),
            ("close", Ok(other)) => other.close(1000, text).map_err(|error| error.to_string()),
            ("join", Ok(other)) => other.subscribe("lured").map_err(|error| error.to_string()),
            _ => return echo(conn, &message),
        };
        reply(conn, &result.err().unwrap_or_else(|| "done".to_owned()));
    }
}

register!(Wanderer);

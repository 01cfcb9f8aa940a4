//! Says as much as it is told to. A connection with `?feed` gets what "publish FIRST COUNT SIZE"
//! publishes in one call: COUNT messages of SIZE bytes that begin with their numbers, in ten
//! digits. The answer is "done" or the first error. "send ID FIRST COUNT SIZE" sends them to
//! one connection, "close ID CODE" closes it, "buffered ID" is answered with what waits for it,
//! "id" with the connection's own; everything else is echoed.

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{Channel, Connection, EffectError, Message, Plugin, register};

const FEED: Channel<'static> = Channel::new("feed");

#[derive(Default)]
struct Publisher;

impl Plugin for Publisher {
    fn on_open(&mut self, conn: Connection) {
        let query = conn.upgrade_request().and_then(|request| request.query_param("feed"));
        if query.is_some() && conn.subscribe(FEED.name()).is_err() {
            eprintln!("guest cannot subscribe");
        }
    }

    fn on_message(&mut self, conn: Connection, message: Message) {
        let (verb, rest) = command(&message);
        let numbers: Option<Vec<u64>> = rest.split(' ').map(|word| word.parse().ok()).collect();
        let result = match (verb, numbers.as_deref().unwrap_or_default()) {
            ("id", _) => return reply(conn, &conn.id().to_string()),
            ("buffered", [id]) => {
                return reply(conn, &Connection::from_id(*id).buffered().to_string());
            }
            ("close", [id, code]) => {
                let code = u16::try_from(*code).unwrap_or_default();
                Connection::from_id(*id).close(code, "").map_err(|error| error.to_string())
            }
            ("publish", numbers) => each(numbers, |text| FEED.publish(text)),
            ("send", [id, numbers @ ..]) => {
                each(numbers, |text| Connection::from_id(*id).send_text(text))
            }
            _ => return echo(conn, &message),
        };
        reply(conn, &result.err().unwrap_or_else(|| "done".to_owned()));
    }
}

register!(Publisher);

/// Calls for each message; the first error counts, and does not stop it.
fn each(
    numbers: &[u64],
    mut call: impl FnMut(&str) -> Result<(), EffectError>,
) -> Result<(), String> {
    let &[first, count, size] = numbers else { return Err("three numbers are needed".to_owned()) };
    let filler = "x".repeat(usize::try_from(size.saturating_sub(10)).unwrap_or_default());
    let mut result = Ok(());
    for number in first..first + count {
        result =
            result.and(call(&format!("{number:010}{filler}")).map_err(|error| error.to_string()));
    }
    result
}

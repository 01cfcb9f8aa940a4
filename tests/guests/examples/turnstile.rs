//! Everybody who passes, with "pass", is in the room if out of it before, and out of it if in. The
//! answer is "in N" or "out N", where N counts passes and departures; the room hears N after that,
//! and then "frame". "all" is said to everybody. For `instances = "single"`.

use std::collections::HashSet;

use plugsock_guests::{command, echo, reply};
use plugsock_plugin::{
    Channel, Close, Connection, EffectError, Frame, Message, Plugin, broadcast_frame, register,
};

const ROOM: Channel<'static> = Channel::new("room");

struct Turnstile {
    inside: HashSet<u64>,
    count: u64,
    frame: Frame,
    all: Frame,
}

impl Default for Turnstile {
    fn default() -> Self {
        let [frame, all] = ["frame", "all"].map(Frame::new);
        Self { inside: HashSet::new(), count: 0, frame, all }
    }
}

impl Plugin for Turnstile {
    fn on_message(&mut self, conn: Connection, message: Message) {
        let result = match command(&message).0 {
            "pass" => self.pass(conn),
            "all" => broadcast_frame(&self.all),
            _ => return echo(conn, &message),
        };
        if let Err(error) = result {
            eprintln!("guest: {error}");
        }
    }

    fn on_close(&mut self, conn: Connection, _: Close) {
        self.inside.remove(&conn.id());
        if let Err(error) = self.tell() {
            eprintln!("guest: {error}");
        }
    }
}

impl Turnstile {
    fn pass(&mut self, conn: Connection) -> Result<(), EffectError> {
        let goes_in = self.inside.insert(conn.id());
        if goes_in {
            conn.subscribe(ROOM.name())?;
        } else {
            self.inside.remove(&conn.id());
            conn.unsubscribe(ROOM.name())?;
        }
        reply(conn, &format!("{} {}", if goes_in { "in" } else { "out" }, self.count));
        self.tell()
    }

    fn tell(&mut self) -> Result<(), EffectError> {
        ROOM.publish(self.count.to_string())?;
        self.count += 1;
        ROOM.publish_frame(&self.frame)
    }
}

register!(Turnstile);

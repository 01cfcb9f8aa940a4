//! Connections that do nothing, held open so that a script can weigh the server.

use std::io;
use std::time::Duration;

use super::client::{Client, Expected, Wrong};
use super::connect::Connector;
use super::report::{self, Format};
use super::{BUFFER, EVENTS};
use crate::args::Error;
use crate::clock::{Clock, nanoseconds};
use crate::sys::{Epoll, Events};

/// Opens `count` connections and holds them, answering pings; returns whether all of them lasted.
pub(super) fn hold(
    mut connector: Connector,
    count: usize,
    hold: Duration,
    format: Format,
) -> Result<bool, Error> {
    let epoll = Epoll::new()?;
    let mut clients = Vec::with_capacity(count);
    for index in 0..count {
        let (stream, received) = connector.open().map_err(|error| {
            io::Error::new(error.kind(), format!("connection {}: {error}", index + 1))
        })?;
        epoll.add_stream(&stream, index as u64)?;
        clients.push(Some(Client::new(stream, received)));
    }
    report::ready(format, count)?;

    let clock = Clock::new();
    let end = nanoseconds(hold);
    let expected = Expected::new(0, false);
    let mut wrong = Wrong::default();
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; BUFFER];
    let mut lost = 0;
    loop {
        let left = end.saturating_sub(clock.now());
        if left == 0 {
            break;
        }
        for index in 0..epoll.wait(&mut events, Some(Duration::from_nanos(left)))? {
            let event = events.get(index);
            let slot = usize::try_from(event.token).ok().and_then(|at| clients.get_mut(at));
            if let Some(slot) = slot
                && let Some(client) = slot
                && client
                    .flush()
                    .and_then(|()| client.receive(&mut buffer, expected, &mut wrong))
                    .is_err()
            {
                *slot = None;
                lost += 1;
            }
        }
    }
    report::held(format, count, lost)?;
    Ok(lost == 0)
}

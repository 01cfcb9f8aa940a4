//! Reading a socket once per event.

use std::io::{self, Read};

use mio::net::TcpStream;

/// What one receive brought.
#[derive(Debug)]
pub(super) enum Received {
    /// So many bytes, and whether more may be there.
    Bytes(usize, bool),
    /// Nothing now.
    Nothing,
    /// The peer will send no more.
    End,
}

/// Whether a short read means that the socket is empty, so that no second one is needed to see
/// it: epoll and kqueue report again whatever comes later. Elsewhere readiness is only reported
/// anew after a read that would have blocked.
const SHORT_READ_EMPTIES: bool = cfg!(any(
    target_os = "linux",
    target_os = "android",
    target_os = "macos",
    target_os = "ios",
    target_os = "freebsd",
    target_os = "openbsd",
    target_os = "netbsd",
    target_os = "dragonfly"
));

/// One receive into the shard's buffer.
///
/// # Errors
/// The peer's reset and the like.
pub(super) fn receive(socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Received> {
    loop {
        match socket.read(buffer) {
            Ok(0) => return Ok(Received::End),
            Ok(n) => return Ok(Received::Bytes(n, n == buffer.len() || !SHORT_READ_EMPTIES)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(Received::Nothing);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

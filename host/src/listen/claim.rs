//! Who has a port for itself although its shards share it.
//!
//! To the system, the sockets of one host's shards are as willing to share their port as those of
//! several hosts (`SO_REUSEPORT`). What tells them apart is a name in the abstract namespace of
//! Unix sockets: like a port it belongs to a network namespace, has one holder, and is free again
//! when that has ended, however it ended.

use std::io;
use std::net::SocketAddr;

/// An address that no other host may listen on, for as long as this exists.
#[derive(Debug)]
pub(super) struct Claim {
    #[cfg(target_os = "linux")]
    _socket: std::os::unix::net::UnixDatagram,
}

#[cfg(target_os = "linux")]
impl Claim {
    /// Claims an address, with its true port; nothing where the system has no such names for us,
    /// for instance because a sandbox denies Unix sockets.
    ///
    /// # Errors
    /// Another host has it: `AddrInUse`.
    pub(super) fn take(address: SocketAddr) -> io::Result<Option<Self>> {
        match std::os::unix::net::UnixDatagram::bind_addr(&name(address)?) {
            Ok(_socket) => Ok(Some(Self { _socket })),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// # Errors
    /// A host has claimed the address, or all addresses of the machine: `AddrInUse`.
    pub(super) fn check_none(address: SocketAddr) -> io::Result<()> {
        use std::net::{Ipv4Addr, Ipv6Addr};

        let mut all = address;
        all.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        // In a sandbox that denies them nobody could be found.
        let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() else { return Ok(()) };
        for one in [address, all] {
            if socket.connect_addr(&name(one)?).is_ok() {
                return Err(io::ErrorKind::AddrInUse.into());
            }
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn name(address: SocketAddr) -> io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;

    std::os::unix::net::SocketAddr::from_abstract_name(format!("plugsock/listen/{address}"))
}

/// Elsewhere `reuse_port` is refused, so there is nothing to tell apart.
#[cfg(not(target_os = "linux"))]
impl Claim {
    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn take(_: SocketAddr) -> io::Result<Option<Self>> {
        Ok(None)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) fn check_none(_: SocketAddr) -> io::Result<()> {
        Ok(())
    }
}

//! Listening sockets. What differs between platforms stays here.

use std::io;
use std::net::SocketAddr;

use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};

/// One listening socket per shard for an address, all on the same port: with port 0 the system
/// chooses it for the first.
///
/// On Linux each shard has its own queue and the kernel spreads the clients
/// (`SO_REUSEPORT`); elsewhere all shards share one queue.
///
/// # Errors
/// Those of the system: the address is in use, not ours, or needs privileges.
pub fn bind(address: SocketAddr, backlog: u32, shards: usize) -> io::Result<Vec<TcpListener>> {
    // Without SO_REUSEPORT: a port that any other process holds, even one of ours that shares its
    // port among its shards, is "in use" and not silently shared.
    drop(open(address, false)?);
    let first = open(address, REUSE_PORT && shards > 1)?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    let mut sockets = vec![first];
    while sockets.len() < shards {
        sockets.push(if REUSE_PORT { open(address, true)? } else { sockets[0].try_clone()? });
    }
    let listen = |socket: Socket| {
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(TcpListener::from_std(socket.into()))
    };
    sockets.into_iter().map(listen).collect()
}

/// Whether several sockets on one port are dealt connections evenly.
const REUSE_PORT: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Bytes that the kernel takes of a connection beyond what it can send at once; accepted sockets
/// inherit it. Without it the kernel would hold megabytes for a slow peer, pongs would wait behind
/// them, and whether such a peer gets on would be seen in steps of megabytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNSENT: u32 = 64 * 1024;

fn open(address: SocketAddr, share: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if cfg!(unix) {
        // Lets a restarted host bind while its old connections linger in TIME_WAIT. On Windows
        // the option means something else.
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if share {
        socket.set_reuse_port(true)?;
    }
    let _ = share;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_notsent_lowat(UNSENT)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_listen_on_the_same_port() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 16, 3).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        assert_eq!(listeners.len(), 3);
        assert!(listeners.iter().all(|l| l.local_addr().unwrap().port() == port));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_accepted_socket_has_the_bound_on_unsent_bytes() {
        let listeners = bind("127.0.0.1:0".parse().unwrap(), 16, 1).unwrap();
        let _client = std::net::TcpStream::connect(listeners[0].local_addr().unwrap()).unwrap();
        let (accepted, _) = listeners[0].accept().unwrap();
        assert_eq!(socket2::SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), UNSENT);
    }

    #[test]
    fn a_port_in_use_is_an_error_even_if_its_holder_would_share() {
        let held = bind("127.0.0.1:0".parse().unwrap(), 16, 2).unwrap();
        let address = held[0].local_addr().unwrap();
        for shards in [1, 2] {
            let error = bind(address, 16, shards).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
    }
}

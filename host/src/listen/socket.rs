//! Listening sockets. What differs between platforms stays here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, Socket, Type};

use super::claim::Claim;
use super::config::Config;

/// A shard's listening socket for one address.
#[derive(Debug)]
pub struct Listener {
    /// To be registered.
    pub socket: TcpListener,
    /// Given up with the last shard's socket.
    _claim: Option<Arc<Claim>>,
}

impl Listener {
    /// A connection, and where its client is.
    ///
    /// # Errors
    /// Those of the system, above all that nobody is waiting.
    pub fn accept(&self) -> io::Result<(TcpStream, IpAddr)> {
        let (socket, address) = self.socket.accept()?;
        if !INHERITS {
            let _ = socket.set_nodelay(true);
        }
        Ok((socket, address.ip().to_canonical()))
    }
}

/// One listening socket per shard for an address, all on the same port: with port 0 the system
/// chooses it for the first.
///
/// On Linux each shard has its own queue and the kernel spreads the clients
/// (`SO_REUSEPORT`); elsewhere all shards share one queue. Other hosts may join in only if they and
/// this one have `reuse_port`.
///
/// # Errors
/// Those of the system: the address is in use, not ours, or needs privileges; or it cannot share
/// ports.
pub fn bind(address: SocketAddr, config: &Config, shards: usize) -> io::Result<Vec<Listener>> {
    let reuse_port = config.reuse_port;
    if reuse_port && !cfg!(target_os = "linux") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let share = REUSE_PORT && (reuse_port || shards > 1);
    let first = open(address, share)?;
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    let mut claim = None;
    if reuse_port {
        // Once more below: this one spares the other's clients a socket that is closed again.
        Claim::check_none(address)?;
    } else {
        // The claim is before the probe, and below the check is after the listening: of two hosts
        // that start at once, at least one sees the other.
        claim = Claim::take(address)?.map(Arc::new);
        if share {
            // Without SO_REUSEPORT: a port that any other process listens on, even one of ours
            // that shares it, is "in use". The first socket, which does not listen yet, is not in
            // the way.
            drop(open(address, false)?);
        }
    }
    let mut sockets = vec![first];
    while sockets.len() < shards {
        sockets.push(if share { open(address, true)? } else { sockets[0].try_clone()? });
    }
    let listen = |socket: Socket| {
        socket.listen(i32::try_from(config.backlog).unwrap_or(i32::MAX))?;
        Ok(Listener { socket: TcpListener::from_std(socket.into()), _claim: claim.clone() })
    };
    let listeners = sockets.into_iter().map(listen).collect::<io::Result<_>>()?;
    if reuse_port {
        Claim::check_none(address)?;
    }
    Ok(listeners)
}

/// Whether several sockets on one port are dealt connections evenly.
const REUSE_PORT: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Whether accepted sockets have `TCP_NODELAY` from the listening one, which spares a system call
/// for each. Without it small messages would wait for the acknowledgement of earlier ones.
const INHERITS: bool = cfg!(any(target_os = "linux", target_os = "android"));

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
    if INHERITS {
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(listeners: &[Listener]) -> SocketAddr {
        listeners[0].socket.local_addr().unwrap()
    }

    /// Listens on a local address; port 0 for any.
    fn listen(address: &str, shards: usize, reuse_port: bool) -> io::Result<Vec<Listener>> {
        let config = Config { backlog: 16, reuse_port, ..Config::default() };
        bind(address.parse().unwrap(), &config, shards)
    }

    #[test]
    fn all_shards_listen_on_the_same_port() {
        let listeners = listen("127.0.0.1:0", 3, false).unwrap();
        let port = address(&listeners).port();
        assert_eq!(listeners.len(), 3);
        assert!(listeners.iter().all(|l| l.socket.local_addr().unwrap().port() == port));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_accepted_socket_has_the_bound_on_unsent_bytes() {
        let listeners = listen("127.0.0.1:0", 1, false).unwrap();
        let _client = std::net::TcpStream::connect(address(&listeners)).unwrap();
        let (accepted, _) = listeners[0].accept().unwrap();
        assert_eq!(socket2::SockRef::from(&accepted).tcp_notsent_lowat().unwrap(), UNSENT);
    }

    #[test]
    fn an_accepted_socket_sends_at_once_and_its_client_is_known() {
        let listeners = listen("127.0.0.1:0", 1, false).unwrap();
        let _client = std::net::TcpStream::connect(address(&listeners)).unwrap();
        let (accepted, client) = loop {
            match listeners[0].accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => break result.unwrap(),
            }
        };
        assert!(accepted.nodelay().unwrap());
        assert_eq!(client, IpAddr::from([127, 0, 0, 1]));
    }

    fn assert_in_use(address: &str, shards: usize, reuse_port: bool) {
        let error = listen(address, shards, reuse_port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{address} {shards} {reuse_port}");
    }

    #[test]
    fn a_port_in_use_is_an_error_even_if_its_holder_would_share() {
        let held = listen("127.0.0.1:0", 2, false).unwrap();
        for shards in [1, 2] {
            assert_in_use(&address(&held).to_string(), shards, false);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn hosts_share_a_port_only_if_all_of_them_want_to() {
        for (one, other) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            let held = listen("127.0.0.1:0", one, true).unwrap();
            let at = address(&held).to_string();
            drop(listen(&at, other, true).unwrap());
            assert_in_use(&at, other, false);
            drop(held);
            // Free for whoever comes, and then that one's alone.
            let held = listen(&at, other, false).unwrap();
            assert_in_use(&at, one, true);
            drop(held);
            drop(listen(&at, one, true).unwrap());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_host_on_all_addresses_does_not_share_one_of_them() {
        let held = listen("0.0.0.0:0", 2, false).unwrap();
        assert_in_use(&format!("127.0.0.1:{}", address(&held).port()), 2, true);
        drop(held);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_claim_that_a_shard_still_holds_stands() {
        let mut held = listen("127.0.0.1:0", 2, false).unwrap();
        let at = address(&held).to_string();
        held.pop();
        assert_in_use(&at, 1, true);
    }

    #[cfg(not(target_os = "linux"))]
    #[test]
    fn sharing_a_port_is_refused_where_the_system_does_not_spread_clients() {
        let error = listen("127.0.0.1:0", 1, true).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }
}

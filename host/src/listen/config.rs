//! What an operator may set about accepting connections.

use std::net::{Ipv4Addr, SocketAddr};

/// Limits of the listening sockets and of admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Addresses to listen on, at least one; by default 127.0.0.1:8080. Port 0 lets the system
    /// choose. Every shard listens on every address.
    pub addresses: Vec<SocketAddr>,
    /// Whether other hosts may listen on the same addresses, if they have this too; by default not.
    /// The kernel spreads new connections over all of them. Linux only.
    pub reuse_port: bool,
    /// Connections that the kernel completes before the host accepts them, per socket; by default
    /// 4,096. The kernel cuts it to `net.core.somaxconn` and drops the SYNs above it, so a peer
    /// sees a slow connect. Costs kernel memory only while they wait.
    pub backlog: u32,
    /// Open connections of the whole host, unfinished handshakes included; by default 100,000. The
    /// peer above it gets 503 with Retry-After. An idle connection costs under 1 KB.
    pub max_connections: usize,
    /// Open connections of one client address, an IPv6 address counted by its /64; 0, the default,
    /// is no limit. The peer above it gets 429.
    pub max_connections_per_ip: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            addresses: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 8080))],
            reuse_port: false,
            backlog: 4096,
            max_connections: 100_000,
            max_connections_per_ip: 0,
        }
    }
}

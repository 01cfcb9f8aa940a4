//! What an operator may set about one connection.

use std::time::Duration;

use plugsock_ws::deflate;
use plugsock_ws::extension::Policy;

/// Limits of every connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// From accept to the 101, not renewed by bytes; by default 10 s. The peer above it is closed.
    pub handshake_timeout: Duration,
    /// Bytes of the request head; by default 16 KiB. The peer above it gets 431. Held per
    /// connection, as far as it was sent, while its handshake is unfinished.
    pub max_header_size: usize,
    /// Origins that may connect, each as a browser sends it (RFC 6454 §6.2); empty, the default,
    /// is any. Others get 403.
    pub allowed_origins: Vec<String>,
    /// Bytes of one frame's payload, at most [`Self::max_message_size`]; by default 4 MiB. The peer
    /// above it gets 1009 as soon as the frame's header is read (RFC 6455 §7.4.1).
    pub max_frame_size: u64,
    /// Bytes of one message's payload, whatever its frames; by default 4 MiB. The peer above it
    /// gets 1009. A connection holds an unfinished message as far as it was sent.
    pub max_message_size: u64,
    /// Pings and pongs that one connection may send within a second; by default 1,000. The peer
    /// above it gets 1008. Costs 6 bytes per connection.
    pub max_control_rate: u16,
    /// Bytes of payload in one outgoing frame; by default 64 KiB. Larger messages leave in several
    /// frames (RFC 6455 §5.4), so that a pong waits for one of them only.
    pub fragment_size: usize,
    /// permessage-deflate (RFC 7692); `None`, the default, declines every offer.
    pub compression: Option<Compression>,
    /// Bytes that may wait to be written to one connection; by default 1 MiB. What happens above
    /// it is [`Self::slow_consumer`]'s. Costs nothing while the peer keeps up.
    pub outbox_size: usize,
    /// What happens to a peer that reads more slowly than it is sent to.
    pub slow_consumer: SlowConsumer,
    /// Messages of one connection that may wait for a worker, at least 1; by default 64. Above it
    /// the host stops reading that socket, so the peer sees TCP backpressure.
    pub queue_per_connection: u16,
    /// Pings to silent peers; `None` sends none, and a vanished peer is noticed only by a write.
    pub heartbeat: Option<Heartbeat>,
    /// From the host's close frame to the end of the TCP connection, if the peer does not answer;
    /// by default 5 s (RFC 6455 §7.1.1).
    pub close_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(10),
            max_header_size: 16 << 10,
            allowed_origins: Vec::new(),
            max_frame_size: 4 << 20,
            max_message_size: 4 << 20,
            max_control_rate: 1_000,
            fragment_size: 64 << 10,
            compression: None,
            outbox_size: 1 << 20,
            slow_consumer: SlowConsumer::default(),
            queue_per_connection: 64,
            heartbeat: Some(Heartbeat::default()),
            close_timeout: Duration::from_secs(5),
        }
    }
}

/// How messages are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// What is agreed to. Without context takeover, the default, a connection keeps nothing.
    pub policy: Policy,
    /// How hard it is tried; by default level 1, the fastest, and `mem_level` 8. Each thread has
    /// one compressor per window size in use, 380 KB at most.
    pub settings: deflate::Settings,
    /// Bytes; by default 256. Smaller messages are sent as they are.
    pub threshold: usize,
    /// Bytes that the windows of all connections with context takeover may take; by default 1 GiB.
    /// Above it further connections are agreed with without takeover.
    pub memory_budget: usize,
}

/// Pings (RFC 6455 §5.5.2) and how long a peer may stay silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Time between pings; by default 30 s.
    pub interval: Duration,
    /// A peer that sent nothing for so long is closed, longer than [`Self::interval`]; by default
    /// 90 s. Time in which the host itself did not read does not count.
    pub timeout: Duration,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { interval: Duration::from_secs(30), timeout: Duration::from_secs(90) }
    }
}

/// What happens when a connection's outbox is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowConsumer {
    /// The connection is closed with 1008.
    #[default]
    Close,
    /// The message that does not fit is dropped.
    DropNewest,
    /// The messages that wait longest are dropped until it fits.
    DropOldest,
}

//! Every key there is. To add one: a field in a `Config`, and a row here; the row makes it known to
//! the file, the environment, `--set` and `default-config`, and a test then asks for its line in
//! `docs/config.md`.

use std::time::Duration;

use super::draft::{Builtin, Draft, PluginDraft, RouteDraft, StaticDraft};
use super::field::Field::{self, Addresses, Choice, Count, Flag, Size, Text, Texts, Time};
use super::field::{Named, Shape};
use super::{Format, Instances, OnFailure};
use crate::conn::SlowConsumer;
use crate::types::ConnectionId;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

const MAX_SHARDS: u64 = ConnectionId::MAX_SHARDS as u64;
/// Connections that the numbering has room for.
const MAX_CONNECTIONS: u64 = MAX_SHARDS * ConnectionId::MAX_SLOTS as u64;

/// A key of a table that is made into a `T`.
pub(super) struct Key<T: 'static> {
    pub name: &'static str,
    /// Missing, it is an error: it has no default.
    pub required: bool,
    pub field: fn(&mut T) -> Field<'_>,
    /// Sentences for the default file and the documentation.
    pub about: &'static str,
}

/// A table that stands once in a file: `[name]`.
pub(super) struct Section {
    pub name: &'static str,
    pub about: &'static str,
    pub keys: &'static [Key<Draft>],
}

/// A table that may stand several times in a file: `[[name]]`.
pub(super) struct Entries<T: 'static> {
    pub name: &'static str,
    pub about: &'static str,
    pub keys: &'static [Key<T>],
    /// Entries that a file may have.
    pub most: usize,
}

const fn key<T>(name: &'static str, field: fn(&mut T) -> Field<'_>, about: &'static str) -> Key<T> {
    Key { name, required: false, field, about }
}

const fn required<T>(
    name: &'static str,
    field: fn(&mut T) -> Field<'_>,
    about: &'static str,
) -> Key<T> {
    Key { name, required: true, field, about }
}

pub(super) static SECTIONS: &[Section] = &[
    Section {
        name: "server",
        about: "Sockets, and what happens before a connection is upgraded.",
        keys: SERVER,
    },
    Section {
        name: "workers",
        about: "The threads that run plugins, and the queue in front of them.",
        keys: WORKERS,
    },
    Section {
        name: "limits",
        about: "What one connection may send and leave unread.",
        keys: LIMITS,
    },
    Section {
        name: "compression",
        about: "permessage-deflate (RFC 7692), with clients that offer it.",
        keys: COMPRESSION,
    },
    Section { name: "heartbeat", about: "Pings that find peers which vanished.", keys: HEARTBEAT },
    Section { name: "log", about: "The log, on standard error.", keys: LOG },
];

static SERVER: &[Key<Draft>] = &[
    key("listen", |d| Addresses(&mut d.config.listen.addresses), "Addresses to listen on."),
    key("shards", |d| Count(&mut d.shards, 0..=MAX_SHARDS), "I/O threads; 0 is one per core."),
    key(
        "max_connections",
        |d| Count(&mut d.config.listen.max_connections, 1..=MAX_CONNECTIONS),
        "Open connections of the whole host, at most 16_777_216 per shard. Above it: 503 with \
         Retry-After, before the upgrade.",
    ),
    key(
        "max_connections_per_ip",
        |d| Count(&mut d.config.listen.max_connections_per_ip, 0..=MAX_CONNECTIONS),
        "Open connections of one client address; IPv6 is counted by /64; 0 is no limit. Above it: \
         429.",
    ),
    key(
        "handshake_timeout",
        |d| Time(&mut d.config.conn.handshake_timeout, MS * 10..=HOUR),
        "From accept to the 101, not renewed by bytes. After it the connection is closed.",
    ),
    key(
        "max_header_size",
        |d| Size(&mut d.config.conn.max_header_size, 256..=MIB),
        "Bytes of the request head. Above it: 431.",
    ),
    key(
        "reuse_port",
        |d| Flag(&mut d.config.listen.reuse_port),
        "Whether other hosts may listen on the same addresses, if they have this set too: the \
         kernel spreads new connections over all of them. Linux only.",
    ),
    key(
        "backlog",
        |d| Count(&mut d.config.listen.backlog, 1..=65_535),
        "Connections that wait to be accepted, per socket; the system's own limit \
         (net.core.somaxconn) applies too.",
    ),
    key(
        "allowed_origins",
        |d| Texts(&mut d.config.conn.allowed_origins, &ORIGIN),
        "Origins that may connect, compared without regard to case; empty allows any. Others: 403.",
    ),
    key(
        "drain_timeout",
        |d| Time(&mut d.config.server.drain_timeout, Duration::ZERO..=HOUR),
        "How long a stop may take: running handlers finish, clients are told 1001.",
    ),
    key(
        "close_timeout",
        |d| Time(&mut d.config.conn.close_timeout, MS * 10..=HOUR),
        "How long a peer may take to answer a close frame, from when it last took some of what \
         waits before it. After it the TCP connection is closed.",
    ),
];

static WORKERS: &[Key<Draft>] = &[
    key(
        "threads",
        |d| Count(&mut d.threads, 0..=1024),
        "Threads that run handlers; 0 is one per core.",
    ),
    key(
        "pool_size",
        |d| Count(&mut d.pool_size, 0..=65_536),
        "Handlers in flight of plugins that can wait, and as many of plugins that only compute \
         (at most 64 per thread); at least one per thread; 0 is 4 per thread. A handler that waits \
         for the host keeps its place, not its thread.",
    ),
    key(
        "queue_size",
        |d| Count(&mut d.config.inbound.queue_size, 1..=16_777_216),
        "Messages that wait for a worker, whole host. Above it the host stops reading from its \
         sockets.",
    ),
    key(
        "queue_bytes",
        |d| Size(&mut d.config.inbound.queue_bytes, KIB..=1024 * GIB),
        "Bytes that wait for a worker, whole host; at least limits.max_message_size. Above it the \
         host stops reading from its sockets.",
    ),
    key(
        "queue_per_connection",
        |d| Count(&mut d.config.conn.queue_per_connection, 1..=65_535),
        "Messages of one connection that wait for a worker. Above it the host stops reading from \
         that socket.",
    ),
    key(
        "call_deadline",
        |d| Time(&mut d.config.plugin.call_deadline, MS * 2..=HOUR),
        "For each call of a handler, computing and waiting together. After it the call has failed: \
         see on_failure.",
    ),
    key(
        "memory_limit",
        |d| Size(&mut d.config.plugin.memory_limit, MIB..=4 * GIB),
        "Memory of one plugin instance. Above it an allocation fails inside the plugin.",
    ),
];

static LIMITS: &[Key<Draft>] = &[
    key(
        "max_frame_size",
        |d| Size(&mut d.config.conn.max_frame_size, 1..=GIB),
        "Payload of one frame, at most max_message_size; where only that is set, and lower, this \
         follows it. Above it: close 1009.",
    ),
    key(
        "max_message_size",
        |d| Size(&mut d.config.conn.max_message_size, 1..=GIB),
        "Payload of one message, whatever its frames. Above it: close 1009. A plugin cannot send a \
         larger one either.",
    ),
    key(
        "max_control_rate",
        |d| Count(&mut d.config.conn.max_control_rate, 1..=65_534),
        "Pings and pongs that one connection may send within a second. Above it: close 1008.",
    ),
    key(
        "fragment_size",
        |d| Size(&mut d.config.conn.fragment_size, 128..=GIB),
        "Payload of one outgoing frame. Larger messages leave in several, with pongs in between.",
    ),
    key(
        "outbox_size",
        |d| Size(&mut d.config.conn.outbox_size, KIB..=GIB),
        "Bytes that wait to be written to one connection. Above it: see slow_consumer.",
    ),
    key(
        "slow_consumer",
        |d| Choice(&mut d.config.conn.slow_consumer),
        "When the outbox is full: close the connection (1008), or drop messages.",
    ),
];

static COMPRESSION: &[Key<Draft>] = &[
    key("enabled", |d| Flag(&mut d.compression_enabled), "Whether offers are accepted."),
    key(
        "level",
        |d| Count(&mut d.compression.level, 0..=9),
        "How hard it is tried: 1 is fastest, 9 smallest, 0 does not compress.",
    ),
    key(
        "server_max_window_bits",
        |d| Count(&mut d.compression.server_max_window_bits, 9..=15),
        "How far back, in powers of two, what is sent may refer.",
    ),
    key(
        "client_max_window_bits",
        |d| Count(&mut d.compression.client_max_window_bits, 9..=15),
        "How far back what a client sends may refer; below 15, clients that do not offer to keep \
         to it are denied context takeover.",
    ),
    key(
        "mem_level",
        |d| Count(&mut d.compression.mem_level, 1..=9),
        "Memory of each thread's compressor: 9 is largest.",
    ),
    key(
        "context_takeover",
        |d| Flag(&mut d.compression.context_takeover),
        "Whether messages may refer to earlier ones: smaller on the wire, for up to both windows \
         of memory per connection.",
    ),
    key(
        "threshold",
        |d| Size(&mut d.compression.threshold, 0..=GIB),
        "Smaller messages are sent as they are.",
    ),
    key(
        "memory_budget",
        |d| Size(&mut d.compression.memory_budget, 0..=1024 * GIB),
        "Windows of all connections with context takeover. Above it further ones get none.",
    ),
];

static HEARTBEAT: &[Key<Draft>] = &[
    key("enabled", |d| Flag(&mut d.heartbeat_enabled), "Whether pings are sent."),
    key(
        "interval",
        |d| Time(&mut d.heartbeat.interval, MS * 10..=DAY),
        "Time between pings, rounded up to tenths of a second.",
    ),
    key(
        "timeout",
        |d| Time(&mut d.heartbeat.timeout, MS * 10..=DAY),
        "A peer that is silent, or reads nothing of what waits for it, for so long is gone; one \
         that sends nothing more of a message that it has begun is closed (1008). Longer than \
         interval.",
    ),
];

static LOG: &[Key<Draft>] = &[
    key("format", |d| Choice(&mut d.config.log.format), "For people, or one JSON object per line."),
    key(
        "level",
        |d| Text(&mut d.config.log.level, &LEVEL),
        "What is logged: a level for Plugsock (info at most for the libraries below it), or levels \
         by module.",
    ),
];

pub(super) static PLUGIN: Entries<PluginDraft> = Entries {
    name: "plugin",
    about: "A WebAssembly component with business logic.",
    keys: &[
        required("name", |p| Text(&mut p.name, &NAME), "How routes and the log call it."),
        required(
            "source",
            |p| Text(&mut p.source, &PATH),
            "Path of the component, relative to this file.",
        ),
        key(
            "instances",
            |p| Choice(&mut p.instances),
            "\"pool\": any free instance serves any connection. \"single\": one instance serves \
             all of them, one event after another.",
        ),
        key(
            "on_failure",
            |p| Choice(&mut p.on_failure),
            "What becomes of the connection whose handler trapped or ran out of time: close it \
             (1011), or drop that message only.",
        ),
    ],
    most: 256,
};

pub(super) static ROUTE: Entries<RouteDraft> = Entries {
    name: "route",
    about: "Which connections go to which plugin.",
    keys: &[
        required("path", |r| Text(&mut r.path, &URL_PATH), "Path of the URL, compared exactly."),
        key(
            "plugin",
            |r| Text(&mut r.plugin, &NAME),
            "Name of the plugin that serves it. Either this or builtin is required.",
        ),
        key(
            "builtin",
            |r| Choice(&mut r.builtin),
            "Served by the host itself, without a plugin: to measure the host's own cost. Messages \
             over 64 KiB leave uncompressed.",
        ),
        key(
            "subprotocols",
            |r| Texts(&mut r.subprotocols, &TOKEN),
            "Subprotocols that it speaks. The client's first one that is among them is agreed on.",
        ),
        key(
            "require_subprotocol",
            |r| Flag(&mut r.require_subprotocol),
            "Whether a client without a common subprotocol is refused (400).",
        ),
    ],
    most: 4096,
};

pub(super) static STATIC: Entries<StaticDraft> = Entries {
    name: "static",
    about: "A directory of files to serve over plain HTTP.",
    keys: &[
        required("path", |s| Text(&mut s.path, &URL_PREFIX), "Prefix of the URL's path."),
        required("dir", |s| Text(&mut s.dir, &PATH), "The directory, relative to this file."),
    ],
    most: 64,
};

static NAME: Shape = Shape {
    what: "1 to 64 letters, digits, \"-\" or \"_\"",
    valid: |text| {
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(part)
    },
};

static PATH: Shape =
    Shape { what: "a path", valid: |text| !text.is_empty() && !text.contains('\0') };

static URL_PATH: Shape = Shape {
    what: "a path such as \"/chat\", as it is sent: it begins with / and has no ?, # or blanks",
    valid: is_url_path,
};

static URL_PREFIX: Shape = Shape {
    what: "a path such as \"/\" or \"/assets\": it begins with / and has no empty part, no part \
           that begins with a dot and no %, ?, # or blanks",
    valid: |text| {
        let parts = text.strip_suffix('/').unwrap_or(text).split('/').skip(1);
        let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        is_url_path(text) && !text.contains(['%', '\\']) && { parts }.all(plain)
    },
};

/// RFC 9110 §5.6.2.
static TOKEN: Shape = Shape {
    what: "a token of RFC 9110: no blanks, commas, quotes or brackets",
    valid: |text| {
        let part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        (1..=256).contains(&text.len()) && text.bytes().all(part)
    },
};

/// RFC 6454 §6.2.
static ORIGIN: Shape = Shape {
    what: "an origin as browsers send it, such as \"https://example.org\" (lower case, no path)",
    valid: |text| {
        let part = |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase();
        let host = text.split_once("://").map(|(_, host)| host);
        let bare = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@', '*', ',']);
        text == "null" || (text.bytes().all(part) && host.is_some_and(bare))
    },
};

static LEVEL: Shape = Shape {
    what: "off, error, warn, info, debug or trace, or a comma-separated list such as \
           \"info,plugsock::conn=debug\"",
    valid: |text| {
        let is_level = |part: &str| part.parse::<tracing::level_filters::LevelFilter>().is_ok();
        // Without this an unknown level would be taken for the name of a module.
        let plain = |part: &str| part.contains(['=', '[']) || is_level(part);
        let filter = tracing_subscriber::EnvFilter::builder().parse(text);
        !text.is_empty() && filter.is_ok() && text.split(',').all(plain)
    },
};

fn is_url_path(text: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_graphic() && !b"?#".contains(&byte);
    text.starts_with('/') && text.len() <= 1024 && text.bytes().all(part)
}

impl Named for SlowConsumer {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("close", Self::Close),
        ("drop-newest", Self::DropNewest),
        ("drop-oldest", Self::DropOldest),
    ];
}

impl Named for Format {
    const NAMES: &'static [(&'static str, Self)] = &[("human", Self::Human), ("json", Self::Json)];
}

impl Named for Instances {
    const NAMES: &'static [(&'static str, Self)] =
        &[("pool", Self::Pool), ("single", Self::Single)];
}

impl Named for OnFailure {
    const NAMES: &'static [(&'static str, Self)] = &[("close", Self::Close), ("drop", Self::Drop)];
}

impl Named for Option<Builtin> {
    const NAMES: &'static [(&'static str, Self)] = &[("echo", Some(Builtin::Echo))];
}

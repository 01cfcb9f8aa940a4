"""Who is measured, and under what."""

import dataclasses

from measure import PLUGSOCK_CONFIG, Candidate

# What Plugsock serves besides the echoes of `compare`.
CHAT = """
[[plugin]]
name = "chat"
source = "{chat}"

[[route]]
path = "/chat"
plugin = "chat"
"""
DEFLATE = """
[compression]
enabled = true
"""
PLUGSOCK = "{bin}/plugsock serve --config {config} --set log.level=warn"


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, and what it can do: a path for each of "echo", "deflate", "broadcast"
    and "broadcast-deflate"."""

    name: str
    label: str
    command: str
    paths: dict[str, str]
    # Bars of a colour: the loops that only echo, the others' servers, this project's.
    kind: str = "peer"

    def candidate(self, service: str) -> Candidate:
        deflates = service.endswith("deflate")
        if self.kind == "ours":
            config = PLUGSOCK_CONFIG + (DEFLATE if deflates else "") + CHAT
            return Candidate(self.name, self.command, self.paths[service], config)
        command = self.command + (" --deflate" if deflates else "")
        return Candidate(self.name, command, self.paths[service])


ECHO = {"echo": "/"}
BOTH = {"echo": "/", "broadcast": "/broadcast"}
ALL = {**BOTH, "deflate": "/", "broadcast-deflate": "/broadcast"}
BARE = {"broadcast": "/", "broadcast-deflate": "/"}
NAIVE = {"broadcast-deflate": "/"}

SERVERS = {server.name: server for server in [
    Server("epoll", "bare epoll loop", "{bin}/epoll-echo --listen 127.0.0.1:{port}", ECHO,
           "limit"),
    Server("again", "the same, again", "{bin}/epoll-echo --listen 127.0.0.1:{port}", ECHO,
           "limit"),
    Server("tokio", "bare tokio tasks", "{bin}/tokio-echo --listen 127.0.0.1:{port}", ECHO,
           "limit"),
    Server("broadcast", "bare broadcast loop", "{bin}/epoll-broadcast --listen 127.0.0.1:{port}",
           BARE, "limit"),
    Server("naive", "naive loop", "{bin}/epoll-broadcast --naive --listen 127.0.0.1:{port}",
           NAIVE, "limit"),
    Server("naive-fast", "naive loop, level 1",
           "{bin}/epoll-broadcast --naive --level 1 --listen 127.0.0.1:{port}", NAIVE, "limit"),
    Server("native", "Plugsock, built-in echo", PLUGSOCK,
           {"echo": "/native", "deflate": "/native"}, "ours"),
    Server("plugin", "Plugsock, plugin", PLUGSOCK,
           {"echo": "/echo", "deflate": "/echo", "broadcast": "/chat?room=bench",
            "broadcast-deflate": "/chat?room=bench"}, "ours"),
    Server("tungstenite", "tokio-tungstenite", "{rust}/tungstenite {port}", BOTH),
    Server("tungstenite-4k", "tokio-tungstenite, 4 KiB", "{rust}/tungstenite {port} 4096", BOTH),
    Server("fastwebsockets", "fastwebsockets", "{rust}/fastwebsockets {port}", BOTH),
    Server("bun", "Bun", "{npm}/node_modules/.bin/bun {npm}/bun.js {port}", ALL),
    Server("ws", "ws on Node", "{node} {npm}/ws.js {port}", ALL),
]}


@dataclasses.dataclass(frozen=True)
class Workload:
    """A load, and which figures of it are shown: `figures` in the table, `charts` as bars."""

    key: str
    title: str
    text: str
    load: tuple[str, ...]
    figures: tuple[str, ...]
    charts: tuple[str, ...]
    service: str = "echo"
    reference: str = "epoll"
    # What CPU time and rate count.
    unit: str = "message"
    # Opens so many and holds them, instead of sending messages.
    connections: int = 0
    # Measured for so long at least, where a round of a slow server takes seconds.
    seconds: float = 0

    def servers(self) -> list[Server]:
        """All that can do it, the reference first."""
        able = [server for server in SERVERS.values() if self.service in server.paths]
        return sorted(able, key=lambda server: server.name != self.reference)


CLOSED = {"figures": ("ratio", "cpu_us", "rate"), "charts": ("ratio",)}
BROADCAST = {"figures": ("ratio", "cpu_us", "rate", "p50_us", "p99_us"), "charts": ("rate",),
             "service": "broadcast", "reference": "broadcast", "unit": "delivery"}
RECEIVERS = ("--broadcast", "--text", "--clients", "5000")
# How many times the least is more telling than a ratio near nothing.
COMPRESSED = {"figures": ("gain", "speedup", "cpu_us", "rate", "p50_us", "p99_us"),
              "charts": ("gain", "speedup"), "service": "broadcast-deflate",
              "reference": "naive", "unit": "delivery"}
MANY_RECEIVERS = ("--broadcast", "--text", "--deflate", "--clients", "10000", "--size", "1024")

WORKLOADS = [
    Workload("echo-1", "Echo: 200 clients, 1 message in flight each",
             "100 bytes. Many connections, each awake for one message: the cost of waking up and "
             "of one read and one write.",
             ("--clients", "200", "--in-flight", "1", "--size", "100"), **CLOSED),
    Workload("echo-16", "Echo: 200 clients, 16 messages in flight each",
             "100 bytes. What comes together may be read, handled and answered together: the cost "
             "of a message itself.",
             ("--clients", "200", "--in-flight", "16", "--size", "100"), **CLOSED),
    Workload("echo-8", "Echo: 8 clients, 1 message in flight each",
             "100 bytes. Nothing to batch, and mostly one event at a time.",
             ("--clients", "8", "--in-flight", "1", "--size", "100"), **CLOSED),
    Workload("half", "Echo: 50,000 messages a second",
             "200 clients send 250 messages of 100 bytes a second each, whatever comes back: about "
             "half of what the slowest can do. Latency counts from when a message was due. A "
             "server with time to spare takes fewer messages at once, so they cost more.",
             ("--clients", "200", "--rate", "250", "--size", "100"),
             ("ratio", "cpu_us", "rate", "p50_us", "p99_us"), ("p50_us", "p99_us")),
    Workload("deflate", "Echo with compression: 1 KiB of JSON",
             "permessage-deflate without context takeover, 200 clients, 1 message in flight each, "
             "messages like JSON. ws and Plugsock compress at level 1; Bun has no such setting.",
             ("--clients", "200", "--in-flight", "1", "--size", "1024", "--text", "--deflate"),
             service="deflate", reference="native", **CLOSED),
    Workload("broadcast-1", "Broadcast: 1 message to 5,000 receivers",
             "100 bytes of text. The next one is published when all have the one before. p50 and "
             "p99 are the time until the last receiver has it.",
             (*RECEIVERS, "--in-flight", "1"), **BROADCAST),
    Workload("broadcast-16", "Broadcast: 16 messages at once to 5,000 receivers",
             "The same with 16 messages, which the publisher sends in one write. p50 and p99 are "
             "the time until the last receiver has all of them.",
             (*RECEIVERS, "--in-flight", "16"), **BROADCAST),
    Workload("broadcast-deflate-1",
             "Broadcast with compression: 1 message of 1 KiB to 10,000 receivers",
             "permessage-deflate without context takeover, text like JSON. The naive loop "
             "compresses (zlib's level 6) and writes for each message and receiver. Plugsock, ws "
             "and the bare loop compress at level 1; Bun has no such setting. Measured for at "
             "least 8 s, because the first round of ws takes seconds.",
             (*MANY_RECEIVERS, "--in-flight", "1"), seconds=8, **COMPRESSED),
    Workload("broadcast-deflate-16",
             "Broadcast with compression: 16 messages of 1 KiB at once to 10,000 receivers",
             "The same with 16 messages, which the publisher sends in one write. Measured for at "
             "least 6 s, because a round of the naive loop takes seconds.",
             (*MANY_RECEIVERS, "--in-flight", "16"), seconds=6, **COMPRESSED),
    Workload("connections", "Connections: 10,000 handshakes, and what idle ones weigh",
             "At most 100 are being opened at once. Memory is the process's own (RssAnon), without "
             "the kernel's sockets: how much it grew for each connection, what it was before, and "
             "what it came to. A server first uses what it freed before, so the last is surest.",
             ("--connect-rate", "1000000"),
             ("rss", "before", "total", "ratio", "cpu_us", "rate"),
             ("total", "ratio"),
             unit="handshake", connections=10_000),
]

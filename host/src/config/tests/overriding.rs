//! Which source counts, and how a wrong setting in each is named.

use super::*;
use crate::conn::Heartbeat;

#[test]
fn each_source_overrides_the_one_before() {
    let file = "[workers]\nqueue_size = 1\nqueue_per_connection = 1\nthreads = 1\n";
    let environment = pairs(&[
        ("PLUGSOCK_WORKERS_QUEUE_PER_CONNECTION", "2"),
        ("PLUGSOCK_WORKERS_THREADS", "2"),
        ("PLUGSOCK_SERVER_LISTEN", "127.0.0.1:1, [::1]:2"),
        ("PLUGSOCK_SERVER_ALLOWED_ORIGINS", "https://a,https://b"),
        ("PLUGSOCK_HEARTBEAT_INTERVAL", "1s"),
        ("PLUGSOCK_HEARTBEAT_ENABLED", "true"),
        ("PLUGSOCK_LIMITS_OUTBOX_SIZE", "64KiB"),
        ("PLUGSOCK_LIMITS_SLOW_CONSUMER", "drop-newest"),
        ("PLUGSOCK_LOG_LEVEL", "debug"),
        ("PATH", "/bin"),
        ("plugsock_lower", "1"),
    ]);
    let set = pairs(&[("workers.threads", "3"), ("log.level", "a=info,b=warn")]);
    let sources = Sources { environment: &environment, set: &set, ..Sources::default() };
    let config = load_with(file, sources).unwrap().config;
    assert_eq!(config.inbound.queue_size, 1, "the file's");
    assert_eq!(config.conn.queue_per_connection, 2, "the environment's");
    assert_eq!(config.workers.threads, 3, "the flag's");
    let second: SocketAddr = "[::1]:2".parse().unwrap();
    assert_eq!(config.listen.addresses, ["127.0.0.1:1".parse().unwrap(), second]);
    assert_eq!(config.conn.allowed_origins, ["https://a", "https://b"]);
    let timeout = Heartbeat::default().timeout;
    let heartbeat = Heartbeat { interval: Duration::from_secs(1), timeout };
    assert_eq!(config.conn.heartbeat, Some(heartbeat));
    assert_eq!(config.conn.outbox_size, 64 << 10);
    assert_eq!(config.conn.slow_consumer, SlowConsumer::DropNewest);
    assert_eq!(config.log.level, "a=info,b=warn");

    let sources = Sources { listen: &[second], ..sources };
    assert_eq!(load_with(file, sources).unwrap().config.listen.addresses, [second]);
}

#[test]
fn wrong_overrides_name_themselves() {
    let environment = pairs(&[
        ("PLUGSOCK_LISTEN", "[::1]:80"),
        ("PLUGSOCK_SERVER_LISTN", "[::1]:80"),
        ("PLUGSOCK_SERVER_LISTEN", "localhost"),
        ("PLUGSOCK_SERVER_MAX_CONNECTIONS", "100_000"),
        ("PLUGSOCK_WORKERS_QUEUE_SISE", "1"),
        ("PLUGSOCK_ZZZ", "1"),
        ("PLUGSOCK_WORKERS_THREADS", "many"),
        ("PLUGSOCK_HEARTBEAT_TIMEOUT", "1s"),
    ]);
    let set = pairs(&[
        ("workers.thread", "1"),
        ("nonsense", "1"),
        ("outbox_size", "64KiB"),
        ("limits.outbox_size", "64KB"),
        ("plugin.name", "chat"),
        ("limits.max_frame_size", "+1"),
    ]);
    let sources = Sources { environment: &environment, set: &set, ..Sources::default() };
    assert_eq!(
        load_with("", sources).unwrap_err(),
        [
            "PLUGSOCK_HEARTBEAT_TIMEOUT: `heartbeat.timeout` (1s) is not above \
             `heartbeat.interval` (30s): peers would be called dead before they can answer; raise \
             the first or lower the second",
            "PLUGSOCK_LISTEN: no such setting; did you mean PLUGSOCK_SERVER_LISTEN?",
            "PLUGSOCK_SERVER_LISTEN: `server.listen` must be a list of 1 to 256 addresses such as \
             \"127.0.0.1:8080\" or \"[::1]:8080\", not \"localhost\"; names are not looked up, \
             since one may stand for several addresses or for none: write \"127.0.0.1:8080\"",
            "PLUGSOCK_SERVER_LISTN: no such setting; did you mean PLUGSOCK_SERVER_LISTEN?",
            "PLUGSOCK_SERVER_MAX_CONNECTIONS: `server.max_connections` must be a whole number \
             from 1 to 4_294_967_296, not \"100_000\"; write 100000",
            "PLUGSOCK_WORKERS_QUEUE_SISE: no such setting; did you mean \
             PLUGSOCK_WORKERS_QUEUE_SIZE?",
            "PLUGSOCK_WORKERS_THREADS: `workers.threads` must be a whole number from 0 to 1024, \
             not \"many\"",
            "PLUGSOCK_ZZZ: no such setting; unset it, or see `plugsock default-config` for the \
             keys",
            "--set limits.max_frame_size: `limits.max_frame_size` must be a size from \"1B\" to \
             \"1GiB\", not \"+1\"",
            "--set limits.outbox_size: `limits.outbox_size` must be a size from \"1KiB\" to \
             \"1GiB\", not \"64KB\"; did you mean \"64KiB\"?",
            "--set nonsense: unknown key `nonsense`; see `plugsock default-config` for the keys",
            "--set outbox_size: unknown key `outbox_size`; did you mean `limits.outbox_size`?",
            "--set plugin.name: unknown key `plugin.name`; plugins, routes and static directories \
             are set in a file only",
            "--set workers.thread: unknown key `workers.thread`; did you mean `workers.threads`?",
        ]
    );
}

//! Values that a key cannot have, and what is said instead.

use super::{assert_problem, good};

#[test]
fn numbers_of_the_wrong_kind() {
    for (value, shown) in [
        ("\"2\"", "\"2\"; write 2"),
        ("2.0", "2.0"),
        ("-1", "-1"),
        ("1025", "1025"),
        ("true", "true"),
        ("[]", "an empty list"),
        ("[1]", "a list"),
        ("{}", "a table"),
        ("2026-01-01", "a date"),
        ("99999999999999999999", "99999999999999999999"),
    ] {
        assert_problem(
            &format!("workers.threads = {value}"),
            &format!(
                "plugsock.toml:1:19: `workers.threads` must be a whole number from 0 to 1024, not \
                 {shown}"
            ),
        );
    }
    for (value, threads) in [("0x10", 16), ("0b11", 3), ("1_000", 1000)] {
        assert_eq!(good(&format!("workers.threads = {value}")).workers.threads, threads);
    }
}

#[test]
fn addresses_of_other_kinds() {
    let must = "must be a list of 1 to 256 addresses such as \"127.0.0.1:8080\" or \
                \"[::1]:8080\", not";
    for (written, expected) in [
        ("\"[::1]:80\"", format!("{must} \"[::1]:80\"; write [\"[::1]:80\"]")),
        (
            "[\"localhost:80\"]",
            format!(
                "{must} \"localhost:80\"; names are not looked up, since one may stand for \
                 several addresses or for none: write \"127.0.0.1:80\""
            ),
        ),
        (
            "[80]",
            format!(
                "{must} 80; write \"127.0.0.1:80\" for this machine alone, or \"0.0.0.0:80\" for \
                 all of this machine's addresses"
            ),
        ),
        (
            "\"[::1]\"",
            format!("{must} \"[::1]\"; make it a list; the port is missing: write \"[::1]:8080\""),
        ),
        ("[]", format!("{must} an empty list")),
        ("[\"[::1]:1\", \"[::1]:1\"]", "names \"[::1]:1\" twice".to_owned()),
    ] {
        let expected = format!("plugsock.toml:1:17: `server.listen` {expected}");
        assert_problem(&format!("server.listen = {written}"), &expected);
    }
}

#[test]
fn other_values_of_the_wrong_kind() {
    for (line, column, expected) in [
        (
            "server.max_header_size = \"16KB\"",
            26,
            "`server.max_header_size` must be a size from \"256B\" to \"1MiB\", not \"16KB\"; did \
             you mean \"16KiB\"?",
        ),
        (
            "server.drain_timeout = 30",
            24,
            "`server.drain_timeout` must be a duration from \"0ms\" to \"1h\", not 30; it has no \
             unit; did you mean \"30s\"?",
        ),
        ("heartbeat.enabled = 1", 21, "`heartbeat.enabled` must be true or false, not 1"),
        (
            "limits.slow_consumer = \"wait\"",
            24,
            "`limits.slow_consumer` must be \"close\", \"drop-newest\" or \"drop-oldest\", not \
             \"wait\"",
        ),
        (
            "server.allowed_origins = \"https://a\"",
            26,
            "`server.allowed_origins` must be a list of at most 256 texts, each an origin as \
             browsers send it, such as \"https://example.org\" (lower case, no path), not \
             \"https://a\"; write [\"https://a\"]",
        ),
        (
            "heartbeat.enabled = \"true\"",
            21,
            "`heartbeat.enabled` must be true or false, not \"true\"; write true",
        ),
        ("workers = 1", 1, "`workers` must be a table: write `[workers]`"),
        ("plugin = 1", 1, "`plugin` must be a list: write `[[plugin]]`"),
        ("plugin = {}", 1, "`plugin` must be a list: write `[[plugin]]`"),
        ("plugin = [1]", 11, "each `plugin` must be a table: write `[[plugin]]`"),
    ] {
        assert_problem(line, &format!("plugsock.toml:1:{column}: {expected}"));
    }
}

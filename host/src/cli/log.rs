//! The log on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Format, Log};

/// Sends the process's events to standard error. Where something else takes them already, it
/// goes on to.
pub(super) fn init(log: &Log) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(directives(&log.level)))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let _ = match log.format {
        Format::Human => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
}

/// A level alone is meant for the host. The compiler below it says thousands of lines per plugin.
fn directives(level: &str) -> Cow<'_, str> {
    match level.to_ascii_lowercase().as_str() {
        alone @ ("debug" | "trace") => Cow::Owned(format!("info,plugsock={alone}")),
        _ => Cow::Borrowed(level),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_alone_is_for_the_host() {
        assert_eq!(directives("Debug"), "info,plugsock=debug");
        assert_eq!(directives("trace"), "info,plugsock=trace");
        for as_it_is in ["info", "off", "debug,wasmtime=warn", "plugsock::conn=trace"] {
            assert_eq!(directives(as_it_is), as_it_is);
        }
    }
}

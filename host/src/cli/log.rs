//! The log on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{Format, Log};

/// Sends the process's events to standard error. Where something else takes them already, it
/// goes on to.
pub(super) fn init(log: &Log) {
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::builder().parse_lossy(&log.level))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal());
    let _ = match log.format {
        Format::Human => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
}

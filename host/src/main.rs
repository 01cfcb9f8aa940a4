//! The `plugsock` command.

use std::process::ExitCode;

/// Gives memory back to the system within seconds when many connections or large messages are gone,
/// which the system's own allocator may never do: docs/decisions/0004-allocator.md.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    plugsock::cli::run(std::env::args_os(), &plugsock::config::environment())
}

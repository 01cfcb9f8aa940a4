//! The `plugsock` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    plugsock::cli::run(std::env::args_os(), &plugsock::config::environment())
}

//! The echo of `epoll-echo` over mio.

use std::process::ExitCode;

use plugsock_bench::{Tool, run};

fn main() -> ExitCode {
    run(Tool::MioEcho)
}

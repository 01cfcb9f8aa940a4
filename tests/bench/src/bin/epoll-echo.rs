//! The bare limit: a WebSocket echo over one raw epoll loop.

use std::process::ExitCode;

use plugsock_bench::{Tool, run};

fn main() -> ExitCode {
    run(Tool::EpollEcho)
}

//! The references for broadcast: what one client sends goes to all, over one raw epoll loop.

use std::process::ExitCode;

use plugsock_bench::{Tool, run};

fn main() -> ExitCode {
    run(Tool::EpollBroadcast)
}

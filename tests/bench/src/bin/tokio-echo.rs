//! The echo of `epoll-echo` over a current-thread tokio runtime.

use std::process::ExitCode;

use plugsock_bench::{Tool, run};

fn main() -> ExitCode {
    run(Tool::TokioEcho)
}

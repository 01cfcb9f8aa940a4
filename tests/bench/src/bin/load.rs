//! The load generator.

use std::process::ExitCode;

use plugsock_bench::{Tool, run};

fn main() -> ExitCode {
    run(Tool::Load)
}

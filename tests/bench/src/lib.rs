//! What Plugsock is measured beside: bare loops. The load comes from `plugsock bench`.
//!
//! The echo servers share framing and handshake, so that they differ only in how they wait for
//! sockets. The broadcast server has two ways to send to many: the least that it can cost, and
//! the plain loop over messages and clients. None of them is fit for anything but measuring: they
//! have no limits and no deadlines.
//! `README.md` says how to run them and how to read what they print.

#[cfg(target_os = "linux")]
mod args;
#[cfg(target_os = "linux")]
mod broadcast;
#[cfg(target_os = "linux")]
mod echo;
#[cfg(target_os = "linux")]
mod frame;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod upgrade;

use std::process::ExitCode;

/// The programs of this package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `epoll-echo`: the reference for CPU cost.
    EpollEcho,
    /// `mio-echo`: the same loop over mio.
    MioEcho,
    /// `tokio-echo`: one task per connection on a current-thread tokio runtime.
    TokioEcho,
    /// `epoll-broadcast`: what one client sends goes to all, encoded once or for each of them.
    EpollBroadcast,
}

/// Runs a tool with the arguments of the process.
///
/// The exit code is 0 if all went well, 1 if the server or the system failed, 2 if the arguments
/// or the platform do not fit.
#[cfg(target_os = "linux")]
pub fn run(tool: Tool) -> ExitCode {
    let args = args::Args::from_env();
    let outcome = match tool {
        Tool::EpollEcho => echo::run(args, echo::epoll_loop::run),
        Tool::MioEcho => echo::run(args, echo::mio_loop::run),
        Tool::TokioEcho => echo::run(args, echo::tokio_loop::run),
        Tool::EpollBroadcast => broadcast::run(args),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    }
}

/// Runs a tool with the arguments of the process: only on Linux.
#[cfg(not(target_os = "linux"))]
pub fn run(tool: Tool) -> ExitCode {
    eprintln!("{tool:?} measures Linux's epoll and /proc and does not run on this system");
    ExitCode::from(2)
}

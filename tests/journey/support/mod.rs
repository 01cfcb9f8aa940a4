//! Hosts, clients, and how tests wait for something.

mod client;
mod frames;
mod http;
mod network;
mod process;
mod random;
mod records;
mod site;
mod stage;
mod wire;

use std::time::Duration;

pub(crate) use client::{Client, Got};
pub(crate) use frames::{frame, headed, masked};
pub(crate) use http::{Answer, HEAD, answer, connect, exchange, read_all, upgrade};
pub(crate) use network::Network;
pub(crate) use process::{Process, program};
pub(crate) use random::{Random, prose};
pub(crate) use records::Records;
pub(crate) use site::{Served, Site, plugin_file};
pub(crate) use stage::{Case, Request, Stage};

/// Nothing takes so long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = plugsock::clock::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never came about: {what}");
        plugsock::task::sleep(Duration::from_millis(5));
    }
}

/// Runs `body` on a thread of its own.
pub(crate) fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    plugsock::task::spawn("test", body).unwrap()
}

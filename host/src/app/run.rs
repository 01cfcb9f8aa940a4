//! Serves until a signal says otherwise.

use std::time::Duration;

use tokio::runtime::Builder;

use super::{Error, Host};
use crate::config::Config;

/// How often the threads are looked after.
const LOOK: Duration = Duration::from_secs(1);

/// Starts a host, says so through `announce`, and serves until SIGINT or SIGTERM. Then stops in an
/// orderly way; a second signal hastens it.
///
/// # Errors
/// Where the host does not start, a thread failed, or signals cannot be received.
pub fn run(config: &Config, announce: impl FnOnce(&Host)) -> Result<(), Error> {
    // Before the first client can come: a crowd may take every descriptor, and whoever reads the
    // announcement may send a signal at once.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::listen() })?;
    let host = Host::start(config)?;
    announce(&host);
    runtime.block_on(async {
        loop {
            tokio::select! {
                name = signals.next() => {
                    tracing::info!("{name}: stopping");
                    return;
                }
                () = tokio::time::sleep(LOOK) => {
                    if host.is_broken() {
                        tracing::error!("an I/O thread has ended: stopping");
                        return;
                    }
                }
            }
        }
    });
    let haste = host.haste();
    let stopping = crate::task::spawn("stop", move || host.stop())?;
    runtime.block_on(async {
        while !stopping.is_finished() {
            tokio::select! {
                name = signals.next() => {
                    tracing::warn!("{name} again: stopping at once");
                    haste();
                }
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
    });
    stopping.join().map_err(|_| std::io::Error::other("the stop panicked"))?
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "fails on other platforms")]
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        // Where Ctrl-C cannot be received, the process is ended from outside.
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    }
}

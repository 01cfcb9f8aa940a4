//! Puts the host together, and takes it apart again.

mod describe;
mod error;
mod io;
mod load;
mod pages;
mod run;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use plugsock_ws::Limits;
use plugsock_ws::handshake::HeadLimits;

pub use describe::describe;
pub use error::Error;
pub use load::{Checked, Found, check_plugins};
pub use run::run;

use crate::config::{self, Config};
use crate::conn::{Pages, Route, Routes, Target};
use crate::files::Files;
use crate::inbound::{Inbound, Sequence};
use crate::listen::{self, Admission, Listener};
use crate::metrics::{Counter, Metrics};
use crate::outbound::{Compression, Encoding, Shared};
use crate::plugin::{Engine, Table};
use crate::shard::{self, Control};
use crate::worker::{self, Pool};
use crate::{clock, conn};

/// What a shard may take to drop its connections at once.
const ABANDON_TIME: Duration = Duration::from_secs(5);

/// What handlers may take to return once nobody waits for them any more.
const HASTY_TIME: Duration = Duration::from_secs(1);

/// A host that serves.
#[derive(Debug)]
pub struct Host {
    addresses: Vec<SocketAddr>,
    control: Arc<Control>,
    shared: Arc<Shared>,
    pool: Pool,
    metrics: Arc<Metrics>,
    drain_timeout: Duration,
}

impl Host {
    /// Loads the plugins, binds the sockets and starts the threads. When it returns, clients can
    /// connect.
    ///
    /// # Errors
    /// Each says what is wrong and where. Nothing is left running.
    pub fn start(config: &Config) -> Result<Self, Error> {
        let shards = config.server.shards;
        let engine = Engine::new(&config.plugin)?;
        let versions = load::load(&engine, &config.plugins)?;
        let pages = Files::new(&config.statics)?;
        let mut sockets = Sockets::bind(&config.listen, shards)?;

        let shared = Shared::new(shards, config.plugins.len());
        for version in &versions {
            let facts = version.facts();
            shared.wishes.set(version.id(), facts.wants_request, facts.wants_attachment);
        }
        let inbound = Arc::new(Inbound::new(&config.inbound, shards, config.workers.threads));
        let metrics = Arc::new(Metrics::new(shards + 2 * config.workers.threads));
        let pages = (!config.statics.is_empty())
            .then(|| pages::start(pages, Arc::clone(&shared)))
            .transpose()?;

        let mut pool = Pool::start(
            &config.workers,
            Arc::new(worker::Env {
                inbound: Arc::clone(&inbound),
                shared: Arc::clone(&shared),
                table: Table::new(versions),
                engine,
                on_failure: config.plugins.iter().map(|plugin| plugin.on_failure).collect(),
                encoding: encoding(&config.conn),
                metrics: Arc::clone(&metrics),
            }),
        )?;
        let admission = Admission::new(&config.listen);
        let control = Arc::new(Control::default());
        let routes = Arc::new(routes(config));
        let windows = Arc::new(AtomicUsize::new(0));
        for shard in 0..shards {
            let env = conn::Env {
                shard,
                config: config.conn.clone(),
                limits: Limits {
                    max_frame_size: config.conn.max_frame_size,
                    max_message_size: config.conn.max_message_size,
                },
                head_limits: HeadLimits {
                    max_size: config.conn.max_header_size,
                    ..HeadLimits::default()
                },
                routes: Arc::clone(&routes),
                pages: pages.clone().map(|pages| pages as Arc<dyn Pages>),
                inbound: Arc::clone(&inbound),
                shared: Arc::clone(&shared),
                metrics: Arc::clone(&metrics),
                windows: Arc::clone(&windows),
            };
            let (admission, control) = (Arc::clone(&admission), Arc::clone(&control));
            let shard = shard::open(env, sockets.of_shard(), admission, control)?;
            pool.add_shard(Box::new(shard))?;
        }
        Ok(Self {
            addresses: sockets.addresses,
            control,
            shared,
            pool,
            metrics,
            drain_timeout: config.server.drain_timeout,
        })
    }

    /// What it listens on; with the true port where 0 was configured.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether a thread has ended that should not have.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.pool.has_lost_a_shard()
    }

    /// The host's counters.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Makes a stop that is under way, or the next one, wait for nobody.
    pub fn haste(&self) -> impl Fn() + Send + Sync + 'static {
        let (control, shared) = (Arc::clone(&self.control), Arc::clone(&self.shared));
        move || {
            control.stop();
            control.abandon();
            shared.hub.ring_all();
        }
    }

    /// Lets nobody in any more, closes everybody with 1001, waits until they are gone and all
    /// handlers have returned, at most the drain timeout.
    ///
    /// # Errors
    /// Where a thread failed.
    pub fn stop(self) -> Result<(), Error> {
        self.control.stop();
        self.shared.hub.ring_all();
        let end = clock::now() + self.drain_timeout;
        if !self.pool.wait_for_shards(end)? {
            tracing::warn!("the drain timeout is over: the remaining connections are dropped");
            self.control.abandon();
            self.shared.hub.ring_all();
        }
        self.pool.wait_for_shards(clock::now() + ABANDON_TIME)?;
        let hasty = clock::now() + HASTY_TIME;
        let control = self.control;
        if !self.pool.close(|| if control.is_abandoned() { hasty } else { end.max(hasty) })? {
            tracing::warn!("the remaining handlers are abandoned");
        }
        for (counter, name) in Counter::ALL {
            tracing::info!(count = self.metrics.total(counter), "{name}");
        }
        Ok(())
    }
}

fn encoding(config: &conn::Config) -> Encoding {
    let compression = config.compression.as_ref().map(|compression| Compression {
        settings: compression.settings,
        window_bits: compression.policy.server_max_window_bits,
        threshold: compression.threshold,
    });
    Encoding {
        max_message_size: usize::try_from(config.max_message_size).unwrap_or(usize::MAX),
        fragment_size: config.fragment_size,
        compression,
    }
}

fn routes(config: &Config) -> Routes {
    let target = |target| match target {
        config::Target::BuiltinEcho => Target::BuiltinEcho,
        config::Target::Plugin(plugin) => {
            let instances = config.plugins.get(usize::from(plugin.0)).map(|one| one.instances);
            let sequence = match instances.unwrap_or_default() {
                config::Instances::Pool => Sequence::Connection,
                config::Instances::Single => Sequence::Plugin,
            };
            Target::Plugin { plugin, sequence }
        }
    };
    let route = |route: &config::Route| Route {
        path: route.path.clone(),
        target: target(route.target),
        subprotocols: route.subprotocols.clone(),
        require_subprotocol: route.require_subprotocol,
    };
    Routes::new(config.routes.iter().map(route).collect())
}

/// The listening sockets of all shards.
struct Sockets {
    addresses: Vec<SocketAddr>,
    /// By address, one for each shard.
    listeners: Vec<Vec<Listener>>,
}

impl Sockets {
    fn bind(config: &listen::Config, shards: usize) -> Result<Self, Error> {
        let mut sockets = Self { addresses: Vec::new(), listeners: Vec::new() };
        for &address in &config.addresses {
            let cannot = |cause| Error::Listen { address, cause };
            let listeners = listen::bind(address, config, shards).map_err(cannot)?;
            let bound = listeners.first().map(|one| one.socket.local_addr());
            sockets.addresses.push(bound.transpose().map_err(cannot)?.unwrap_or(address));
            sockets.listeners.push(listeners);
        }
        Ok(sockets)
    }

    /// The sockets of one more shard.
    fn of_shard(&mut self) -> Vec<Listener> {
        self.listeners.iter_mut().filter_map(Vec::pop).collect()
    }
}

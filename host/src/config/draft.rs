//! The configuration while it is put together, and the rules between its parts.

use std::collections::HashMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use plugsock_ws::deflate;
use plugsock_ws::extension::{Policy, WindowBits};

use super::problem::{Place, Problem, alternatives, nearest};
use super::units::{show_duration, show_size};
use super::{
    Config, Instances, Log, OnFailure, Plugin, Route, Server, Source, Static, Target, plugin,
};
use crate::conn::{self, Heartbeat};
use crate::types::{ConnectionId, PluginId};
use crate::{inbound, listen, worker};

/// What was found so far.
#[derive(Default)]
pub(super) struct Report {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// Settings as they are written, before those that depend on each other are worked out.
pub(super) struct Draft {
    /// All that has its final form already.
    pub config: Config,
    /// 0: one per core.
    pub shards: usize,
    /// 0: one per core.
    pub threads: usize,
    /// 0: [`HANDLERS_PER_THREAD`].
    pub pool_size: usize,
    pub compression_enabled: bool,
    pub compression: CompressionDraft,
    pub heartbeat_enabled: bool,
    pub heartbeat: Heartbeat,
    pub plugins: Vec<Entry<PluginDraft>>,
    pub routes: Vec<Entry<RouteDraft>>,
    pub statics: Vec<Entry<StaticDraft>>,
    /// The directory that paths are relative to.
    pub directory: PathBuf,
    /// Where each `section.key` was set last, latest at the end.
    pub origins: Vec<(String, Place)>,
}

/// `[compression]` in plain numbers.
pub(super) struct CompressionDraft {
    pub level: u8,
    pub mem_level: u8,
    pub server_max_window_bits: u8,
    pub client_max_window_bits: u8,
    pub context_takeover: bool,
    pub threshold: usize,
    pub memory_budget: usize,
}

impl Default for CompressionDraft {
    fn default() -> Self {
        Self {
            level: 1,
            mem_level: 8,
            server_max_window_bits: 15,
            client_max_window_bits: 15,
            context_takeover: false,
            threshold: 256,
            memory_budget: 1 << 30,
        }
    }
}

impl CompressionDraft {
    fn build(&self) -> conn::Compression {
        let bits = |bits| WindowBits::new(bits).unwrap_or(WindowBits::MAX);
        conn::Compression {
            policy: Policy {
                server_max_window_bits: bits(self.server_max_window_bits),
                client_max_window_bits: bits(self.client_max_window_bits),
                context_takeover: self.context_takeover,
            },
            settings: deflate::Settings { level: self.level, mem_level: self.mem_level },
            threshold: self.threshold,
            memory_budget: self.memory_budget,
        }
    }
}

/// One of a list of tables. Texts that are missing are empty.
pub(super) struct Entry<T> {
    pub value: T,
    /// Its header.
    pub place: Place,
    pub origins: Vec<(&'static str, Place)>,
}

#[derive(Default)]
pub(super) struct PluginDraft {
    pub name: String,
    pub source: String,
    pub instances: Instances,
    pub on_failure: OnFailure,
}

#[derive(Default)]
pub(super) struct RouteDraft {
    pub path: String,
    pub plugin: String,
    pub builtin: Option<Builtin>,
    pub subprotocols: Vec<String>,
    pub require_subprotocol: bool,
}

#[derive(Default)]
pub(super) struct StaticDraft {
    pub path: String,
    pub dir: String,
}

/// What the host serves without a plugin.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Builtin {
    Echo,
}

const HANDLERS_PER_THREAD: usize = 4;

/// Cores that this process may use.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            config: Config {
                server: Server::default(),
                listen: listen::Config::default(),
                conn: conn::Config::default(),
                inbound: inbound::Config::default(),
                workers: worker::Config::default(),
                plugin: plugin::Config {
                    memory_limit: 64 << 20,
                    call_deadline: Duration::from_secs(1),
                    handlers: 0,
                    plugins: 0,
                },
                plugins: Vec::new(),
                routes: Vec::new(),
                statics: Vec::new(),
                log: Log::default(),
            },
            shards: 0,
            threads: 0,
            pool_size: 0,
            compression_enabled: false,
            compression: CompressionDraft::default(),
            heartbeat_enabled: true,
            heartbeat: Heartbeat::default(),
            plugins: Vec::new(),
            routes: Vec::new(),
            statics: Vec::new(),
            directory: PathBuf::new(),
            origins: Vec::new(),
        }
    }
}

impl Draft {
    /// Works out what depends on other settings, and checks that all of them fit together. The
    /// result counts only if the report has no problems.
    pub(super) fn build(mut self, report: &mut Report) -> Config {
        self.size_threads();
        self.size_frames();
        self.check_relations(report);
        self.config.conn.compression = self.compression_enabled.then(|| self.compression.build());
        self.config.conn.heartbeat = self.heartbeat_enabled.then_some(self.heartbeat);
        if self.plugins.is_empty() && self.routes.is_empty() && self.statics.is_empty() {
            self.embed_echo();
        } else {
            self.config.plugins = self.build_plugins(report);
            self.config.routes = self.build_routes(report);
            self.config.statics = self.build_statics(report);
        }
        self.config.plugin.handlers =
            self.config.workers.pool_size + self.config.server.shards * worker::SHARD_THREADS;
        self.config.plugin.plugins = self.config.plugins.len().max(1);
        self.config
    }

    fn size_threads(&mut self) {
        self.config.server.shards = match self.shards {
            0 => Server::default().shards,
            shards => shards,
        };
        // A small pool that suits one machine must not be an error on one with more cores.
        let threads = match (self.threads, self.pool_size) {
            (0, 0) => cores(),
            (0, pool_size) => cores().min(pool_size),
            (threads, _) => threads,
        };
        self.config.workers.threads = threads;
        self.config.workers.pool_size = match self.pool_size {
            0 => threads * HANDLERS_PER_THREAD,
            pool_size => pool_size,
        };
    }

    /// Whoever lowers the message's limit alone means the frame's too.
    fn size_frames(&mut self) {
        let key = "limits.max_frame_size";
        if self.origins.iter().all(|(set, _)| set != key) {
            let conn = &mut self.config.conn;
            conn.max_frame_size = conn.max_frame_size.min(conn.max_message_size);
        }
    }

    fn check_relations(&self, report: &mut Report) {
        let Config { server, listen, conn, inbound, workers, .. } = &self.config;
        let mut check = |fits: bool, keys: [&str; 2], sentence: String| {
            if !fits {
                report.problems.push(Problem::new(&self.origin(keys), sentence));
            }
        };
        let (frame, message) = (conn.max_frame_size, conn.max_message_size);
        check(
            frame <= message,
            ["limits.max_frame_size", "limits.max_message_size"],
            format!(
                "`limits.max_frame_size` ({}) is above `limits.max_message_size` ({}): lower the \
                 first or raise the second",
                show_size(frame),
                show_size(message),
            ),
        );
        let queue = u64::try_from(inbound.queue_bytes).unwrap_or(u64::MAX);
        check(
            queue >= message,
            ["workers.queue_bytes", "limits.max_message_size"],
            format!(
                "`workers.queue_bytes` ({}) is below `limits.max_message_size` ({}): the largest \
                 message would never fit in the queue; raise the first or lower the second",
                show_size(queue),
                show_size(message),
            ),
        );
        check(
            workers.pool_size >= workers.threads,
            ["workers.pool_size", "workers.threads"],
            format!(
                "`workers.pool_size` ({}) is below `workers.threads` ({}): some threads could \
                 never run a handler; raise the first or lower the second",
                workers.pool_size, workers.threads,
            ),
        );
        let Heartbeat { interval, timeout } = self.heartbeat;
        check(
            !self.heartbeat_enabled || timeout > interval,
            ["heartbeat.timeout", "heartbeat.interval"],
            format!(
                "`heartbeat.timeout` ({}) is not above `heartbeat.interval` ({}): peers would be \
                 called dead before they can answer; raise the first or lower the second",
                show_duration(timeout),
                show_duration(interval),
            ),
        );
        let room = server.shards.saturating_mul(ConnectionId::MAX_SLOTS);
        check(
            listen.max_connections <= room,
            ["server.max_connections", "server.shards"],
            format!(
                "`server.max_connections` ({}) is above {} per shard (shards: {}): lower it or \
                 raise `server.shards`",
                listen.max_connections,
                ConnectionId::MAX_SLOTS,
                server.shards,
            ),
        );
    }

    /// Where the first of the keys that was set at all was set last.
    fn origin(&self, keys: [&str; 2]) -> Place {
        let last = |key: &str| self.origins.iter().rfind(|(name, _)| name == key);
        let found = keys.into_iter().find_map(last);
        found.map_or(Place::Default {}, |(_, place)| place.clone())
    }

    fn embed_echo(&mut self) {
        self.config.plugins = vec![Plugin {
            name: "echo".to_owned(),
            source: Source::EmbeddedEcho,
            instances: Instances::default(),
            on_failure: OnFailure::default(),
        }];
        self.config.routes = vec![Route {
            path: "/".to_owned(),
            target: Target::Plugin(PluginId(0)),
            subprotocols: Vec::new(),
            require_subprotocol: false,
        }];
    }

    fn build_plugins(&self, report: &mut Report) -> Vec<Plugin> {
        refuse_twins("plugin.name", &self.plugins, |plugin| &plugin.name, report);
        let routed = |name: &str| self.routes.iter().any(|route| route.value.plugin == name);
        for entry in &self.plugins {
            let name = &entry.value.name;
            if !name.is_empty() && !routed(name) {
                let sentence = format!("no route names plugin `{name}`: nothing will reach it");
                report.warnings.push(Problem::new(entry.origin("name"), sentence));
            }
        }
        let build = |entry: &Entry<PluginDraft>| {
            let PluginDraft { name, source, instances, on_failure } = &entry.value;
            let source = self.directory.join(source);
            check_exists("plugin.source", Path::is_file, &source, entry, report);
            Plugin {
                name: name.clone(),
                source: Source::File(source),
                instances: *instances,
                on_failure: *on_failure,
            }
        };
        self.plugins.iter().map(build).collect()
    }

    fn build_routes(&self, report: &mut Report) -> Vec<Route> {
        refuse_twins("route.path", &self.routes, |route| &route.path, report);
        let build = |entry: &Entry<RouteDraft>| {
            let RouteDraft { path, subprotocols, require_subprotocol, .. } = &entry.value;
            if *require_subprotocol && subprotocols.is_empty() {
                report.problems.push(Problem::new(
                    entry.origin("require_subprotocol"),
                    "`route.require_subprotocol` is true but `route.subprotocols` is empty: \
                     every client would be refused; list the subprotocols",
                ));
            }
            Route {
                path: path.clone(),
                target: self.target(entry, report),
                subprotocols: subprotocols.clone(),
                require_subprotocol: *require_subprotocol,
            }
        };
        self.routes.iter().map(build).collect()
    }

    fn target(&self, entry: &Entry<RouteDraft>, report: &mut Report) -> Target {
        let name = &entry.value.plugin;
        let sentence = match (name.as_str(), entry.value.builtin) {
            ("", Some(Builtin::Echo)) => return Target::BuiltinEcho,
            // Where the key is there, its value was bad, and that was said.
            ("", None) if entry.has("plugin") || entry.has("builtin") => {
                return Target::BuiltinEcho;
            }
            ("", None) => "missing key `route.plugin`: name the plugin that serves this route, or \
                           set `builtin = \"echo\"`"
                .to_owned(),
            (_, Some(_)) => "`route.plugin` and `route.builtin` exclude each other: keep one of \
                             them"
                .to_owned(),
            (_, None) => match self.plugin_id(name) {
                Some(id) => return Target::Plugin(id),
                None => self.unknown_plugin(name),
            },
        };
        report.problems.push(Problem::new(entry.origin("plugin"), sentence));
        Target::BuiltinEcho
    }

    fn plugin_id(&self, name: &str) -> Option<PluginId> {
        let place = self.plugins.iter().position(|plugin| plugin.value.name == name)?;
        u16::try_from(place).ok().map(PluginId)
    }

    fn unknown_plugin(&self, name: &str) -> String {
        let known = || self.plugins.iter().map(|plugin| plugin.value.name.as_str());
        let hint = match nearest(name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.plugins.is_empty() => "there is no [[plugin]]".to_owned(),
            None => format!("known: {}", alternatives(known().take(16), '`')),
        };
        format!("`route.plugin`: unknown plugin `{name}`; {hint}")
    }

    fn build_statics(&self, report: &mut Report) -> Vec<Static> {
        let plain = |path: &str| match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        refuse_twins("static.path", &self.statics, |dir| dir.path.trim_end_matches('/'), report);
        let build = |entry: &Entry<StaticDraft>| {
            let dir = self.directory.join(&entry.value.dir);
            check_exists("static.dir", Path::is_dir, &dir, entry, report);
            Static { path: plain(&entry.value.path), dir }
        };
        self.statics.iter().map(build).collect()
    }
}

impl<T> Entry<T> {
    /// Where one of its keys stands, else its header.
    fn origin(&self, key: &str) -> &Place {
        let found = self.origins.iter().find(|(name, _)| *name == key);
        found.map_or(&self.place, |(_, place)| place)
    }

    fn has(&self, key: &str) -> bool {
        self.origins.iter().any(|(name, _)| *name == key)
    }
}

/// Each entry but the first with the same text is a problem.
fn refuse_twins<T>(
    full: &str,
    entries: &[Entry<T>],
    text: impl Fn(&T) -> &str,
    report: &mut Report,
) {
    let key = last_part(full);
    let mut seen = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.has(key)) {
        let place = entry.origin(key);
        if let Some(Place::Line { line, .. }) = seen.insert(text(&entry.value), place) {
            let sentence = format!("`{full}` is the same as in line {line}: change or remove one");
            report.problems.push(Problem::new(place, sentence));
        }
    }
}

fn check_exists<T>(
    full: &str,
    exists: impl Fn(&Path) -> bool,
    path: &Path,
    entry: &Entry<T>,
    report: &mut Report,
) {
    let key = last_part(full);
    if entry.has(key) && !path.as_os_str().is_empty() && !exists(path) {
        let shown = path.display();
        let sentence = match (key == "dir", path.exists()) {
            (true, false) => format!("`{full}`: there is no directory {shown}"),
            (true, true) => format!("`{full}`: {shown} is a file, not a directory"),
            (false, false) => format!("`{full}`: there is no file {shown}"),
            (false, true) => {
                format!("`{full}`: {shown} is a directory: name the .wasm file that the build made")
            }
        };
        report.problems.push(Problem::new(entry.origin(key), sentence));
    }
}

fn last_part(full: &str) -> &str {
    full.rsplit('.').next().unwrap_or(full)
}

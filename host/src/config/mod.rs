//! From strings to a valid configuration. No other module parses what an operator wrote, or looks
//! at the environment.
//!
//! Defaults are overridden by the file, the file by `PLUGSOCK_SECTION_KEY` in the environment, and
//! that by the command line. All problems are found in one go.

mod default_file;
mod draft;
mod field;
mod file;
mod hint;
mod keys;
mod overrides;
mod problem;
mod units;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::types::PluginId;
use crate::{conn, inbound, listen, plugin, worker};

pub use crate::files::Static;
pub use crate::worker::OnFailure;
pub use default_file::default_file;
pub use problem::{Place, Problem};

use draft::{Draft, Report};

/// All that an operator may set. Every value is in its documented range, and they fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The host as a whole.
    pub server: Server,
    /// Listening sockets and admission.
    pub listen: listen::Config,
    /// Each connection.
    pub conn: conn::Config,
    /// The queue in front of the workers.
    pub inbound: inbound::Config,
    /// The worker pool.
    pub workers: worker::Config,
    /// Running plugins. Its `handlers` is the pool size, its `plugins` at least 1.
    pub plugin: plugin::Config,
    /// A [`PluginId`] is a place in this list. At most 256.
    pub plugins: Vec<Plugin>,
    /// A [`crate::types::RouteId`] is a place in this list. No two have the same path. At most
    /// 4,096.
    pub routes: Vec<Route>,
    /// Directories to serve. No two have the same path. At most 64.
    pub statics: Vec<Static>,
    /// The log.
    pub log: Log,
}

/// The host as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// I/O threads, 1 to 256; by default one per core.
    pub shards: usize,
    /// How long a stop may take; by default 30 s.
    pub drain_timeout: Duration,
}

/// A plugin to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// 1 to 64 letters, digits, `-` or `_`; unique.
    pub name: String,
    /// Where the component comes from.
    pub source: Source,
    /// Who serves whom.
    pub instances: Instances,
    /// What becomes of the connection whose handler failed.
    pub on_failure: OnFailure,
}

/// Where a component comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file, which existed when the configuration was read.
    File(PathBuf),
    /// The echo plugin in the host's own binary.
    EmbeddedEcho,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::EmbeddedEcho => f.write_str("embedded"),
        }
    }
}

/// Which instance of a plugin serves which connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instances {
    /// Any free one serves any connection.
    #[default]
    Pool,
    /// One serves all of them, one event after another.
    Single,
}

/// Which connections go where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Compared exactly with the path of the URL as it was sent.
    pub path: String,
    /// Who serves it.
    pub target: Target,
    /// Spoken by the target; a connection has at most one of them (RFC 6455 §4.2.2).
    pub subprotocols: Vec<String>,
    /// Whether a client without a common subprotocol is refused. Then the list is not empty.
    pub require_subprotocol: bool,
}

/// Who serves a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A plugin, on the worker pool.
    Plugin(PluginId),
    /// The I/O thread itself, which sends every message back.
    BuiltinEcho,
}

/// The log on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How each line looks.
    pub format: Format,
    /// In the syntax of tracing-subscriber's `EnvFilter`, which accepts it; by default `info`.
    pub level: String,
}

/// How the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// Where to look for settings, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// A TOML file of at most 1 MiB.
    pub file: Option<&'a Path>,
    /// Names and values of environment variables. Only `PLUGSOCK_*` is looked at.
    pub environment: &'a [(String, String)],
    /// `section.key` and value.
    pub set: &'a [(String, String)],
    /// Addresses in place of `server.listen`, unless empty.
    pub listen: &'a [SocketAddr],
}

/// A valid configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// What to run.
    pub config: Config,
    /// What is allowed but hardly meant.
    pub warnings: Vec<Problem>,
}

/// Reads all sources. Looks at the file system: the file, and whether what it names exists.
///
/// # Errors
/// Everything that is wrong, at least one problem, in the order of the sources.
pub fn load(sources: &Sources<'_>) -> Result<Loaded, Vec<Problem>> {
    let mut draft = Draft::default();
    let mut report = Report::default();
    if let Some(path) = sources.file {
        file::read(path, &mut draft, &mut report);
    }
    overrides::environment(sources.environment, &mut draft, &mut report);
    overrides::flags(sources.set, sources.listen, &mut draft, &mut report);
    let config = draft.build(&mut report);
    let Report { mut problems, warnings } = report;
    if problems.is_empty() {
        return Ok(Loaded { config, warnings });
    }
    problems.sort_by(|a, b| a.place.cmp(&b.place));
    Err(problems)
}

/// The address to listen on that `text` names, such as `127.0.0.1:8080`.
///
/// # Errors
/// Where it is none: a sentence that says what to write instead.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let example = "must be an address with a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
    text.parse().map_err(|_| format!("{example}; {}", hint::address(text)))
}

/// The process's environment, for [`Sources`]. What is not UTF-8 is replaced by U+FFFD.
#[must_use]
pub fn environment() -> Vec<(String, String)> {
    let text = |os: std::ffi::OsString| os.to_string_lossy().into_owned();
    let all = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    all.filter(|(name, _)| name.starts_with(overrides::PREFIX)).collect()
}

/// The embedded echo plugin on `/`, and the default of every key.
impl Default for Config {
    fn default() -> Self {
        Draft::default().build(&mut Report::default())
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            shards: draft::cores().min(crate::types::ConnectionId::MAX_SHARDS),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { format: Format::default(), level: "info".to_owned() }
    }
}

#[cfg(test)]
mod tests;

//! What a host serves, and a host in this process that does.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plugsock::app::Host;
use plugsock::config::{self, Sources};
use plugsock::metrics::Counter;
use tempfile::TempDir;

use super::process::Process;

/// A configuration: the built-in echo at `/builtin`, and what is added.
#[derive(Debug)]
pub(crate) struct Site {
    toml: String,
    set: Vec<(String, String)>,
    dir: TempDir,
}

/// A host in this process. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    host: Option<Host>,
    _dir: TempDir,
}

impl Site {
    pub(crate) fn new() -> Self {
        let toml = "[[route]]\npath = \"/builtin\"\nbuiltin = \"echo\"\n".to_owned();
        let site = Self { toml, set: Vec::new(), dir: TempDir::new().unwrap() };
        site.set("server.listen", "127.0.0.1:0")
            .set("server.shards", "2")
            .set("workers.threads", "2")
            .set("server.drain_timeout", "10s")
            .set("log.level", "warn")
    }

    /// A plugin or guest of this project at the path of its name.
    pub(crate) fn plugin(self, name: &str) -> Self {
        self.plugin_as(name, name, "")
    }

    /// The same under another name and with more keys.
    pub(crate) fn plugin_as(self, name: &str, file: &str, keys: &str) -> Self {
        let source = plugin_file(file);
        let plugin = format!("[[plugin]]\nname = \"{name}\"\nsource = {source:?}\n{keys}\n");
        self.toml(&plugin).toml(&format!("[[route]]\npath = \"/{name}\"\nplugin = \"{name}\"\n"))
    }

    /// More of the file.
    pub(crate) fn toml(mut self, text: &str) -> Self {
        self.toml.push_str(text);
        self
    }

    /// One setting. The last one for a key counts.
    pub(crate) fn set(mut self, key: &str, value: &str) -> Self {
        self.set.retain(|(earlier, _)| earlier != key);
        self.set.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The directory of the configuration file.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Serves in this process.
    pub(crate) fn start(self) -> Served {
        let file = self.write();
        let sources = Sources { file: Some(&file), set: &self.set, ..Sources::default() };
        let loaded = config::load(&sources).unwrap();
        Served { host: Some(Host::start(&loaded.config).unwrap()), _dir: self.dir }
    }

    /// Serves in a process of its own.
    pub(crate) fn spawn(self) -> Process {
        let arguments = self.arguments();
        Process::serve(&arguments, self.dir)
    }

    /// The arguments of the command that serves it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let file = self.write().to_str().unwrap().to_owned();
        let mut arguments = vec!["serve".to_owned(), "--config".to_owned(), file];
        for (key, value) in &self.set {
            arguments.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        arguments
    }

    fn write(&self) -> PathBuf {
        let file = self.dir.path().join("plugsock.toml");
        fs::write(&file, &self.toml).unwrap();
        file
    }
}

impl Served {
    pub(crate) fn address(&self) -> SocketAddr {
        self.host().addresses()[0]
    }

    pub(crate) fn host(&self) -> &Host {
        self.host.as_ref().unwrap()
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.host().metrics().total(counter)
    }

    /// Closed connections and dropped messages, because a client did not read.
    pub(crate) fn count_slow(&self) -> u64 {
        let verdicts = [Counter::ClosedAsSlow, Counter::DroppedNewest, Counter::DroppedOldest];
        verdicts.into_iter().map(|verdict| self.count(verdict)).sum()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let stopped = self.host.take().unwrap().stop();
        if !std::thread::panicking() {
            stopped.unwrap();
        }
    }
}

/// Where the component of a plugin or guest is.
pub(crate) fn plugin_file(name: &str) -> PathBuf {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/plugins");
    let file = plugins.join(format!("{name}.wasm"));
    assert!(file.exists(), "{} is missing: run `make plugins guests`", file.display());
    file.canonicalize().unwrap()
}

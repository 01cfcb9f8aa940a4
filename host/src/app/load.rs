//! From the configuration to plugins that are known to serve.

use std::fs;

use tokio::runtime::{Builder, Runtime};

use super::Error;
use crate::config::{Config, Plugin, Source};
use crate::plugin::{EMBEDDED_ECHO, Engine, Version};
use crate::types::PluginId;
use crate::worker::Desk;

/// What was found out about one plugin without serving it.
#[derive(Debug)]
pub struct Checked {
    /// Its name in the configuration.
    pub plugin: String,
    /// Where it comes from.
    pub source: Source,
    /// What it is, or why it cannot serve.
    pub found: Result<Found, Error>,
}

/// A plugin that can serve.
#[derive(Debug, Default)]
pub struct Found {
    /// The first 12 hex digits of its SHA-256.
    pub digest: String,
    /// Bytes of the component.
    pub size: usize,
    /// Interfaces that it exports, with versions.
    pub exports: Vec<String>,
    /// Interfaces that it imports, with versions.
    pub imports: Vec<String>,
}

/// Does with every plugin what a start would, and serves nothing: compiles it, compares its
/// interfaces with the host's, and makes an instance, which runs its `init`. Each takes from
/// milliseconds to seconds.
///
/// # Errors
/// Where WebAssembly cannot be run at all. What is wrong with a plugin is in the result.
pub fn check_plugins(config: &Config) -> Result<Vec<Checked>, Error> {
    let loader = Loader::new(&Engine::new(&config.plugin)?)?;
    let check = |(number, plugin): (u16, &Plugin)| Checked {
        plugin: plugin.name.clone(),
        source: plugin.source.clone(),
        found: loader.load(PluginId(number), plugin).map(|version| Found {
            digest: version.digest().to_owned(),
            size: version.size(),
            exports: version.facts().exports.clone(),
            imports: version.facts().imports.clone(),
        }),
    };
    Ok((0..).zip(&config.plugins).map(check).collect())
}

/// Loads every plugin, up to the first that cannot serve.
pub(super) fn load(engine: &Engine, plugins: &[Plugin]) -> Result<Vec<Version<Desk>>, Error> {
    let loader = Loader::new(engine)?;
    let load = |(number, plugin)| {
        let version = loader.load(PluginId(number), plugin)?;
        tracing::info!(plugin = version.name(), digest = version.digest(), "plugin ready");
        Ok(version)
    };
    (0..).zip(plugins).map(load).collect()
}

struct Loader {
    engine: Engine,
    /// Instances are made on it.
    runtime: Runtime,
}

impl Loader {
    fn new(engine: &Engine) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { engine: engine.clone(), runtime })
    }

    /// Compiles a plugin, and makes an instance to see that it can serve.
    fn load(&self, id: PluginId, plugin: &Plugin) -> Result<Version<Desk>, Error> {
        let (name, source) = (|| plugin.name.clone(), || plugin.source.clone());
        let bytes = match &plugin.source {
            Source::EmbeddedEcho => EMBEDDED_ECHO.into(),
            Source::File(path) => fs::read(path).map_err(|cause| Error::Unreadable {
                plugin: name(),
                path: path.clone(),
                cause,
            })?,
        };
        let version = Version::load(&self.engine, &plugin.name, id, &bytes)
            .map_err(|cause| Error::Load { plugin: name(), source: source(), cause })?;
        let instance = if version.facts().waits {
            self.runtime.block_on(version.instantiate())
        } else {
            version.instantiate_now(&mut None)
        };
        instance.map_err(|cause| Error::Instantiate { plugin: name(), source: source(), cause })?;
        Ok(version)
    }
}
